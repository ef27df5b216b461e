"""A shop with tasks of every state, for tests that look at whole pages."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from service.kit import Running, eventually, serving

from andon import Andon, Context, Queue
from andon.engine.base import Submission

HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(2)>\"'>&amp;\x1b[31mred\x1b]0;title\x07"
    "\u202egnp.exe\u2066\u2028\x00\r\n<!--]]>"
)


class Shop(NamedTuple):
    """An application, and two of its task types."""

    app: Andon
    charge: Any
    report: Any


def make_shop(folder: Path, url: str = "") -> Shop:
    """An application whose tasks end in each way; on SQLite if no store is named."""
    app = Andon(
        url or f"sqlite:///{folder}/tasks.db",
        artifacts=f"file://{folder}/kept",
        queues=[Queue("mail", rate_limit="300/s"), Queue("reports", max_concurrent=2)],
        name="shop",
        release="7",
    )

    @app.task(name="shop.charge", queue="billing", max_retries=1, retry_delay=0.2)
    async def charge(order: int, card_token: str = "tok-4242") -> dict[str, int]:
        if order % 5 == 0:
            raise ValueError(f"Order {order} not found in ledger 'L{order}'")
        if order % 7 == 0:
            raise ConnectionError(f"bank at 10.0.0.{order} refused the connection")
        return {"paid": order}

    @app.task(name="shop.remind", queue="mail")
    async def remind(to: str) -> str:
        return f"sent to {to}"

    @app.task(name="shop.report", queue="reports", max_retries=0)
    async def report(ctx: Context, day: str) -> str:
        log = logging.getLogger("shop.report")
        for page in range(1, 4):
            log.warning("page %d of %s", page, day)
            ctx.progress(page * 30, f"page {page}")
        await ctx.artifact("report.csv", b"day,total\n")
        return day

    @app.task(name="shop.hold", queue="reports", max_retries=0)
    async def hold(ctx: Context) -> None:
        ctx.progress(40, "waiting for the printer")
        await asyncio.sleep(3600)

    @app.task(name="shop.hostile", queue="hostile", max_retries=0)
    async def hostile(text: str) -> None:
        logging.getLogger("shop.hostile").error("%s", HOSTILE)
        logging.getLogger("shop.hostile").error("%s", "x" * 100_000)
        raise ValueError(HOSTILE + "y" * 10_000)

    @app.task(name="shop.tidy", queue="mail", cron="*/7 * * * *", tz="Europe/Berlin")
    async def tidy() -> None: ...

    return Shop(app, charge, report)


@contextmanager
def scene(folder: Path, url: str = "") -> Iterator[Running]:
    """The shop, served, after a while of work; a worker goes on."""
    shop = make_shop(folder, url)
    with serving(shop.app) as running, running.working(concurrency=20, shutdown_grace=0.1):
        running.call(fill(shop, running))
        yield running


async def fill(shop: Shop, running: Running) -> None:
    """Tasks of every state."""
    engine = running.service.engine
    charges = [
        Submission(
            id=f"order-{order}", name="shop.charge", queue="billing", key=f"customer-{order % 9}",
            tags=("web",), args=b'{"order": %d, "card_token": "tok-%d"}' % (order, order),
        )
        for order in range(1, 61)
    ]  # fmt: skip
    mails = [
        Submission(id=f"mail-{n}", name="shop.remind", queue="mail", args=b'["ann"]')
        for n in range(80)
    ]
    others = [
        Submission(id="report-1", name="shop.report", queue="reports", args=b'["2026-11-24"]'),
        Submission(id="hold-1", name="shop.hold", queue="reports"),
        Submission(id="hold-2", name="shop.hold", queue="reports"),
        Submission(id="later-1", name="shop.remind", queue="mail", args=b'["bob"]', delay=7200),
        Submission(id="nobody-1", name="shop.nobody", queue="billing"),
        Submission(
            id="hostile-1", name="shop.hostile", queue="hostile", key=HOSTILE.replace("\0", ""),
            args=b'{"text": "<script>alert(3)</script>"}',
            tags=("<b>", *(f"tag-{n}" for n in range(10_000))),
            headers={"x": "<i>header</i>"},
        ),
    ]  # fmt: skip
    await engine.submit(charges + mails + others)
    await engine.submit(
        [Submission(id="waits-1", name="shop.remind", queue="mail", dependencies=("hold-1",))]
    )
    with shop.app.flow("billing") as flow:
        charged = flow.map(shop.charge, [1, 2, 5])
        flow.chord(charged, flow.add(shop.report, "2026-11-25"))
    await flow.submit()
    await engine.cancel(["mail-0"])


def settled(running: Running) -> None:
    """Wait until all has ended that ends by itself."""
    engine = running.service.engine

    def over() -> bool:
        stats = running.call(engine.stats())
        busy = sum(q.counts.get(s, 0) for q in stats for s in ("retry",))
        return busy == 0 and bool(running.call(engine.get(["report-1"]))[0].result)

    assert eventually(over)
