"""A store filled for `board.py`: many tasks of every state, and one failure that is to be found."""

import asyncio
from collections.abc import Iterator

import msgspec

from andon.client.ids import IdMaker
from andon.contract.limits import MAX_BATCH
from andon.contract.requests import Snapshot
from andon.contract.store import Store
from andon.engine.writes import new_write_id
from andon.lifecycle.admission import admit
from andon.lifecycle.apply import apply, stamped
from andon.lifecycle.commands import Complete, Fail
from andon.lifecycle.flows import About
from andon.model.headers import FLOW_HEADER, FLOW_TAG
from andon.model.task import Definition, Stamp, Task, TaskError

QUEUES, NAMES, FLOWS = 10, 20, 60
NEEDLE = "needle-1"
NEEDLE_NAME = "bench.needle"
"""The one failure of its name. It is the oldest task of all."""

FLOW = "flow-1"
TRACEBACK = "Traceback (most recent call last):\n" + "".join(
    f'  File "/srv/shop/step_{n}.py", line {n + 10}, in step_{n}\n    step_{n + 1}(order)\n'
    for n in range(15)
)
_DAY_MS = 86_400_000
_AT_ONCE = 4
_ids = IdMaker()


def waiting(number: int, now: int) -> Task:
    """A task that is pending, or scheduled, as four of nine are."""
    at = now + _DAY_MS + number if number % 9 < 4 else None
    return admit(_definition(number, run_at=at), now, new_write_id())


def ended(number: int, now: int, definition: Definition | None = None) -> Task:
    """A task that has ended; every third has failed, in one of forty ways."""
    task = admit(definition or _definition(number), now, new_write_id())
    stamp = Stamp(f"run-{number}", now, "worker-1", "token", now, now + 30_000)
    claimed = stamped(task, stamp)
    command: Complete | Fail = Complete(result=b"null")
    if definition is not None or number % 3 == 0:
        message = f"Order {number} not found in ledger of shop {chr(97 + number % 40 % 26)}"
        error = TaskError(
            message=message, type=f"shop.Error{number % 40}", traceback=TRACEBACK + message
        )
        command = Fail(error=error, retryable=False)
    moved = apply(claimed, command, now=now, random=lambda: 0.5)
    assert moved.status is not None
    return Task(definition=definition or task.definition, status=moved.status, result=moved.result)


def _definition(number: int, **fields: int | None) -> Definition:
    return Definition(
        id=_ids(),
        name=f"bench.step{number % NAMES}",
        queue=f"queue-{number % QUEUES}",
        key=f"customer-{number % 1_000}" if number % 10 == 0 else None,
        tags=("web",) if number % 50 == 0 else (),
        args=b'{"order": %d}' % number,
        **fields,  # pyright: ignore[reportArgumentType]
    )


def flow(number: int, now: int) -> list[Task]:
    """A flow of five tasks."""
    group = f"flow-{number}"
    about = msgspec.json.encode(About(name=f"nightly {number}", members=5, digest="d")).decode()
    first = Definition(
        id=f"{group}:0",
        name="bench.step0",
        group=group,
        tags=(FLOW_TAG,),
        headers={FLOW_HEADER: about},
        run_at=now + _DAY_MS,
    )
    rest = [
        Definition(id=f"{group}:{n}", name="bench.step1", group=group, run_at=now + _DAY_MS)
        for n in range(1, 5)
    ]
    return [admit(definition, now, new_write_id()) for definition in (first, *rest)]


async def fill(store: Store, tasks: int) -> None:
    """The failure that is to be found, some flows, then that many others: of ten, nine wait and
    one has ended."""
    needle = Definition(id=NEEDLE, name=NEEDLE_NAME, queue="queue-0", tags=("rare",))
    first = ended(0, store.now(), needle)
    await store.restore([Snapshot(task=first, history=first.status.events)])
    for number in range(FLOWS):
        await store.create(flow(number, store.now()))
    left = _batches(tasks)

    async def some() -> None:
        for batch in left:
            now = store.now()
            waits = [waiting(number, now) for number in batch if number % 10]
            over = [ended(number, now) for number in batch if number % 10 == 0]
            await store.create(waits)
            await store.restore([Snapshot(task=t, history=t.status.events) for t in over])

    await asyncio.gather(*(some() for _ in range(_AT_ONCE)))


def _batches(tasks: int) -> Iterator[range]:
    return (range(i, min(i + MAX_BATCH, tasks)) for i in range(0, tasks, MAX_BATCH))
