"""The one failure of its name among very many tasks, found in a real browser."""

import asyncio
from pathlib import Path

import pytest
from service.kit import Running, serving

from andon import Andon
from andon.engine.base import Submission

from .browser import chromium, looking, needs_chromium
from .finding import find_and_rerun

pytestmark = [needs_chromium, pytest.mark.slow]

MANY, FAILURES, BATCH = 20_000, 300, 2_000


def make_crowd(folder: Path) -> Andon:
    """An application whose tasks fail, each type in its own words."""
    app = Andon(f"sqlite:///{folder}/tasks.db")

    @app.task(name="refund", max_retries=0)
    async def refund(order: int) -> None:
        raise LookupError(f"Order {order} was never paid")

    @app.task(name="charge", max_retries=0)
    async def charge(order: int) -> None:
        raise ConnectionError(f"bank refused order {order}")

    return app


async def fail(running: Running, name: str, count: int) -> None:
    """So many tasks of a type, which fail."""
    engine = running.service.engine
    tasks = [Submission(id=f"{name}-{n}", name=name, args=b"[%d]" % n) for n in range(count)]
    await engine.submit(tasks)
    await asyncio.gather(*(engine.wait_end(f"{name}-{n}") for n in range(count)))


async def wait_for_tomorrow(running: Running, numbers: range) -> None:
    """Tasks that do not run."""
    await running.service.engine.submit(
        [Submission(id=f"later-{n}", name="charge", delay=86_400) for n in numbers]
    )


def test_a_failed_task_among_very_many_is_found_by_name_read_and_rerun_within_five_clicks(
    tmp_path: Path,
) -> None:
    with serving(make_crowd(tmp_path)) as running, running.working(shutdown_grace=0.1):
        running.call(fail(running, "refund", 1))  # the oldest of all
        running.call(fail(running, "charge", FAILURES))
        for start in range(0, MANY, BATCH):
            running.call(wait_for_tomorrow(running, range(start, start + BATCH)))
        with chromium() as browser, looking(browser, running.url) as board:
            page = board.open("/")
            assert find_and_rerun(page, "refund", "Order 0 was never paid") <= 5
        (again,) = running.call(running.service.engine.get(["refund-0"]))
        assert again.status.runs[-1].number > 0
