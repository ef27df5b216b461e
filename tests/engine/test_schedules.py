"""Schedules fire each of their times once, whoever fires them and whoever dies (docs/rulings.md,
R39)."""

import asyncio
import random
from contextlib import suppress
from typing import Any

import pytest
from msgspec.structs import replace

from andon.engine.base import Submission
from andon.engine.local import LocalEngine
from andon.engine.schedule_requests import (
    BACKFILL_ASKS,
    ScheduleAct,
    ScheduleOutcome,
    ScheduleRequest,
)
from andon.engine.schedule_views import changed, next_due
from andon.lifecycle import decide_schedules, firing
from andon.lifecycle.commands import Complete, Fail, RunNow
from andon.lifecycle.schedules import PARTS
from andon.model.errors import (
    ConfigurationError,
    InvalidTransition,
    StoreUnavailable,
    TaskNotFound,
)
from andon.model.recurrence import Recurrence
from andon.model.task import Schedule, TaskError
from andon.model.words import Event, Reason, State

from .conftest import START, Shop

MINUTE = 60_000
NO = Fail(error=TaskError(message="no"), retryable=False)


def request(name: str = "s", *, recurrence: Recurrence | None = None, **fields: Any) -> Any:
    task = {"id": "", "name": "job", **fields.pop("task", {})}
    times = recurrence or Recurrence(every=60, catch_up="all")
    return ScheduleRequest(name=name, recurrence=times, task=Submission(**task), **fields)


async def put(shop: Shop, *requests: Any, how: Any = "add") -> list[ScheduleOutcome]:
    return await shop.engine.schedules.put(requests, how)


async def made(shop: Shop, name: str = "s", **fields: Any) -> None:
    (outcome,) = await put(shop, request(name, **fields))
    assert outcome.error is None, outcome.error
    assert outcome.result == "created"


async def schedule(shop: Shop, name: str = "s") -> Schedule:
    found = (await shop.task(name)).status.schedule
    assert found is not None
    return found


def at(minutes: int, name: str = "s") -> str:
    hours, minutes = divmod(minutes, 60)
    return f"{name}:20270115T{8 + hours:02}{minutes:02}00Z"


async def states(shop: Shop, minutes: range, name: str = "s") -> list[State | None]:
    return await shop.engine.store.states([at(minute, name) for minute in minutes])


async def test_a_schedule_bears_a_task_at_each_of_its_times(shop: Shop) -> None:
    await made(shop, task={"args": b"[1]", "tags": ("t",), "deadline_in": 5_000.0})
    await shop.later(59.9)
    assert await states(shop, range(1, 2)) == [None]
    await shop.later(0.1)
    await shop.later(180)
    assert await states(shop, range(1, 6)) == [State.PENDING] * 4 + [None]
    born = (await shop.task(at(1))).definition
    assert (born.args, born.tags, born.bearer) == (b"[1]", ("t",), "s")
    assert born.deadline == START + MINUTE + 5_000_000
    s = await schedule(shop)
    assert (s.fired, s.last_id, s.next_due) == (4, at(4), START + 5 * MINUTE)
    events = (await shop.engine.history("s")).events
    assert [e.event for e in events] == [Event.SUBMIT] + [Event.RECUR, Event.DELIVER] * 2
    assert {e.target for e in events} == {State.RECURRING}
    assert (await shop.run()).definition.name == "job"  # the schedule itself is never claimed


@pytest.mark.parametrize("step", ["create", "deliver"])
async def test_a_crash_after_it_has_fired_loses_and_doubles_nothing(
    shop: Shop, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def crashed(*_: object) -> None:
        raise StoreUnavailable("away")

    await made(shop)
    shop.clock.ms += 2 * MINUTE
    with monkeypatch.context() as patch:
        where: Any = shop.engine.store
        if step == "deliver":
            where = shop.engine.schedules._control  # pyright: ignore[reportPrivateUsage]
        patch.setattr(where, "create" if step == "create" else "act_each", crashed)
        with pytest.raises(StoreUnavailable):
            await shop.fire()
    assert (await states(shop, range(1, 2)) == [None]) == (step == "create")
    assert [d.id for d in (await shop.task("s")).status.owes] == [at(1), at(2)]
    if step == "deliver":
        assert (await shop.run()).id == at(1)
    await shop.later(20)  # beyond the hold of who took the timer
    assert (await shop.task("s")).status.owes == ()
    assert None not in await states(shop, range(1, 3))
    assert await states(shop, range(3, 4)) == [None]
    assert await _moves(shop, at(1)) == 1 + 2 * (step == "deliver")


async def _moves(shop: Shop, task_id: str) -> int:
    return len((await shop.engine.history(task_id)).events)


async def test_two_timekeepers_at_once_fire_it_once(shop: Shop) -> None:
    names = [f"s{i}" for i in range(20)]
    await put(shop, *(request(name) for name in names))
    other = LocalEngine(shop.engine.store, random=random.Random(8))
    shop.clock.ms += MINUTE
    for _ in range(3):
        await asyncio.gather(shop.fire(), Shop.fire(_same(shop, other)))
        shop.clock.ms += 11_000
    for name in names:
        assert (await schedule(shop, name)).fired == 1
        assert await _moves(shop, at(1, name)) == 1


def _same(shop: Shop, engine: LocalEngine) -> Shop:
    """Another process on the same store."""
    twin = object.__new__(Shop)
    twin.__dict__.update({**vars(shop), "engine": engine})
    return twin


@pytest.mark.parametrize("seed", range(2))
async def test_each_time_fires_exactly_once_however_late_and_whoever_dies(
    shop: Shop, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Timers come late by minutes, and every other timekeeper dies in one of its writes."""
    chance = random.Random(seed)
    store, real = shop.engine.store, shop.engine.store.create
    control = shop.engine.schedules._control  # pyright: ignore[reportPrivateUsage]
    noting = control.act_each

    def dying(call: Any, *, written: bool) -> Any:
        async def die(*args: Any) -> Any:
            if written:
                await call(*args)
            raise StoreUnavailable("killed")

        return die

    await made(shop)
    await made(shop, "waits", overlap="queue")
    for _ in range(25):
        shop.clock.ms += chance.randrange(1, 150) * 1000
        with monkeypatch.context() as patch:
            fate = chance.randrange(6)
            if fate < 2:
                patch.setattr(store, "create", dying(real, written=fate == 1))
            elif fate < 4:
                patch.setattr(control, "act_each", dying(noting, written=fate == 3))
            with suppress(StoreUnavailable):
                await shop.fire()
    for _ in range(3):
        await shop.later(11)
    minutes = (shop.clock.ms - START) // MINUTE
    for name in ("s", "waits"):
        ids = [at(minute, name) for minute in range(1, minutes + 1)]
        assert None not in await store.states(ids)
        assert (await schedule(shop, name)).fired == minutes
        assert [len((await store.history(i)).events) for i in ids] == [1] * minutes
    assert await states(shop, range(minutes + 1, minutes + 3)) == [None, None]


async def test_one_that_cannot_be_decided_on_fails_alone(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = firing.recurred

    def broken(name: str, *args: Any) -> Any:
        if name == "bad":
            raise ZeroDivisionError("no such zone")
        return real(name, *args)

    monkeypatch.setattr(decide_schedules, "recurred", broken)
    await put(shop, request("a"), request("bad"), request("z"))
    await shop.later(60)
    assert await shop.state(at(1, "a")) is await shop.state(at(1, "z")) is State.PENDING
    assert await shop.state("bad") is State.RECURRING
    monkeypatch.undo()
    await shop.later(600)
    assert None not in await states(shop, range(1, 11), "bad")


async def test_what_overlaps_is_left_out_or_waits(shop: Shop) -> None:
    await made(shop, "skips", overlap="skip")
    await made(shop, "waits", overlap="queue")
    await shop.later(60)
    first = await shop.claim(2, lease_ms=600_000)
    await shop.later(60)
    assert await states(shop, range(1, 3), "skips") == [State.ACTIVE, None]
    assert (await shop.task("skips")).status.reason is Reason.OVERLAP
    assert await states(shop, range(1, 3), "waits") == [State.ACTIVE, State.BLOCKED]
    for task in first:
        await shop.engine.report(task, NO)
    await shop.told()
    assert await shop.state(at(2, "waits")) is State.PENDING
    await shop.run()
    await shop.later(60)
    assert await states(shop, range(3, 4), "skips") == [State.PENDING]
    assert await states(shop, range(3, 4), "waits") == [State.PENDING]


@pytest.mark.parametrize("overlap", ["allow", "skip", "queue", "replace"])
async def test_an_outage_of_which_nothing_is_made_up_for_ends_no_schedule(
    shop: Shop, overlap: Any
) -> None:
    await made(shop, recurrence=Recurrence(every=600, catch_up="none"), overlap=overlap)
    await shop.later(620 + 61)  # the first is too late to be made up for
    s = await schedule(shop)
    assert (s.fired, s.next_due) == (0, START + 20 * MINUTE)
    await shop.later(600 - 81)
    assert (await schedule(shop)).fired == 1


async def test_it_ends_with_its_count_and_begins_anew_by_rerun(shop: Shop) -> None:
    await made(shop, recurrence=Recurrence(every=60, count=2))
    await shop.later(60)
    await shop.later(60)
    ended = await shop.task("s")
    assert (ended.state, ended.status.reason) == (State.COMPLETED, Reason.SCHEDULE_ENDED)
    assert ended.status.owes == ()
    await shop.later(400 * 86_400)
    assert await shop.state("s") is State.COMPLETED  # kept, so that no declaration begins it anew
    (again,) = await shop.engine.retry(["s"])
    assert (again.state, again.error) == (State.RECURRING, None)
    assert (await schedule(shop)).fired == 0


async def test_failures_in_a_row_pause_it_and_resume_begins_now(shop: Shop) -> None:
    await made(shop, pause_after=2)
    for outcome in (NO, Complete(), NO, NO):
        await shop.later(60)
        await shop.run(outcome)
    await shop.later(600)
    paused = await shop.task("s")
    assert paused.status.reason is Reason.FAILURES_IN_A_ROW
    assert (await schedule(shop)).paused_at == shop.clock.ms
    assert await states(shop, range(5, 6)) == [None]
    [resumed] = await shop.engine.schedules.act(["s"], "resume")
    assert resumed.error is None
    await shop.later(60)
    assert await states(shop, range(13, 16)) == [None, None, State.PENDING]


async def test_run_now_bears_one_more_and_keeps_the_times(shop: Shop) -> None:
    await made(shop)
    shop.clock.ms += 1_500
    [acted] = await shop.engine.act(["s"], RunNow())
    assert (acted.state, acted.error) == (State.RECURRING, None)
    assert await shop.state("s:20270115T080001Z") is State.PENDING
    s = await schedule(shop)
    assert (s.fired, s.next_due, s.last_id) == (0, START + MINUTE, "s:20270115T080001Z")


async def test_code_that_says_something_new_revises_and_an_older_release_does_not(
    shop: Shop,
) -> None:
    def said(release: str, every: int = 60, application: str = "shop") -> Any:
        times = Recurrence(every=every)
        return request(recurrence=times, application=application, release=release)

    async def declared(*args: Any, **more: Any) -> str:
        (outcome,) = await put(shop, said(*args, **more), how="declare")
        return str(outcome.error or outcome.result)

    assert await declared("1.9") == "created"
    assert await declared("1.9") == "unchanged"
    assert await declared("1.10", 30) == "revised"
    assert await declared("1.9", 20) == "older"
    assert await declared("modified:1900000000000", 20) == "older"
    (edited,) = await put(shop, request(recurrence=Recurrence(every=10)), how="edit")
    assert edited.result == "revised"
    assert await declared("1.11", 30) == "revised"  # its release; the edit holds
    assert (await schedule(shop)).recurrence.every == 10
    assert await declared("1.11", 45) == "revised"
    assert (await schedule(shop)).recurrence.every == 45
    assert "declared by application 'shop'" in await declared("9", application="another")
    (taken,) = await put(shop, request())
    assert "There is a schedule 's' already" in str(taken.error)


async def test_two_who_edit_other_parts_at_once_both_have_their_way(shop: Shop) -> None:
    await made(shop, task={"args": b"[1]"})
    read = await shop.task("s")
    await shop.later(180)  # what it fires meanwhile is no change of what was read
    edits = [
        {"every": 30},
        {"overlap": "skip"},
        {"args": b"[2]", "priority": 2},
        {"pause_after": 3},
    ]
    done = await put(shop, *(changed(read, edit) for edit in edits), how="edit")
    assert [one.result for one in done] == ["revised"] * 4
    s = await schedule(shop)
    assert (s.recurrence.every, s.overlap, s.pause_after) == (30, "skip", 3)
    assert (s.template.args, s.template.priority) == (b"[2]", 2)


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize(
    ("part", "first", "second"),
    [
        ("times", {"every": 30}, {"catch_up": "none"}),
        ("task", {"args": b"[2]"}, {"queue": "other"}),
        ("task", {"deadline_in": 5.0}, {"task": "another"}),
        ("overlap", {"overlap": "skip"}, {"overlap": "queue"}),
        ("pause_after", {"pause_after": 3}, {"pause_after": 5}),
    ],
)
async def test_of_two_who_edit_one_part_at_once_the_second_is_told_and_changes_nothing(
    shop: Shop, part: str, first: Any, second: Any, ended: bool
) -> None:
    await made(shop)
    if ended:
        await shop.engine.schedules.act(["s"], "cancel")
    read = await shop.task("s")
    await put(shop, changed(read, first), how="edit")
    there = await shop.task("s")
    if ended:
        await shop.engine.schedules.act(["s"], "cancel")
    beside: Any = {"overlap": "replace"} if part != "overlap" else {"pause_after": 9}
    late, fine = await put(
        shop, changed(read, second), changed(await shop.task("s"), beside), how="edit"
    )
    assert isinstance(late.error, InvalidTransition)
    assert f"Somebody else has changed its {part} meanwhile" in str(late.error)
    assert fine.error is None  # one refused edit of a call fails alone
    left = await schedule(shop)
    assert [getattr(left, name) for name in PARTS[part]] == [
        getattr(there.status.schedule, name) for name in PARTS[part]
    ]


async def test_an_edit_by_hand_holds_beside_a_deploy_that_says_nothing_new(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def said(release: str) -> Any:
        return request(application="shop", release=release)

    await put(shop, said("1"), how="declare")
    edit = changed(await shop.task("s"), {"every": 30})
    acts, reached = shop.engine.schedules._act, asyncio.Event()  # pyright: ignore[reportPrivateUsage]

    async def late(*args: Any) -> Any:
        if not reached.is_set():  # the declaration has read the schedule, and not written yet
            reached.set()
            assert (await put(shop, edit, how="edit"))[0].error is None
        return await acts(*args)

    monkeypatch.setattr(shop.engine.schedules, "_act", late)
    (declared,) = await put(shop, said("2"), how="declare")
    s = await schedule(shop)
    assert (declared.error, s.release, s.recurrence.every) == (None, "2", 30)


async def test_no_part_but_those_there_are_is_edited(shop: Shop) -> None:
    await made(shop)
    wanted = replace(request(application="mine"), parts={"declaration": ""})
    (refused,) = await put(shop, wanted, how="edit")
    assert "are times, task, overlap, pause_after, not 'declaration'" in str(refused.error)
    assert (await schedule(shop)).application == ""


async def test_what_an_application_declares_no_more_is_pruned(shop: Shop) -> None:
    names = [("a", "shop"), ("b", "shop"), ("c", "other"), ("d", "")]
    for name, application in names:
        await put(shop, request(name, application=application), how="declare")
    keeper = shop.engine.schedules
    assert [one.id for one in await keeper.prune("shop", {"a"}, dry_run=True)] == ["b"]
    assert len(await keeper.live()) == 4
    [gone] = await keeper.prune("shop", {"a"})
    assert (gone.id, gone.state, gone.error) == ("b", None, None)
    assert [task.id for task in await keeper.live()] == ["a", "c", "d"]


async def test_a_backfill_runs_nothing_twice_and_asks_beyond_its_bound(shop: Shop) -> None:
    await made(shop, overlap="skip")
    await shop.later(120)
    await shop.run()
    keeper = shop.engine.schedules
    hour = START - 3_600_000
    done = await keeper.backfill("s", hour, START + 2 * MINUTE + 1)
    assert (done.range.count, done.created, done.existed, done.refused) == (63, 62, 1, ())
    again = await keeper.backfill("s", hour, START + 2 * MINUTE + 1)
    assert (again.created, again.existed) == (0, 63)
    with pytest.raises(ConfigurationError, match=r"1,440 occurrences.*--yes"):
        await keeper.backfill("s", START - 86_400_000, START)
    assert BACKFILL_ASKS < 1_440
    with pytest.raises(ConfigurationError, match=r"more than 1,000,000 occurrences"):
        await keeper.backfill("s", START - 10**12, START, yes=True)
    with pytest.raises(TaskNotFound):
        await keeper.backfill("none", hour, START)


async def test_acts_are_refused_of_tasks_and_repeated_safely(shop: Shop) -> None:
    await shop.submit("t")
    await made(shop)
    keeper = shop.engine.schedules
    assert next_due(await shop.task("s")) is not None
    refused, absent = await keeper.act(["t", "none"], "pause")
    assert "It is no schedule" in str(refused.error)
    assert isinstance(absent.error, TaskNotFound)
    steps: tuple[tuple[ScheduleAct, State | None], ...] = (
        ("pause", State.RECURRING),
        ("cancel", State.CANCELLED),
        ("delete", None),
    )
    for act, state in steps:
        for changes in (True, False)[: 1 + (act != "delete")]:
            [acted] = await keeper.act(["s"], act)
            assert (acted.state, acted.changed, acted.error) == (state, changes, None)
        if state is not None:
            assert next_due(await shop.task("s")) is None
    (taken,) = await put(shop, request("t"))
    assert "is the id of a task" in str(taken.error)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"recurrence": Recurrence(cron=("61 * * * *",))}, "61"),
    ({"recurrence": Recurrence(cron=("0 0 30 2 *",))}, "never fires"),
    ({"recurrence": Recurrence(cron=("0 0 * * *",), tz="Mars/Base")}, "Mars/Base"),
    ({"recurrence": Recurrence(every=60, start=2_000, end=1_000)}, "is not after start"),
    ({"recurrence": Recurrence(every=60, end=START - 1)}, "never fires again"),
    ({"name": "x" * 48}, "is not 1 to 47"),
    ({"name": "a.b"}, "is not 1 to 47"),
    ({"overlap": "never"}, "overlap is one of"),
    ({"pause_after": 0}, "pause_after"),
    ({"task": {"args": b'"' + b"x" * 16_384 + b'"'}}, "the limit is 16,384"),
    ({"task": {"unique_key": "u"}}, "has no unique_key"),
    ({"task": {"dependencies": ("p",)}}, "has no dependencies"),
    ({"task": {"deadline": START + MINUTE}}, "has no deadline"),
    ({"task": {"delay": 1}}, "has no delay"),
    ({"task": {"deadline_in": 0.0}}, "deadline_in must be more than 0"),
    ({"task": {"name": "bad name"}}, "task name"),
]


async def test_what_cannot_be_kept_is_refused_by_itself_with_a_sentence(shop: Shop) -> None:
    requests = [request(**{"name": f"bad{i}", **fields}) for i, (fields, _) in enumerate(BAD)]
    *refused, good = await put(shop, *requests, request("good"))
    for outcome, (fields, sentence) in zip(refused, BAD, strict=True):
        assert outcome.result == "refused", fields
        assert sentence in str(outcome.error), fields
    assert good.result == "created"
    assert [task.id for task in await shop.engine.schedules.live()] == ["good"]
