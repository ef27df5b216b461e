"""Many submits race for one unique key, each to supersede whoever holds it, while a worker runs
what it gets: one task has the key at every moment, and only what was superseded is lost."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

from andon.engine.base import Submission, Submitted
from andon.engine.local import LocalEngine
from andon.lifecycle.commands import Complete
from andon.model.task import TaskEvent
from andon.model.words import TERMINAL, WAITING, Event, State

from .kit import Kit

SUBMITTERS, EACH = 4, 4


async def submits(engine: LocalEngine, who: int, accepted: asyncio.Queue[Submitted]) -> None:
    for n in range(EACH):
        (outcome,) = await engine.submit(
            [Submission(id=f"s{who}-{n}", name="job", unique_key="k", on_held="supersede")]
        )
        accepted.put_nowait(outcome)


def check_order(events: Sequence[TaskEvent]) -> None:
    """By the log, no two tasks waited at once, and no two ran."""
    states: dict[str, State | None] = {}
    for event in events:
        states[event.task] = event.target
        waiting = [task for task, state in states.items() if state in WAITING]
        active = [task for task, state in states.items() if state is State.ACTIVE]
        assert len(waiting) <= 1, waiting
        assert len(active) <= 1, active


def appends_in_order(kit: Kit) -> bool:
    """Whether events of different tasks stand in the log as they happened. No store promises that
    (docs/store-contract.md, 10); those do it that let one writer in at a time."""
    return kit.store.partitions == 1 and not kit.factory.url.startswith("postgres")


async def test_one_key_passes_from_hand_to_hand(kit: Kit) -> None:
    accepted: asyncio.Queue[Submitted] = asyncio.Queue()
    ran: list[str] = []
    async with AsyncExitStack() as stack:
        stores = [kit.store]  # one that nobody else can open is open
        if kit.factory.shared:
            stores = [kit.factory.make(), kit.factory.make()]
        engines = [LocalEngine(store) for store in stores]
        for engine in engines:
            await engine.open()
            stack.push_async_callback(engine.close)
        engines[0].keep_time()
        submitting = asyncio.gather(
            *(submits(engines[n % len(engines)], n, accepted) for n in range(SUBMITTERS))
        )
        outcomes: list[Submitted] = []
        while len(outcomes) < SUBMITTERS * EACH:
            outcomes.append(await accepted.get())
            for task in await kit.claim(worker="w"):
                ran.append(task.id)
                if len(outcomes) < SUBMITTERS * EACH:  # the next finds it active
                    outcomes.append(await accepted.get())
                await engines[0].report(task, Complete())
                await engines[0].settled()
        await submitting
        assert [one.error for one in outcomes if one.error is not None] == []

        async def rest() -> bool:
            for task in await kit.claim(worker="w"):
                ran.append(task.id)
                await engines[0].report(task, Complete())
            await engines[0].settled()
            tasks = await kit.store.get([one.id for one in outcomes])
            return all(task is not None and task.state in TERMINAL for task in tasks)

        await kit.until(rest)
        events = (await kit.read_events("")).events
        if appends_in_order(kit):
            check_order(events)
        tasks = {one.id: await kit.there(one.id) for one in outcomes}
    heirs = {i: t.status.successor for i, t in tasks.items() if t.state is State.CANCELLED}
    assert sorted(ran) == sorted(tasks.keys() - heirs.keys()), "none is lost, none runs twice"
    assert len(set(heirs.values())) == len(heirs), "each has a successor of its own"
    assert set(heirs.values()) <= tasks.keys()
    assert all(task.status.owes == () for task in tasks.values())
    last = [event.task for event in events if event.event is Event.SUBMIT][-1]
    if appends_in_order(kit):
        assert ran[-1] == last, "the last accepted runs"
