"""Live pages: one stream a page, drawn once for all, nothing lost and nothing read when nobody
looks."""

import asyncio
from collections.abc import Iterable
from contextlib import contextmanager
from typing import Any

import httpx
from service.kit import Running, eventually

from andon.dashboard.access import Visitor
from andon.dashboard.live import Live
from andon.dashboard.pages.frame import Place
from andon.dashboard.source import Source
from andon.model.errors import StoreUnavailable, TaskNotFound

ANN = Place("", Visitor(name="", scopes=("*",)))
BOB = Place("", Visitor(name="", scopes=("tasks:read:*",)))


class Number(Source):
    """A number that the test sets; counts how often it is read and drawn."""

    every = 0.001

    def __init__(self) -> None:
        super().__init__("")
        self.value = 0
        self.reads = 0
        self.draws = 0
        self.fails: BaseException | None = None
        self.was_read = asyncio.Event()

    def is_for(self, visitor: Visitor) -> bool:
        return True

    async def read(self, reader: Any) -> int:
        self.reads += 1
        self.was_read.set()
        if self.fails is not None:
            raise self.fails
        return self.value

    def draw(self, place: Place, seen: int) -> Iterable[Any]:
        self.draws += 1
        yield f'<p id="number">{seen}</p>'
        yield '<p id="same">always</p>'

    async def read_again(self, times: int = 2) -> None:
        for _ in range(times):
            self.was_read.clear()
            await self.was_read.wait()
        await asyncio.sleep(0)


async def sent(live: Live, viewer: Any) -> str:
    """What a viewer is sent next."""
    while True:
        news = b"".join(live.news(viewer))
        if news:
            return news.decode()
        await viewer.wait(60)


async def test_only_what_changed_is_sent():
    live, number = Live(None), Number()  # type: ignore[arg-type]
    viewer = live.join(ANN, {"n": number})
    first = await sent(live, viewer)
    while "well" not in first:
        first += await sent(live, viewer)
    assert '<p id="number">0</p>' in first
    assert "always" in first
    await number.read_again()
    assert b"".join(live.news(viewer)) == b""
    number.value = 1
    news = await sent(live, viewer)
    assert '<p id="number">1</p>' in news
    assert "always" not in news
    live.leave(viewer)


async def test_whoever_comes_back_gets_what_changed_meanwhile_and_no_more():
    live, number = Live(None), Number()  # type: ignore[arg-type]
    stays = live.join(ANN, {"n": number})
    await sent(live, stays)
    await number.read_again()
    list(live.news(stays))
    last = f"{live._epoch}.{stays.seen}"
    for value in range(1, 6):
        number.value = value
        await number.read_again()
    back = live.join(ANN, {"n": number}, live.place_after(last))
    news = await sent(live, back)
    assert news.count("event: fragment") == 1
    assert '<p id="number">5</p>' in news
    strange = live.join(ANN, {"n": number}, live.place_after("of-another-process.17"))
    assert (await sent(live, strange)).count("event: fragment") == 2
    for viewer in (stays, back, strange):
        live.leave(viewer)


async def test_a_hundred_viewers_cost_one_reading_and_one_drawing():
    live, number = Live(None), Number()  # type: ignore[arg-type]
    viewers = [live.join(ANN, {"n": number}) for _ in range(100)]
    other = live.join(BOB, {"n": number})
    await number.read_again(5)
    assert number.draws <= 2 * number.reads  # one for each kind of visitor
    for viewer in (*viewers, other):
        assert "always" in await sent(live, viewer)
        live.leave(viewer)


async def test_what_nobody_looks_at_is_not_read():
    live, number = Live(None), Number()  # type: ignore[arg-type]
    viewer = live.join(ANN, {"n": number})
    await number.read_again()
    live.leave(viewer)
    reads = number.reads
    await asyncio.sleep(20 * number.every)  # as long as twenty readings take
    assert number.reads == reads
    assert live._shown == {}


async def test_a_source_that_fails_is_told_stops_no_other_and_recovers():
    live, good, bad = Live(None), Number(), Number()  # type: ignore[arg-type]
    bad.fails = StoreUnavailable("away")
    viewer = live.join(ANN, {"good": good, "bad": bad})
    news = await sent(live, viewer)
    while "event: notice" not in news:
        news += await sent(live, viewer)
    assert "The store does not answer" in news
    assert '<p id="number">0</p>' in news
    bad.fails = None
    news = await sent(live, viewer)
    while "event: well" not in news:
        news += await sent(live, viewer)
    live.leave(viewer)


async def test_a_source_with_a_fault_is_told_too():
    live, bad = Live(None), Number()  # type: ignore[arg-type]
    bad.fails = ZeroDivisionError()
    viewer = live.join(ANN, {"bad": bad})
    assert "cannot show this" in await sent(live, viewer)
    live.leave(viewer)


async def test_a_task_that_is_deleted_while_somebody_looks_is_said_to_be_gone():
    live, gone = Live(None), Number()  # type: ignore[arg-type]
    gone.fails = TaskNotFound("t1")
    viewer = live.join(ANN, {"gone": gone})
    assert "There is no task 't1'" in await sent(live, viewer)
    live.leave(viewer)


@contextmanager
def streaming(service: Running, *topics: str, **headers: str):
    with (
        service.client(headers=headers) as http,
        http.stream("GET", "/live", params=[("topic", one) for one in topics]) as answer,
    ):
        yield answer


def events_of(answer: httpx.Response):
    """The events of a stream, each a dictionary of its fields."""
    event: dict[str, str] = {}
    for line in answer.iter_lines():
        if not line:
            if event:
                yield event
            event = {}
            continue
        name, _, value = line.partition(": ")
        event[name] = f"{event[name]}\n{value}" if name in event else value


def test_a_stream_says_what_has_changed(service: Running):
    with streaming(service, "andon") as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        events = events_of(answer)
        first = next(event for event in events if event.get("event") == "fragment")
        assert first["data"].startswith("<section")
        from andon.engine.base import Submission

        service.call(
            service.service.engine.submit([Submission(id="a", name="shop.remind", queue="mail")])
        )
        assert next(e for e in events if "queue-mail" in e.get("data", ""))


def test_a_stream_ends_in_good_order_when_the_service_stops(service: Running):
    with streaming(service, "andon") as answer:
        events = events_of(answer)
        next(event for event in events if event.get("event") == "fragment")
        service.begin_stop()
        assert [e["data"] for e in events if e.get("event") == "end"] == ["stopping"]


def test_a_viewer_that_is_gone_is_forgotten(service: Running):
    with streaming(service, "andon") as answer:
        events = events_of(answer)  # kept: without it the connection is closed
        next(events)
        assert len(service.service.board.live) == 1  # type: ignore[union-attr]
    assert eventually(lambda: len(service.service.board.live) == 0)  # type: ignore[union-attr]


def test_there_is_no_stream_of_nothing(service: Running):
    with service.client() as http:
        assert http.get("/live").status_code == 404
        assert http.get("/live?topic=nonsense").status_code == 404
