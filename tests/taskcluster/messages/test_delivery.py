"""Delivery to sinks: at least once, in order for each task, each sink for itself."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from andon.contract.notes import NoteName, PutNote
from andon.contract.requests import ClaimRequest
from andon.engine.base import Submission
from andon.lifecycle.backoff import ExponentialBackoff
from andon.lifecycle.commands import Cancel, Complete, Rerun
from andon.model.errors import StoreUnavailable
from andon.model.task import Task
from andon.service.metrics import Metrics
from andon.service.taskcluster.messages import cursors
from andon.service.taskcluster.messages.cursors import Cursor
from andon.service.taskcluster.messages.delivery import Delivery, NotNow, Refused
from andon.service.taskcluster.messages.exchanges import ALL, Exchange, Message
from andon.service.taskcluster.messages.feed import Feed
from andon.service.taskcluster.messages.patterns import Binding
from andon.service.taskcluster.messages.rendering import messages_of

from .life import Life

AT_ONCE = ExponentialBackoff(0.001, 0.002)
EVERYTHING = tuple(Binding(exchange) for exchange in sorted(ALL))
WAIT_S = 30.0


class Inbox:
    """A sink that keeps what it takes, and fails as a test says."""

    def __init__(
        self,
        name: str = "inbox",
        bindings: Sequence[Binding] = EVERYTHING,
        beside: "Inbox | None" = None,
    ) -> None:
        self.name = name
        self.bindings = tuple(bindings)
        self.at_once = 8
        self.taken: list[Message] = []
        self.fails: Callable[[Message], Exception | None] = lambda _: None
        self.tries = 0
        self._changed: asyncio.Condition = asyncio.Condition() if not beside else beside._changed

    async def send(self, message: Message) -> None:
        async with self._changed:
            self.tries += 1
            self._changed.notify_all()
        await asyncio.sleep(0)
        error = self.fails(message)
        if error is not None:
            raise error
        async with self._changed:
            self.taken.append(message)
            self._changed.notify_all()

    async def close(self) -> None:
        pass

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_S), self._changed:
            await self._changed.wait_for(is_so)

    def of(self, task_id: str) -> list[str]:
        return [one.exchange.value for one in self.taken if one.lane == task_id]


@asynccontextmanager
async def delivering(
    life: Life, *sinks: Inbox, holder: str = "", stops: bool = True
) -> AsyncIterator[list[Delivery]]:
    """Deliver to these for as long as the block lasts; if it does not stop, it is cut off."""
    told = Feed(life.engine)
    metrics = Metrics()
    deliveries = [
        Delivery(
            sink,
            told,
            Cursor(life.engine.store, sink.name, holder=holder),
            metrics,
            pauses=AT_ONCE,
        )
        for sink in sinks
    ]
    for delivery in deliveries:
        await delivery.start()
    try:
        yield deliveries
    finally:
        for delivery in deliveries:
            if stops:
                await delivery.close()
            else:
                killed(delivery)


def killed(delivery: Delivery) -> None:
    """It is gone, and writes nothing more."""
    running = delivery._running  # pyright: ignore[reportPrivateUsage]
    assert running is not None
    running.cancel()


ONE_LIFE = ["task-defined", "task-pending", "task-running", "task-completed", "task-group-resolved"]


async def live(life: Life) -> str:
    task_id = await life.create()
    await life.claim(task_id)
    await life.report(task_id, Complete())
    return task_id


async def test_all_that_happens_is_delivered_once_and_in_order(life: Life):
    inbox = Inbox()
    async with delivering(life, inbox):
        ids = [await live(life) for _ in range(3)]
        await inbox.until(lambda: len(inbox.taken) == 15)
    assert [inbox.of(task_id) for task_id in ids] == [ONE_LIFE] * 3
    assert len({message.id for message in inbox.taken}) == 15


async def test_what_happened_before_there_was_the_sink_is_not_told(life: Life):
    before = await live(life)
    inbox = Inbox()
    async with delivering(life, inbox):
        after = await live(life)
        await inbox.until(lambda: len(inbox.taken) == 5)
    assert inbox.of(before) == []
    assert inbox.of(after) == ONE_LIFE


async def test_what_happens_while_nobody_delivers_is_delivered_by_the_next(life: Life):
    inbox = Inbox()
    async with delivering(life, inbox):
        pass
    task_id = await live(life)
    async with delivering(life, inbox):
        await inbox.until(lambda: len(inbox.taken) == 5)
    assert inbox.of(task_id) == ONE_LIFE


async def test_a_sink_gets_only_what_it_is_bound_to(life: Life):
    inbox = Inbox(bindings=[Binding(Exchange.TASK_COMPLETED, "route.index.#")])
    async with delivering(life, inbox):
        await live(life)
        task_id = await life.create(routes=["index.a"])
        await life.claim(task_id)
        await life.report(task_id, Complete())
        await inbox.until(lambda: len(inbox.taken) == 1)
    assert inbox.of(task_id) == ["task-completed"]


async def test_a_sink_that_is_away_loses_nothing_and_holds_up_no_other(life: Life):
    away, other = Inbox("away"), Inbox("other")
    away.fails = lambda _: NotNow("nobody is there")
    async with delivering(life, away, other):
        ids = [await live(life) for _ in range(3)]
        await other.until(lambda: len(other.taken) == 15)
        await away.until(lambda: away.tries > 5)
        assert away.taken == []
        away.fails = lambda _: None
        await away.until(lambda: len(away.taken) == 15)
    assert [away.of(task_id) for task_id in ids] == [ONE_LIFE] * 3


async def test_a_sink_that_is_away_is_not_tried_with_every_message(
    life: Life, caplog: pytest.LogCaptureFixture
):
    inbox = Inbox()
    inbox.at_once = 2
    async with delivering(life, inbox):
        pass
    for _ in range(20):
        await life.create()
    inbox.fails = lambda _: NotNow("nobody is there")
    async with delivering(life, inbox):
        await inbox.until(lambda: inbox.tries >= 10)
        rounds = caplog.text.count("Messages for inbox cannot be delivered")
    assert inbox.tries <= 2 * (rounds + 1)


@pytest.mark.parametrize("error", [Refused("400"), ValueError("a defect")])
async def test_a_message_that_is_refused_is_passed_over_and_those_around_it_come(
    life: Life, error: Exception, caplog: pytest.LogCaptureFixture
):
    inbox = Inbox()
    bad: list[str] = []

    def fails(message: Message) -> Exception | None:
        return error if message.lane in bad and message.exchange == "task-running" else None

    inbox.fails = fails
    async with delivering(life, inbox):
        first = await live(life)
        bad.append(await life.create())
        await life.claim(bad[0])
        await life.report(bad[0], Complete())
        last = await live(life)
        await inbox.until(lambda: len(inbox.taken) == 14)
    assert inbox.of(first) == inbox.of(last) == ONE_LIFE
    assert inbox.of(bad[0]) == [one for one in ONE_LIFE if one != "task-running"]
    assert "A message for inbox is passed over (task-running primary." in caplog.text


async def test_one_that_is_answered_for_a_day_that_it_cannot_come_now_is_passed_over(
    life: Life, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr("andon.service.taskcluster.messages.delivery.PATIENCE_S", -1.0)
    inbox = Inbox()
    answered = NotNow("500", is_answer=True)
    inbox.fails = lambda message: answered if message.exchange == "task-running" else None
    async with delivering(life, inbox):
        task_id = await live(life)
        await inbox.until(lambda: len(inbox.taken) == 4)
    assert inbox.of(task_id) == [one for one in ONE_LIFE if one != "task-running"]
    assert "A message for inbox is passed over (task-running primary." in caplog.text
    nobody = Inbox("nobody")
    nobody.fails = lambda _: NotNow("nobody is there")
    async with delivering(life, nobody):
        await live(life)
        await nobody.until(lambda: nobody.tries > 5)
        nobody.fails = lambda _: None
        await nobody.until(lambda: len(nobody.taken) == 5)


async def test_one_that_cannot_come_now_keeps_no_other_task_of_its_page_waiting(life: Life):
    inbox = Inbox()
    inbox.at_once = 1
    async with delivering(life, inbox):
        pass
    first = await live(life)
    second = await live(life)
    inbox.fails = lambda message: NotNow("503") if message.lane == first else None
    async with delivering(life, inbox):
        await inbox.until(lambda: len(inbox.taken) == 5)
        assert inbox.of(second) == ONE_LIFE
        inbox.fails = lambda _: None
        await inbox.until(lambda: len(inbox.taken) == 10)
    assert inbox.of(first) == ONE_LIFE


@pytest.mark.parametrize("error", [NotNow("500", is_answer=True), Refused("400")])
async def test_one_that_cannot_come_holds_up_nothing_that_happens_later(
    life: Life, error: Exception, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("andon.service.taskcluster.messages.delivery.MOST_REFUSALS", 10**9)
    inbox = Inbox()
    async with delivering(life, inbox):
        pass
    bad = await live(life)
    inbox.fails = lambda message: error if message.lane == bad else None
    async with delivering(life, inbox):
        await inbox.until(lambda: inbox.tries > 3)
        later = [await live(life) for _ in range(30)]  # more than a page of moves
        await inbox.until(lambda: len(inbox.taken) == 150)
        assert [inbox.of(task_id) for task_id in later] == [ONE_LIFE] * 30
        inbox.fails = lambda _: None
        await inbox.until(lambda: len(inbox.taken) == 155)
        assert inbox.of(bad) == ONE_LIFE


async def test_what_came_after_one_that_waits_comes_again_if_the_process_dies(life: Life):
    inbox = Inbox()
    async with delivering(life, inbox):
        pass
    bad = await live(life)
    inbox.fails = lambda message: NotNow("500", is_answer=True) if message.lane == bad else None
    async with delivering(life, inbox, holder="dead", stops=False):
        await inbox.until(lambda: inbox.tries > 0)
        later = await live(life)
        await inbox.until(lambda: len(inbox.taken) == 5)
    life.clock.ms += cursors.HOLD_MS + 1
    inbox.fails = lambda _: None
    async with delivering(life, inbox, holder="next"):
        await inbox.until(lambda: len(inbox.taken) == 15)
    assert inbox.of(bad) == ONE_LIFE
    assert inbox.of(later) == ONE_LIFE * 2
    ids = [message.id for message in inbox.taken if message.lane == later]
    assert ids[:5] == ids[5:], "a consumer can tell that it is a repeat"


async def test_one_that_a_sink_cannot_take_while_it_takes_others_is_passed_over(
    life: Life, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr("andon.service.taskcluster.messages.delivery.PATIENCE_ALONE_S", 0.0)
    inbox = Inbox()
    async with delivering(life, inbox):
        pass
    bad = await live(life)

    def fails(message: Message) -> Exception | None:
        is_bad = message.lane == bad and message.exchange == "task-running"
        return NotNow("500", is_answer=True) if is_bad else None

    inbox.fails = fails
    async with delivering(life, inbox):
        await inbox.until(lambda: inbox.tries > 20)
        assert inbox.of(bad) == ["task-defined", "task-pending"]
        assert "is passed over" not in caplog.text, "it may be the sink that is ill"
        other = await live(life)
        await inbox.until(lambda: len(inbox.taken) == 9)
    assert inbox.of(other) == ONE_LIFE
    assert inbox.of(bad) == [one for one in ONE_LIFE if one != "task-running"]
    assert "A message for inbox is passed over (task-running primary." in caplog.text


async def test_no_more_is_read_for_a_sink_that_takes_nothing(
    life: Life, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("andon.service.taskcluster.messages.delivery.MOST_WAITING", 2)
    inbox = Inbox()
    inbox.fails = lambda _: NotNow("503", is_answer=True)
    seen: set[str] = set()
    async with delivering(life, inbox):
        first = await live(life)
        await inbox.until(lambda: inbox.tries > 0)
        later = [await live(life) for _ in range(80)]
        inbox.fails = lambda message: seen.add(message.lane) or NotNow("503", is_answer=True)
        await inbox.until(lambda: len(seen) > 1)
        tries = inbox.tries
        await inbox.until(lambda: inbox.tries > tries + 300)
        assert len(seen) < 80
        inbox.fails = lambda _: None
        await inbox.until(lambda: len(inbox.taken) == 81 * 5)
    assert [inbox.of(task_id) for task_id in (first, *later)] == [ONE_LIFE] * 81


async def test_a_process_that_dies_between_delivery_and_its_cursor_delivers_again(
    life: Life, monkeypatch: pytest.MonkeyPatch
):
    inbox = Inbox()
    stuck = asyncio.Event()

    async def dies(self: Cursor, position: str) -> None:
        stuck.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        patch.setattr(Cursor, "move", dies)
        async with delivering(life, inbox, holder="dead", stops=False):
            task_id = await life.create()
            await asyncio.wait_for(stuck.wait(), WAIT_S)
    assert inbox.of(task_id) == ["task-defined", "task-pending"]
    life.clock.ms += cursors.HOLD_MS + 1
    async with delivering(life, inbox, holder="next"):
        await inbox.until(lambda: len(inbox.taken) == 4)
    ids = [message.id for message in inbox.taken]
    assert ids[:2] == ids[2:], "a consumer can tell that it is a repeat"


async def test_two_processes_deliver_each_message_once(life: Life, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cursors, "HOLD_MS", 200)
    first = Inbox()
    second = Inbox(beside=first)
    async with delivering(life, first, holder="one"), delivering(life, second, holder="two"):
        ids: list[str] = []
        for _ in range(10):
            ids.append(await live(life))
            life.clock.ms += 500  # who delivered last need not be who delivers next
        await first.until(lambda: len(first.taken) + len(second.taken) == 50)
    everything = [*first.taken, *second.taken]
    assert len({message.id for message in everything}) == len(everything) == 50


async def test_a_sink_whose_position_is_damaged_holds_up_no_other(
    life: Life, caplog: pytest.LogCaptureFixture
):
    name = NoteName(cursors.CURSOR_NOTES, "", "damaged")
    await life.engine.store.put_notes([PutNote(name, b"\xff", None)])
    damaged, inbox = Inbox("damaged"), Inbox()
    async with delivering(life, damaged, inbox):
        task_id = await live(life)
        await inbox.until(lambda: len(inbox.taken) == 5)
    assert inbox.of(task_id) == ONE_LIFE
    assert damaged.tries == 0
    assert "The position of messages for 'damaged' does not decode" in caplog.text


async def test_who_is_woken_does_not_share_a_reading_that_began_before(
    life: Life, monkeypatch: pytest.MonkeyPatch
):
    told, events = Feed(life.engine), life.engine.store.events
    position = await told.end()
    looked, goes_on = asyncio.Event(), asyncio.Event()

    async def slow(cursor: str, limit: int = 500) -> Any:
        page = await events(cursor, limit)
        if not looked.is_set():
            looked.set()
            await goes_on.wait()
        return page

    monkeypatch.setattr(life.engine.store, "events", slow)
    first = asyncio.ensure_future(told.read(position, ALL))
    await looked.wait()
    await life.create()
    told.changes.seen += 1
    second = await told.read(position, ALL)
    assert len(second.entries) == 1
    goes_on.set()
    assert (await first).entries == ()


async def test_readers_of_the_same_page_read_it_once(life: Life, monkeypatch: pytest.MonkeyPatch):
    told, events, count = Feed(life.engine), life.engine.store.events, [0]
    position = await told.end()
    await live(life)

    async def counted(cursor: str, limit: int = 500) -> Any:
        count[0] += 1
        return await events(cursor, limit)

    monkeypatch.setattr(life.engine.store, "events", counted)
    pages = await asyncio.gather(*[told.read(position, ALL) for _ in range(50)])
    assert len({id(page) for page in pages}) == 1
    assert count == [1]


async def test_a_store_that_is_away_is_waited_for(
    life: Life, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    inbox = Inbox()
    async with delivering(life, inbox):
        events, fails = life.engine.store.events, [2]

        async def flaky(cursor: str, limit: int = 500) -> Any:
            if fails[0]:
                fails[0] -= 1
                raise StoreUnavailable("it is away")
            return await events(cursor, limit)

        monkeypatch.setattr(life.engine.store, "events", flaky)
        task_id = await live(life)
        await inbox.until(lambda: len(inbox.taken) == 5)
    assert inbox.of(task_id) == ONE_LIFE
    assert "Messages for inbox wait for the store: it is away" in caplog.text


async def test_a_task_that_cannot_be_read_or_told_of_costs_no_other_its_messages(
    life: Life, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    inbox = Inbox()
    async with delivering(life, inbox):
        pass
    first, unreadable, untold, last = [await live(life) for _ in range(4)]
    get = life.engine.get

    async def read(ids: Sequence[str]) -> list[Task | None]:
        if unreadable in ids:
            raise ValueError("it does not decode")
        return await get(ids)

    def fails(event: Any, *args: Any, **options: Any) -> Any:
        if event.task == untold:
            raise KeyError("no such field")
        return messages_of(event, *args, **options)

    monkeypatch.setattr(life.engine, "get", read)
    monkeypatch.setattr("andon.service.taskcluster.messages.feed.messages_of", fails)
    async with delivering(life, inbox):
        await inbox.until(lambda: len(inbox.taken) == 10)
    assert inbox.of(first) == inbox.of(last) == ONE_LIFE
    assert f"No message is made of task {unreadable}" in caplog.text
    assert f"of task {untold} cannot be told." in caplog.text


async def test_moves_that_are_not_kept_any_more_are_said_to_be_missing(
    life: Life, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    inbox, events = Inbox(), life.engine.store.events

    async def trimmed(cursor: str, limit: int = 500) -> Any:
        page = await events(cursor, limit)
        return type(page)(page.events, page.cursor, bool(page.events))

    caplog.set_level(logging.ERROR)
    async with delivering(life, inbox):
        monkeypatch.setattr(life.engine.store, "events", trimmed)
        await life.create()
        await inbox.until(lambda: len(inbox.taken) == 2)
    assert "Messages for inbox are missing: their moves are not kept." in caplog.text


async def test_a_group_is_resolved_when_its_last_task_is_and_may_be_again(life: Life):
    inbox = Inbox(bindings=[Binding(Exchange.TASK_GROUP_RESOLVED)])
    async with delivering(life, inbox):
        group = await life.create()
        other = await life.create(taskGroupId=group)
        await life.act(group, Cancel(force=True))
        await life.act(await life.create(), Cancel(force=True))
        await inbox.until(lambda: len(inbox.taken) == 1)
        assert inbox.taken[0].document["taskGroupId"] != group
        await life.act(other, Cancel(force=True))
        await inbox.until(lambda: len(inbox.taken) == 2)
        assert inbox.taken[1].routing_key == f"primary.{group}.sched._"
        await life.act(other, Rerun())
        await life.claim(other)
        await life.report(other, Complete())
        await inbox.until(lambda: len(inbox.taken) == 3)
    assert inbox.taken[2].document["taskGroupId"] == group
    assert inbox.taken[2].id != inbox.taken[1].id


async def test_a_task_of_python_code_is_told_of_to_nobody(life: Life):
    inbox = Inbox()
    async with delivering(life, inbox):
        request = ClaimRequest(worker="w", token="t", queues=("default",), limit=1, lease_ms=1_000)
        await life.engine.submit([Submission(id="native", name="shop.charge")])
        assert len(await life.engine.claim(request)) == 1
        task_id = await live(life)
        await inbox.until(lambda: len(inbox.taken) == 5)
    assert inbox.of(task_id) == ONE_LIFE
