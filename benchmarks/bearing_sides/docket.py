"""docket (pydocket): a task that repeats itself. It has no groups with a closing task, and its
workers are its scheduler."""

from datetime import timedelta

from docket import Perpetual

from bearing_sides import shape


async def tick(
    perpetual: Perpetual = Perpetual(every=timedelta(seconds=1), automatic=True),  # noqa: B008 - as its docs
) -> None:
    shape.tick()


tasks = [tick]
groups = None
scheduler = None


def worker() -> list[str]:
    where = ["--docket", "side", "--url", shape.URL, "--tasks", "bearing_sides.docket:tasks"]
    options = ["--redelivery-timeout", f"{shape.SOON_S}s", "--logging-level", "WARNING"]
    return [shape.program("docket"), "worker", *where, *options]
