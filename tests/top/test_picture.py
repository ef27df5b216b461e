"""The pictures of docs/top.md are what is drawn, in a time that stands still."""

import os
import re
from pathlib import Path

from andon.contract.requests import ClaimRequest
from andon.engine.base import Submission
from andon.engine.local import LocalEngine
from andon.lifecycle.commands import Fail
from andon.model.fleet import WorkerInfo
from andon.model.task import TaskError
from andon.stores.memory import MemoryStore
from andon.top.app import Top

from .kit import Seen

PAGE = Path(__file__).parents[2] / "docs" / "top.md"
_BEGAN = 1_790_000_000_000


async def shop(engine: LocalEngine, tick: "Clock") -> None:
    """A morning of a shop."""
    await engine.submit(
        [
            Submission(id=f"order-{n}", name="shop.charge", queue="billing", args=b"[%d]" % n)
            for n in range(17, 21)
        ]
    )
    await engine.submit(
        [
            Submission(id="mail-1", name="shop.remind", queue="mail", delay=3600),
            Submission(id="mail-2", name="shop.remind", queue="mail"),
        ]
    )
    await engine.configure_queue("mail", {"rate_limit": 5, "paused": True})
    tick.now += 2_000
    request = ClaimRequest(
        worker="web-1:4711", token="t", queues=("billing",), limit=2, lease_ms=600_000
    )
    first, _ = await engine.claim(request)
    tick.now += 3_000
    error = TaskError(
        code="error", type="ConnectionError", message="bank at 10.0.0.7 refused the connection"
    )
    await engine.report(first, Fail(error=error, retryable=False))
    tick.now += 90_000
    await engine.put_worker(
        WorkerInfo(id="web-1:4711", queues=("billing",), concurrency=4, active=1, seen_at=tick.now)
    )


class Clock:
    """A time that stands still until somebody moves it."""

    def __init__(self) -> None:
        self.now = _BEGAN

    def __call__(self) -> int:
        return self.now


async def test_the_pictures_of_the_page_are_what_is_drawn() -> None:
    clock = Clock()
    engine = LocalEngine(MemoryStore("memory://", clock=clock))
    await engine.open()
    try:
        await shop(engine, clock)
        top = Top(engine, location="sqlite:////srv/shop/tasks.db", actor="ann")
        async with top.run_test(size=(80, 24)) as pilot:
            seen = Seen(top, pilot, engine)
            await seen.until("billing")
            pictures = {"andon": seen.text}
            await seen.press("2")
            await seen.until("order-17")
            pictures["tasks"] = seen.text
    finally:
        await engine.close()
    text = PAGE.read_text(encoding="utf-8")
    drawn = text
    for name, picture in pictures.items():
        between = re.compile(rf"(<!-- {name} -->\n\n```text\n).*?(\n```)", re.DOTALL)
        assert between.search(drawn), name
        drawn = between.sub(lambda found, new=picture: f"{found[1]}{new}{found[2]}", drawn)
    if os.environ.get("ANDON_WRITE_DOCS"):
        PAGE.write_text(drawn, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == drawn, (
        "draw them anew: ANDON_WRITE_DOCS=1 pytest tests/top -k pictures"
    )
