"""Events: per task every revision once and in order; resumable; a gap is told."""

from collections import defaultdict
from collections.abc import Sequence

import pytest

from andon.contract.outcomes import ChangeKind
from andon.contract.requests import Change
from andon.engine.control import change_of
from andon.lifecycle.actors import done_by
from andon.lifecycle.commands import Cancel, Command, Complete, Delete, Reprioritise
from andon.model.task import Task, TaskEvent
from andon.model.words import Event

from .kit import Kit


async def test_every_move_of_a_task_is_read_once_and_in_order(kit: Kit) -> None:
    tasks = [await kit.active() for _ in range(5)]
    for task in tasks:
        await kit.move(task, Complete())
    seen: defaultdict[str, list[int]] = defaultdict(list)
    for event in (await kit.read_events("", limit=3)).events:
        seen[event.task].append(event.revision)
    assert dict(seen) == {task.id: [1, 2, 3] for task in tasks}


async def test_a_page_holds_no_more_than_its_limit(kit: Kit) -> None:
    await kit.submit_many(5)
    page = await kit.store.events("", limit=2)
    assert 0 < len(page.events) <= 2


async def test_reading_goes_on_after_the_cursor(kit: Kit) -> None:
    await kit.submit()
    cursor = (await kit.read_events("")).cursor
    assert (await kit.store.events(cursor)).events == ()
    second = await kit.submit()
    page = await kit.read_events(cursor)
    assert [(e.task, e.event) for e in page.events] == [(second.id, Event.SUBMIT)]
    assert not page.gap


@pytest.mark.parametrize("is_known", [True, False], ids=["the same", "another process"])
async def test_what_moves_on_between_two_pages_takes_no_move_of_another_task_with_it(
    kit: Kit, is_known: bool
) -> None:
    """A page may end between two moves that one store keeps together."""
    seen: defaultdict[str, set[int]] = defaultdict(set)

    def take(events: Sequence[TaskEvent]) -> None:
        for event in events:
            # Another process may be told again what this one was told.
            assert event.revision not in seen[event.task] or not is_known
            seen[event.task].add(event.revision)

    waits = await kit.submit("waits")
    page = await kit.read_events("")
    take(page.events)
    assert (await kit.store.events(page.cursor)).events == ()
    moves_on = await kit.active("moves-on", queue="other")
    await kit.move((await kit.claim())[0], Complete())
    page = await kit.store.events(page.cursor, limit=1)
    take(page.events)
    await kit.move(moves_on, Complete())
    store = kit.store if is_known else await kit.again()
    while (page := await store.events(page.cursor, limit=1)).events:
        take(page.events)
    assert seen == {waits.id: {1, 2, 3}, moves_on.id: {1, 2, 3}}


async def test_the_end_is_after_all_that_was_written(kit: Kit) -> None:
    await kit.submit()
    end = await kit.store.events_end()
    page = await kit.store.events(end)
    assert (page.events, page.gap) == ((), False)


async def test_the_end_stands_still_while_nothing_is_written(kit: Kit) -> None:
    await kit.submit()
    end = await kit.store.events_end()
    await kit.store.put_setting("theme", b"dark", expect=None)
    assert await kit.store.events_end() == end


async def test_events_outlive_the_record(kit: Kit) -> None:
    ended = await kit.moved(await kit.submit(), Cancel())
    await kit.move(ended, Delete())
    events = (await kit.read_events("")).events
    assert [e.event for e in events] == [Event.SUBMIT, Event.CANCEL, Event.DELETE]
    assert (await kit.store.history(ended.id)).events == ()


async def test_an_event_says_what_its_move_said(kit: Kit) -> None:
    task = await kit.active(worker="w1")
    change = kit.change(task, Complete())
    await kit.commit(change)
    event = (await kit.read_events("")).events[-1]
    assert event.task == task.id
    expected = change.event
    assert (event.write_id, event.at, event.source, event.target, event.reason, event.run) == (
        expected.write_id,
        expected.at,
        expected.source,
        expected.target,
        expected.reason,
        expected.run,
    )


async def test_trimmed_events_are_a_gap_for_who_had_not_read_them(kit: Kit) -> None:
    store = await kit.replace(max_events=5)
    await kit.submit()
    early = (await kit.read_events("")).cursor
    await kit.submit_many(30)
    assert await store.trim(1_000) > 0
    page = await kit.read_events(early)
    assert page.gap
    assert 0 < len(page.events) < 30
    fresh = await kit.read_events("")
    assert not fresh.gap, "the oldest kept is where a new reader begins"
    assert fresh.events == page.events


async def test_a_reader_who_kept_up_has_no_gap(kit: Kit) -> None:
    store = await kit.replace(max_events=5)
    await kit.submit_many(30)
    end = await store.events_end()
    await store.trim(1_000)
    page = await store.events(end)
    assert (page.events, page.gap) == ((), False)


async def test_trimming_stops_at_its_limit(kit: Kit) -> None:
    store = await kit.replace(max_events=5)
    await kit.submit_many(30)
    assert 0 < await store.trim(10) <= 10


async def test_a_cursor_of_another_log_is_a_gap(kit: Kit) -> None:
    await kit.submit()
    page = await kit.store.events("no.such.cursor")
    assert page.gap


async def test_history_has_every_move_in_order(kit: Kit) -> None:
    task = await kit.active()
    await kit.move(task, Complete())
    history = await kit.store.history(task.id)
    assert [e.event for e in history.events] == [Event.SUBMIT, Event.CLAIM, Event.COMPLETE]
    assert history.dropped == 0


async def test_history_has_more_than_the_record_carries(kit: Kit) -> None:
    task = await kit.submit()
    for i in range(30):
        task = await kit.moved(task, Reprioritise(priority=i % 5))
    history = await kit.store.history(task.id)
    assert [e.revision for e in history.events] == list(range(1, 32))
    assert len(task.status.events) == 16


async def test_moves_that_were_refused_take_none_out_of_the_log(kit: Kit) -> None:
    """Two decide on the same record, again and again; one of them comes too late each time."""
    task, late = await kit.submit(), await kit.again()
    for i in range(40):
        (seen,) = await late.get([task.id])
        assert seen is not None
        task = await kit.moved(task, Reprioritise(priority=i % 5))
        (refused,) = await late.commit([kit.change(seen, Reprioritise(priority=9))])
        assert refused.kind is ChangeKind.CONFLICT
    read = (await kit.read_events("", limit=7)).events
    assert [e.revision for e in read] == list(range(1, 42))


async def test_a_very_long_history_tells_how_much_was_dropped(kit: Kit) -> None:
    task = await kit.submit()
    for i in range(1_005):
        changed = kit.change(task, Reprioritise(priority=i % 5))
        await kit.commit(changed)
        assert changed.after is not None
        task.status = changed.after
    history = await kit.store.history(task.id)
    assert (len(history.events), history.dropped) == (1_000, 6)
    assert history.events[-1].revision == 1_006


async def test_an_unknown_task_has_no_history(kit: Kit) -> None:
    assert (await kit.store.history("absent")).events == ()


async def test_a_move_by_hand_tells_its_actor_to_every_reader(kit: Kit) -> None:
    def by(task: Task, command: Command, actor: str) -> Change:
        return change_of(task, done_by(kit.decide(task, command), actor))

    waits, other = await kit.submit(), await kit.submit()
    changes = [by(waits, Reprioritise(priority=3), "ann"), by(other, Cancel(), "")]
    assert {one.kind for one in await kit.store.commit(changes)} == {ChangeKind.APPLIED}
    waits = await kit.there(waits.id)
    assert (await kit.commit(by(waits, Cancel(), "bob"))).kind is ChangeKind.APPLIED
    deleted = by(await kit.there(waits.id), Delete(), "ann")
    expected = [(Event.SUBMIT, ""), (Event.REPRIORITISE, "ann"), (Event.CANCEL, "bob")]

    store = await kit.again()
    history = await store.history(waits.id)
    assert [(e.event, e.actor) for e in history.events] == expected
    (read,) = await store.get([waits.id])
    assert read is not None
    assert [e.actor for e in read.status.events] == ["", "ann", "bob"]
    assert {e.actor for e in (await store.history(other.id)).events} == {""}

    assert (await kit.commit(deleted)).kind is ChangeKind.APPLIED
    log = (await kit.read_events("")).events
    said = [(e.event, e.actor) for e in log if e.task == waits.id]
    assert said == [*expected, (Event.DELETE, "ann")]


async def test_a_repeat_of_a_move_by_hand_is_recognised(kit: Kit) -> None:
    task = await kit.submit()
    change = change_of(task, done_by(kit.decide(task, Cancel(), write_id="once"), "ann"))
    for _ in range(2):
        assert (await kit.commit(change)).kind is ChangeKind.APPLIED
    assert [e.actor for e in (await kit.store.history(task.id)).events] == ["", "ann"]
