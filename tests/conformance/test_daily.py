"""The daily history: what is counted when, on every store, however the write came about."""

from collections import Counter
from dataclasses import dataclass

import pytest
from msgspec.structs import replace
from servers.faults import fault

from andon.contract.outcomes import ChangeKind, CreateKind
from andon.contract.requests import Snapshot
from andon.lifecycle.admission import admit
from andon.lifecycle.commands import (
    Cancel,
    Command,
    Complete,
    Delete,
    Fail,
    Interrupted,
    Lose,
    Release,
    Reprioritise,
    RequestCancel,
    Rerun,
    Silence,
    Snooze,
    Stop,
    Terminate,
)
from andon.lifecycle.constants import DAY_MS
from andon.lifecycle.daily import KEPT_DAYS, day_of, first_day, histories, total
from andon.model.task import Task, TaskError

from .kit import Kit
from .test_lost_answers import ask
from .test_restore import Elsewhere

ERROR = TaskError(message="no")
RETRY = Fail(error=ERROR)
FINAL = Fail(error=ERROR, retryable=False)
HALF = "\udc80"


@dataclass(frozen=True)
class Counted:
    """What was counted of a queue; on all days together, for midnight may come at any time."""

    submitted: int = 0
    processed: int = 0
    failed: int = 0


async def counted(kit: Kit, queue: str = "default") -> Counted:
    now = kit.store.now()
    (history,) = histories(await kit.store.tallies(queue, first_day(now)), [queue], now, KEPT_DAYS)
    sums = total(history.days)
    return Counted(sums.submitted, sums.processed, sums.failed)


def dated(kit: Kit, days_ago: int) -> Task:
    """A record as it would have been made so many days ago."""
    record = kit.record()
    return admit(record.definition, kit.store.now() - days_ago * DAY_MS, kit.fresh("submit"))


async def test_nothing_was_counted_of_a_queue_that_is_not_known(kit: Kit) -> None:
    assert await kit.store.tallies("nobody", first_day(kit.store.now())) == []
    assert await kit.store.tallies(None, first_day(kit.store.now())) == []


async def test_a_task_counts_when_it_is_stored_whatever_state_it_begins_in(kit: Kit) -> None:
    await kit.submit()
    await kit.submit_many(3)
    await kit.submit(run_at=kit.store.now() + 3_600_000)
    await kit.submit(dependencies=("absent",))
    await kit.submit(unique_key="u", key="k", priority=3)
    assert await counted(kit) == Counted(submitted=7)


@pytest.mark.parametrize(
    ("command", "processed", "failed"),
    [
        (Complete(), 1, 0),
        (Complete(result=b"[1]"), 1, 0),
        (RETRY, 1, 1),
        (FINAL, 1, 1),
        (Terminate(error=ERROR), 1, 1),
        (Cancel(force=True), 1, 0),
        (Lose(), 1, 1),
        (Silence(), 1, 1),
        (Stop(), 1, 1),
        (Release(), 0, 0),
        (Snooze(delay=1_000), 0, 0),
        (RequestCancel(), 0, 0),
    ],
    ids=lambda value: value.event.value if isinstance(value, Command) else str(value),
)
async def test_a_run_counts_when_it_ends_and_not_when_it_is_given_back(
    kit: Kit, command: Command, processed: int, failed: int
) -> None:
    task = await kit.active()
    assert await counted(kit) == Counted(submitted=1)
    await kit.move(task, command)
    assert await counted(kit) == Counted(1, processed, failed)


@pytest.mark.parametrize("command", [RETRY, Release(), Interrupted(), Lose()])
async def test_a_run_that_was_asked_to_stop_counts_as_ended_not_as_failed(
    kit: Kit, command: Command
) -> None:
    task = await kit.active()
    asked = await kit.moved(task, RequestCancel())
    await kit.moved(asked, command)
    assert await counted(kit) == Counted(1, 1, 0)


async def test_every_run_of_a_task_counts_and_the_task_once(kit: Kit) -> None:
    task = await kit.active(policy={"retry_delay": None})
    for _ in range(2):
        await kit.move(task, RETRY)
        (task,) = await kit.claim()
    done = await kit.moved(task, Complete())
    assert await counted(kit) == Counted(1, 3, 2)
    await kit.moved(done, Rerun())
    (task,) = await kit.claim()
    await kit.move(task, Complete())
    assert await counted(kit) == Counted(1, 4, 2)


async def test_what_ends_without_a_run_was_not_processed(kit: Kit) -> None:
    task = await kit.submit()
    task = await kit.moved(task, Reprioritise(priority=2))
    ended = await kit.moved(task, Cancel())
    await kit.move(ended, Delete())
    assert await counted(kit) == Counted(submitted=1)


async def test_counts_outlive_the_task_also_where_its_end_discards_it(kit: Kit) -> None:
    task = await kit.active(policy={"discard_states": ("completed",)})
    assert await kit.move(task, Complete()) is None
    other = await kit.active()
    ended = await kit.moved(other, FINAL)
    assert await kit.move(ended, Delete()) is None
    assert await counted(kit) == Counted(2, 2, 1)


async def test_many_runs_that_end_in_one_call_count_each_in_its_queue(kit: Kit) -> None:
    for queue, count in (("a", 5), ("b", 3)):
        await kit.submit_many(count, queue=queue)
    tasks = await kit.claim(20, queues=("a", "b"))
    ends = [kit.change(t, Complete() if n % 2 else FINAL) for n, t in enumerate(tasks)]
    outcomes = await kit.store.commit(ends)
    assert {outcome.kind for outcome in outcomes} == {ChangeKind.APPLIED}
    failed: dict[str, int] = {"a": 0, "b": 0}
    for n, task in enumerate(tasks):
        failed[task.definition.queue] += n % 2 == 0
    assert await counted(kit, "a") == Counted(5, 5, failed["a"])
    assert await counted(kit, "b") == Counted(3, 3, failed["b"])
    found = await kit.store.tallies(None, first_day(kit.store.now()))
    assert {one.queue for one in found} == {"a", "b"}
    assert sum(one.count for one in found if one.tally == "submitted") == 8


async def test_an_item_that_is_refused_counts_nothing_and_its_neighbours_count(kit: Kit) -> None:
    first = await kit.active()
    second = await kit.active()
    gone = await kit.active()
    stale = kit.change(gone, Complete())
    await kit.move(gone, RETRY)
    outcomes = await kit.store.commit(
        [kit.change(first, Complete()), stale, kit.change(second, Complete())]
    )
    assert [o.kind for o in outcomes] == [
        ChangeKind.APPLIED,
        ChangeKind.CONFLICT,
        ChangeKind.APPLIED,
    ]
    assert await counted(kit) == Counted(3, 3, 1)


async def test_an_item_that_cannot_be_written_counts_nothing(kit: Kit) -> None:
    good, bad, also_good = (kit.record() for _ in range(3))
    spoilt = Task(definition=replace(bad.definition, headers={"x": HALF}), status=bad.status)
    outcomes = await kit.create(good, spoilt, also_good)
    stored = sum(outcome.kind is CreateKind.CREATED for outcome in outcomes)
    assert outcomes[0].kind is outcomes[2].kind is CreateKind.CREATED
    assert await counted(kit) == Counted(submitted=stored)


async def test_a_repeated_write_counts_once(kit: Kit) -> None:
    record = kit.record()
    assert [c.kind for c in await kit.create(record)] == [CreateKind.CREATED]
    assert [c.kind for c in await kit.create(record)] == [CreateKind.EXISTS]
    assert {c.kind for c in await kit.create(record, kit.record())} == set(CreateKind) & {
        CreateKind.EXISTS,
        CreateKind.CREATED,
    }
    (task, other) = await kit.claim(2)
    end = kit.change(task, Complete())
    for _ in range(3):
        assert (await kit.commit(end)).kind is ChangeKind.APPLIED
    both = [end, kit.change(other, FINAL)]
    assert {c.kind for c in await kit.store.commit(both)} == {ChangeKind.APPLIED}
    assert {c.kind for c in await kit.store.commit(both)} == {ChangeKind.APPLIED}
    assert await counted(kit) == Counted(2, 2, 1)


async def test_a_write_whose_answer_was_lost_counts_once(kit: Kit, store_kind: str) -> None:
    kind = store_kind.partition("-")[0]
    if kind in ("memory", "given"):
        pytest.skip("no answers are lost on their way")
    submitted = ended = at = 0
    while True:
        at += 1
        record = kit.record()
        with fault(kind, at) as lost:
            await ask(lambda record=record: kit.store.create([record]))
        submitted += 1
        again = lost.happened
        (task,) = await kit.until(kit.claim)  # the hint may have been lost, too
        change = kit.change(task, Complete())
        with fault(kind, at) as lost:
            await ask(lambda change=change: kit.store.commit([change]))
        ended += 1
        since = day_of(task.status.created_at)
        with fault(kind, at) as lost_reading:
            await ask(lambda since=since: kit.store.tallies("default", since))
        assert await counted(kit) == Counted(submitted, ended, 0), at
        if not (again or lost.happened or lost_reading.happened):
            break


async def test_each_day_has_counts_of_its_own(kit: Kit) -> None:
    old, *newer = [dated(kit, days) for days in (9, 5, 5)]
    assert {c.kind for c in await kit.create(old, *newer)} == {CreateKind.CREATED}
    tasks = await kit.claim(3)
    ends = [kit.change(task, Complete()) for task in tasks]
    assert {c.kind for c in await kit.store.commit(ends)} == {ChangeKind.APPLIED}
    expected = Counter((day_of(end.event.at), "finished") for end in ends)
    expected += Counter((day_of(task.status.created_at), "submitted") for task in (old, *newer))
    found = Counter[tuple[int, str]]()
    for one in await kit.store.tallies("default", first_day(kit.store.now())):
        found[one.day, one.tally] += one.count
    assert found == expected


async def test_days_are_kept_as_long_as_promised_and_then_dropped(kit: Kit) -> None:
    # a day less than is kept, for midnight may come at any time; the engine's tests are exact
    oldest, too_old = dated(kit, KEPT_DAYS - 2), dated(kit, KEPT_DAYS)
    fresh = kit.record()
    await kit.create(oldest, too_old, fresh)
    await kit.take_due()  # some stores fold what was counted as they look for what is due
    await kit.store.trim(10_000)
    since = first_day(kit.store.now()) - 5
    kept = {one.day for one in await kit.store.tallies("default", since)}
    assert kept == {
        day_of(oldest.status.created_at),
        day_of(fresh.status.created_at),
    }


async def test_counts_are_there_for_another_instance_and_when_the_store_is_opened_anew(
    kit: Kit,
) -> None:
    task = await kit.active()
    other = await kit.again()
    await other.commit([kit.change(task, Complete())])
    assert await counted(kit) == Counted(1, 1, 0)
    now = kit.store.now()
    found = await other.tallies("default", first_day(now))
    assert {(one.tally, one.count) for one in found} == {("submitted", 1), ("finished", 1)}


async def test_moves_that_come_with_a_record_count_on_their_own_days(kit: Kit) -> None:
    life = Elsewhere(kit).claim().move(RETRY)
    assert await kit.store.restore([life.snapshot()]) == [True]
    assert await kit.store.restore([life.snapshot()]) == [False]
    assert await counted(kit) == Counted(1, 1, 1)
    bare = Snapshot(task=Elsewhere(kit).task, history=())
    assert await kit.store.restore([bare]) == [True]


async def test_counts_stand_beside_a_task_of_many_moves(kit: Kit) -> None:
    task = await kit.active(policy={"max_retries": 100, "retry_delay": None})
    for _ in range(24):
        await kit.move(task, RETRY)
        (task,) = await kit.claim()
    assert await counted(kit) == Counted(1, 24, 24)
    for _ in range(13):
        await kit.move(task, RETRY)
        (task,) = await kit.claim()
    assert await counted(kit) == Counted(1, 37, 37)
