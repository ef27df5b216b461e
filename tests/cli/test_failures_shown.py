"""A failure is seen: where it was raised, what it said, and why it was not tried again."""

import asyncio
import subprocess

import pytest

from andon import Andon, Context

from .conftest import Cli
from .terminal import ANDON


def run(cli: Cli) -> None:
    """Tasks that fail for good, or at first, run by a real worker."""
    app = Andon(cli.url)

    @app.task(name="charge", max_retries=3, retry_on=["OSError"])
    async def charge(cents: int) -> None:
        raise ValueError(f"{cents} cents are too few")

    @app.task(name="flaky", max_retries=3, retry_delay=0)
    async def flaky(ctx: Context) -> str:
        if ctx.run == 0:
            raise OSError("not at the first try")
        return "done"

    async def main() -> None:
        async with asyncio.timeout(100), app, app.working():
            for task in (charge.options(id="bad").draft(-1), flaky.options(id="late").draft()):
                await app.submit_draft(task)
            engine = await app.engine()
            for task_id in ("bad", "late"):
                await engine.wait_end(task_id)

    asyncio.run(main())


@pytest.mark.parametrize("command", ["tasks", "dlq"])
def test_a_failed_task_shows_its_traceback_and_why_it_was_not_retried(
    cli: Cli, command: str
) -> None:
    run(cli)
    # As a process: what goes wrong inside this one must be no traceback, which the fixture checks.
    shows = [*ANDON, command, "show", "bad", "--url", cli.url]
    told = subprocess.run(shows, capture_output=True, text=True, check=True).stdout
    assert "not retried\tValueError is not in retry_on (OSError).\n" in told
    shown, traceback = told.split("Traceback (most recent call last):\n")
    assert shown.count("-1 cents are too few") == 1
    first, *frames, last = traceback.splitlines()
    assert first.strip().endswith("of Andon's own")
    assert "in charge" in frames[0]
    assert last == "ValueError: -1 cents are too few"


def test_a_completed_task_does_not_show_the_error_of_an_earlier_run_as_its_own(cli: Cli) -> None:
    run(cli)
    rows = [line.split("\t") for line in cli("tasks", "show", "late").stdout.splitlines()]
    about = {row[0]: row[1] for row in rows}
    assert about["state"] == "completed"
    assert "error" not in about
    assert "Traceback (most recent call last):" not in about
    assert any(row[0] == "run" and "OSError" in row[-1] for row in rows)  # that run still has it
