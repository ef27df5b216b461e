"""What the SQLite store remembers of the timers it handed out."""

import asyncio
from pathlib import Path

from andon.engine.base import Submission
from andon.engine.local import LocalEngine
from andon.stores.sqlite import SqliteStore

START = 1_800_000_000_000


async def _fire_fifty(path: Path) -> int:
    now = START
    store = SqliteStore(f"sqlite:///{path}", clock=lambda: now)
    engine = LocalEngine(store)
    await engine.open()
    await engine.submit([Submission(id=f"t{i}", name="job", delay=1.0) for i in range(50)])
    now += 1_000
    await engine.timekeeper.run_once()
    (queue,) = await engine.stats()
    assert queue.counts == {"pending": 50}
    remembered = len(store._held)
    await engine.close()
    return remembered


def test_timers_that_led_to_a_move_are_forgotten(tmp_path: Path) -> None:
    assert asyncio.run(_fire_fifty(tmp_path / "andon.db")) == 0
