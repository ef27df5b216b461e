"""Workers, submitters and a meddler on one store, killed at random moments under load."""

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import Collection

import pytest
from histories import active_intervals, most_at_once, most_per_key

from andon.engine.base import Submission
from andon.engine.local import LocalEngine
from andon.engine.schedule_requests import ScheduleRequest
from andon.lifecycle.recurrence.occurrences import between
from andon.model.fleet import QueueConfig
from andon.model.recurrence import Recurrence
from andon.model.words import TERMINAL, Event, State
from andon.stores.registry import open_store

from .conftest import Fleet
from .program import OPTIONS, key_of
from .watching import PATIENCE_S, STORM_S, Watcher

pytestmark = pytest.mark.crash


async def storm(
    fleet: Fleet,
    rng: random.Random,
    *,
    workers: int,
    submitters: int,
    meddlers: int,
    prey: str,
    until: tuple[Event, ...] = (),
    bears: bool = False,
) -> Watcher:
    """Start a fleet, kill whoever's name begins like one of `prey` again and again, for a while and
    until each event of `until` was seen; let the rest finish; the watcher that saw it all."""
    store = open_store(fleet.url)
    await store.open()
    try:
        watcher = Watcher(store)
        starts: dict[str, tuple[object, ...]] = {}
        each, enough = 400, "enough"  # and more as long as the hunt lasts: who is idle loses no run
        for n in range(workers):
            starts[f"worker{n}"] = ("work", rng.random(), *(["bear"] * bears))
        for n in range(submitters):
            starts[f"submitter{n}"] = ("submit", rng.random(), f"s{n}", each, enough)
        for n in range(meddlers):
            starts[f"meddler{n}"] = ("meddle", rng.random())
        for name, (role, *rest) in starts.items():
            fleet.start(name, str(role), *rest)
        hunted = {name: start for name, start in starts.items() if name[0] in prey}
        await hunt(fleet, rng, watcher, hunted, until)
        (fleet.folder / enough).touch()
        for n in range(meddlers):
            fleet.signal(f"meddler{n}", signal.SIGTERM)
            assert fleet.end(f"meddler{n}") in (0, -signal.SIGTERM), fleet.logs()
        for n in range(submitters):
            assert fleet.end(f"submitter{n}") == 0, fleet.logs()
        submitted: set[str] = set()
        for n in range(submitters):
            count = len({name for (name,) in fleet.lines(f"acknowledged-s{n}")})
            assert count >= each
            submitted.update(f"s{n}-{i}" for i in range(count))
        await watcher.until_resolved(len(submitted) * (1 + bears))
        for n in range(workers):
            fleet.signal(f"worker{n}", signal.SIGTERM)
        for n in range(workers):
            # One that had only just begun takes no signals yet; nothing is left for it to do.
            assert fleet.end(f"worker{n}") in (0, -signal.SIGTERM), fleet.logs()
        await watcher.look()
        await balanced(fleet, watcher, submitted, born_in(watcher) if bears else set())
        return watcher
    finally:
        await store.close()


async def hunt(
    fleet: Fleet,
    rng: random.Random,
    watcher: Watcher,
    hunted: dict[str, tuple[object, ...]],
    until: tuple[Event, ...] = (),
    *,
    seconds: float = STORM_S,
) -> None:
    """Kill one after another and start it again."""
    start = time.monotonic()
    kills = 0
    while True:
        missing = set(until) - {event.event for event in watcher.events}
        if not missing and time.monotonic() > start + seconds:
            break
        assert time.monotonic() < start + seconds + PATIENCE_S, f"never seen: {missing}"
        await watcher.follow(rng.uniform(0.2, 0.7))
        name = rng.choice(list(hunted))
        if rng.random() < 0.8:  # else perhaps while it begins
            await watcher.until(lambda name=name: fleet.is_up(name))
        if fleet.kill(name) == -signal.SIGKILL:
            kills += 1
        role, *rest = hunted[name]
        fleet.start(name, str(role), *rest)
    assert kills, "nobody was alive to be killed"


def born_in(watcher: Watcher) -> set[str]:
    """What the runs bore that completed, by the events of their tasks."""
    return {
        f"{event.task}-{event.run}"
        for event in watcher.events
        if event.event is Event.COMPLETE and event.task.count("-") == 1
    }


async def balanced(
    fleet: Fleet, watcher: Watcher, submitted: set[str], born: Collection[str] = ()
) -> None:
    """The ledger: submitted = resolved, once a run, and what was accepted was really done. What
    completed runs bore is there, and nothing else is."""
    assert fleet.acknowledged() == submitted
    submitted = submitted.union(born)
    watcher.ledger.balance(submitted)
    assert Counter(e.event for e in watcher.events)[Event.SUBMIT] == len(submitted)
    done = {(task, int(run), int(fence)) for task, run, fence in fleet.lines("done")}
    ids = sorted(submitted)
    for start in range(0, len(ids), 200):
        for task in await watcher.store.get(ids[start : start + 200]):
            assert task is not None
            assert task.state in TERMINAL
            fences = [run.fence for run in task.status.runs if run.fence]
            assert fences == sorted(set(fences))
            for run in task.status.runs:
                if run.resolved_event is Event.COMPLETE:
                    assert (task.id, run.number, run.fence) in done
            if task.state is State.COMPLETED:
                assert task.result == str(task.status.fence).encode()
    history = await watcher.store.history(ids[0])
    seen = [event for event in watcher.events if event.task == ids[0]]
    assert list(history.events) == seen


def test_workers_killed_under_load_lose_nothing_and_bear_each_follow_up_once(
    fleet: Fleet, rng: random.Random
) -> None:
    until = (Event.LOSE,)
    watcher = asyncio.run(
        storm(fleet, rng, workers=3, submitters=1, meddlers=0, prey="w", until=until, bears=True)
    )
    assert set(watcher.ledger.states()) == {State.COMPLETED}


def test_timekeepers_and_workers_killed_lose_and_double_no_occurrence(
    fleet: Fleet, rng: random.Random
) -> None:
    """With catch_up="all": each second of each schedule once, by the ledger. A quarter of a minute
    on each store; ten minutes at 200 a second are in benchmarks/bearing_killed.py."""
    asyncio.run(occurrences_under_kills(fleet, rng, schedules=20, seconds=15))


async def occurrences_under_kills(
    fleet: Fleet, rng: random.Random, *, schedules: int, seconds: int
) -> None:
    engine = LocalEngine(open_store(fleet.url))
    await engine.open()
    try:
        watcher = Watcher(engine.store)
        begin = (engine.now() // 1000 + 2) * 1000
        end = begin + seconds * 1000
        times = Recurrence(every=1, jitter=1.0, catch_up="all", start=begin, end=end)
        task = Submission(id="", name="step", options=OPTIONS)
        names = [f"each{n}" for n in range(schedules)]
        wishes = [ScheduleRequest(name=name, recurrence=times, task=task) for name in names]
        made = await engine.schedules.put(wishes, "add")
        assert {one.result for one in made} == {"created"}
        wanted = {one.id for name in names for one in between(times, name, start=begin, end=end)}
        assert len(wanted) == schedules * seconds
        hunted: dict[str, tuple[object, ...]] = {
            f"worker{n}": ("work", rng.random()) for n in range(3)
        }
        for name, (role, *rest) in hunted.items():
            fleet.start(name, str(role), *rest)
        await hunt(fleet, rng, watcher, hunted, seconds=seconds)
        await watcher.until_resolved(len(wanted) + schedules)
        for name in hunted:
            fleet.signal(name, signal.SIGTERM)
            assert fleet.end(name) in (0, -signal.SIGTERM), fleet.logs()
        await watcher.look()
        watcher.ledger.balance(wanted.union(names))
        assert set(watcher.ledger.states()) == {State.COMPLETED}
        submits = Counter(e.task for e in watcher.events if e.event is Event.SUBMIT)
        assert set(submits.values()) == {1}
        done = {task_id for task_id, _, _ in fleet.lines("done")}
        assert done == wanted
    finally:
        await engine.close()


def test_submitters_killed_lose_nothing_acknowledged(fleet: Fleet, rng: random.Random) -> None:
    watcher = asyncio.run(storm(fleet, rng, workers=1, submitters=2, meddlers=0, prey="s"))
    assert set(watcher.ledger.states()) == {State.COMPLETED}


def test_everybody_killed_while_others_cancel_and_rerun(fleet: Fleet, rng: random.Random) -> None:
    asyncio.run(
        storm(
            fleet,
            rng,
            workers=2,
            submitters=1,
            meddlers=1,
            prey="wsm",
            until=(Event.RERUN, Event.CANCEL),
        )
    )


def test_limits_hold_while_workers_are_killed(fleet: Fleet, rng: random.Random) -> None:
    """What a killed worker held is counted until its lease has run out, and no longer."""

    async def limited() -> None:
        store = open_store(fleet.url)
        await store.open()
        limits = QueueConfig(name="default", max_concurrent=4, max_concurrent_per_key=2)
        assert await store.put_queue(limits, expect=QueueConfig(name="default"))
        await store.close()

    asyncio.run(limited())
    watcher = asyncio.run(
        storm(
            fleet,
            rng,
            workers=3,
            submitters=1,
            meddlers=1,
            prey="w",
            until=(Event.LOSE, Event.RERUN, Event.CANCEL),
        )
    )
    intervals = active_intervals(watcher.events)
    assert most_at_once(intervals) <= 4
    assert max(most_per_key(intervals, key_of).values()) <= 2


def test_a_worker_stopped_past_its_lease_is_refused_when_it_goes_on(
    fleet: Fleet, rng: random.Random
) -> None:
    async def scenario() -> None:
        store = open_store(fleet.url)
        await store.open()
        watcher = Watcher(store)
        fleet.start("submitter", "submit", rng.random(), "s", 1)
        assert fleet.end("submitter") == 0, fleet.logs()
        fleet.start("holder", "hold", rng.random())
        claimed, task_id, fence = await asyncio.to_thread(fleet.line, "holder")
        assert (claimed, task_id) == ("claimed", "s-0"), fleet.logs()
        fleet.signal("holder", signal.SIGSTOP)
        fleet.start("worker", "work", rng.random())
        await watcher.until_resolved(1)
        before = len(watcher.events)
        fleet.tell("holder")
        fleet.signal("holder", signal.SIGCONT)
        assert await asyncio.to_thread(fleet.line, "holder") == ["refused"]
        assert fleet.end("holder") == 0, fleet.logs()
        await watcher.look()
        assert len(watcher.events) == before, "a late report changed something"
        [task] = await store.get(["s-0"])
        assert task is not None
        assert task.state is State.COMPLETED
        assert task.result == str(task.status.fence).encode()
        assert task.status.fence > int(fence)
        assert watcher.ledger.moves[Event.LOSE.value] == 1
        await store.close()

    asyncio.run(scenario())
