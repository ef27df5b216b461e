"""A store filled for `board.py`: many tasks of every state, and one failure that is to be found."""

import asyncio
from collections.abc import Callable, Iterator
from random import Random

import msgspec

from andon.client.ids import IdMaker
from andon.contract.limits import MAX_BATCH
from andon.contract.queries import Query
from andon.contract.requests import Snapshot
from andon.engine.actor import acting_as
from andon.engine.base import Submission
from andon.engine.local import LocalEngine
from andon.engine.schedule_requests import ScheduleRequest
from andon.engine.writes import new_write_id
from andon.lifecycle.admission import admit
from andon.lifecycle.apply import apply, stamped
from andon.lifecycle.commands import Complete, Fail
from andon.lifecycle.flows import About
from andon.lifecycle.minutes import HOUR_MS, KEPT_HOURS, MINUTE_MS, SLOT_VERSION, slot_of
from andon.model.headers import FLOW_HEADER, FLOW_TAG
from andon.model.minutes import MinuteBase, MinuteCounts, MinuteRow, MinuteSlot
from andon.model.recurrence import Recurrence
from andon.model.settings import MINUTES_SETTINGS
from andon.model.task import Definition, Stamp, Task, TaskError
from andon.model.words import State

VERSION = 2
"""Of what a filled store has: one of another version is filled anew."""

QUEUES, NAMES, FLOWS, SCHEDULES, ACTS = 10, 20, 60, 200, 300
NEEDLE = "needle-"
NEEDLE_NAME = "bench.needle"
"""The one failure of its name. It is the oldest task of all."""

FLOW = "flow-1"
LARGE_FLOW, MEMBERS = "flow-large", 500
ACTOR = "auditor"
TRACEBACK = "Traceback (most recent call last):\n" + "".join(
    f'  File "/srv/shop/step_{n}.py", line {n + 10}, in step_{n}\n    step_{n + 1}(order)\n'
    for n in range(15)
)
_DAY_MS = 86_400_000
_AT_ONCE = 6
_BANDS = (0, 2, 9, 30, 12, 4, 1, 0, 0, 0, 0, 0)
_ids = IdMaker()

Told = Callable[[int], None]


def _spread(number: int) -> Random:
    """What is drawn for a task: the same whenever a store is filled."""
    return Random(number * 2_654_435_761 % 2**32)


def waiting(number: int, drawn: Random, now: int, *, is_due: bool) -> Task:
    """A task that is pending, or scheduled."""
    at = None if is_due else now + _DAY_MS + number
    return admit(_definition(number, drawn, run_at=at), now, new_write_id())


def ended(number: int, now: int, definition: Definition, *, failed: bool) -> Task:
    """A task that has ended; who failed did so in one of forty ways."""
    task = admit(definition, now, new_write_id())
    stamp = Stamp(f"run-{number}", now, f"worker-{number % 7}", "token", now, now + 30_000)
    command: Complete | Fail = Complete(result=b'{"paid": %d}' % number)
    if failed:
        message = f"Order {number} not found in ledger of shop {chr(97 + number % 40 % 26)}"
        error = TaskError(
            message=message, type=f"shop.Error{number % 40}", traceback=TRACEBACK + message
        )
        command = Fail(error=error, retryable=False)
    moved = apply(stamped(task, stamp), command, now=now, random=lambda: 0.5)
    assert moved.status is not None
    return Task(definition=definition, status=moved.status, result=moved.result)


def _definition(number: int, drawn: Random, **fields: int | None) -> Definition:
    return Definition(
        id=_ids(),
        name=f"bench.step{drawn.randrange(NAMES)}",
        queue=f"queue-{drawn.randrange(QUEUES)}",
        key=f"customer-{drawn.randrange(1_000)}" if drawn.random() < 0.1 else None,
        tags=("web",) if drawn.random() < 0.02 else (),
        args=b'{"order": %d}' % number,
        **fields,  # pyright: ignore[reportArgumentType]
    )


def flow(group: str, members: int, now: int) -> list[Task]:
    """A flow of so many tasks."""
    about = msgspec.json.encode(About(name=f"nightly {group}", members=members, digest="d"))
    first = Definition(
        id=f"{group}:0",
        name="bench.step0",
        group=group,
        tags=(FLOW_TAG,),
        headers={FLOW_HEADER: about.decode()},
        run_at=now + _DAY_MS,
    )
    rest = [
        Definition(
            id=f"{group}:{n}", name=f"bench.step{n % NAMES}", group=group, run_at=now + _DAY_MS
        )
        for n in range(1, members)
    ]
    return [admit(definition, now, new_write_id()) for definition in (first, *rest)]


async def fill(engine: LocalEngine, tasks: int, told: Told = lambda _: None) -> None:
    """The failure that is to be found, flows, schedules and a day of minutes, then that many
    others: of ten, four are pending and two scheduled, three have completed and one has failed.
    `told` is called with how many there are so far."""
    store = engine.store
    await needle(engine)
    await store.create(flow(LARGE_FLOW, MEMBERS, store.now())[:MAX_BATCH])
    for at in range(MAX_BATCH, MEMBERS, MAX_BATCH):
        await store.create(flow(LARGE_FLOW, MEMBERS, store.now())[at : at + MAX_BATCH])
    for number in range(FLOWS):
        await store.create(flow(f"flow-{number}", 5, store.now()))
    await _schedules(engine)
    await _acts(engine)
    await _minutes(engine)
    left = _batches(tasks)
    done = 0

    async def some() -> None:
        nonlocal done
        for batch in left:
            now = store.now()
            waits: list[Task] = []
            over: list[Task] = []
            for number in batch:
                drawn = _spread(number)
                state = drawn.randrange(10)
                if state < 6:
                    waits.append(waiting(number, drawn, now, is_due=state < 4))
                else:
                    definition = _definition(number, drawn)
                    over.append(ended(number, now, definition, failed=state == 9))
            await store.create(waits)
            await store.restore([Snapshot(task=t, history=t.status.events) for t in over])
            done += len(batch)
            told(done)

    await asyncio.gather(*(some() for _ in range(_AT_ONCE)))


async def needle(engine: LocalEngine) -> str:
    """The id of the one failure of its name, which is made if there is none: whoever ran the last
    one again has taken it."""
    store = engine.store
    page = await store.find(Query(name=NEEDLE_NAME, states=(State.FAILED,), limit=1))
    if page.tasks:
        return page.tasks[0].id
    made = f"{NEEDLE}{store.now()}"
    definition = Definition(id=made, name=NEEDLE_NAME, queue="queue-0", tags=("rare",))
    task = ended(0, store.now(), definition, failed=True)
    await store.restore([Snapshot(task=task, history=task.status.events)])
    return made


async def _schedules(engine: LocalEngine) -> None:
    task = Submission(id="", name="bench.step0", args=b'{"n":1}')
    for start in range(0, SCHEDULES, 50):
        requests = [
            ScheduleRequest(name=f"daily-{n}", recurrence=Recurrence(every=30 * 86_400), task=task)
            for n in range(start, start + 50)
        ]
        for outcome in await engine.schedules.put(requests, "add"):
            if outcome.error is not None:
                raise outcome.error


async def _acts(engine: LocalEngine) -> None:
    """Acts by hand, for the audit list."""
    with acting_as(ACTOR):
        for number in range(ACTS // 2):
            for paused in (True, False):
                await engine.configure_queue(f"queue-{number % QUEUES}", {"paused": paused})


async def _minutes(engine: LocalEngine) -> None:
    """A day in which every queue and type had something to do in each minute."""
    store = engine.store
    end = store.now() // MINUTE_MS
    each = MinuteCounts(90, 90, 50, 8, 40, 9, 58, _BANDS, _BANDS)
    queues = {f"queue-{n}": each for n in range(QUEUES)}
    types = {f"bench.step{n}": each for n in range(NAMES)}
    hours = HOUR_MS // MINUTE_MS
    for hour in range(end // hours - KEPT_HOURS + 1, end // hours + 1):
        rows = tuple(
            MinuteRow(m, m * MINUTE_MS, (m + 1) * MINUTE_MS, m * MINUTE_MS, queues, types)
            for m in range(hour * hours, min((hour + 1) * hours, end))
        )
        at = min((hour + 1) * HOUR_MS, end * MINUTE_MS) - 1
        base = MinuteBase(at, {}, {}, "")
        slot = MinuteSlot(SLOT_VERSION, hour, base, rows)
        name = MINUTES_SETTINGS[slot_of(hour)]
        written = msgspec.msgpack.encode(slot)
        assert await store.put_setting(name, written, expect=await store.setting(name))


def _batches(tasks: int) -> Iterator[range]:
    return (range(i, min(i + MAX_BATCH, tasks)) for i in range(0, tasks, MAX_BATCH))
