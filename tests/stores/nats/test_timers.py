"""The server fires timers; none may be lost on the way to who takes them."""

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest

from andon.lifecycle.admission import admit
from andon.model.task import Definition
from andon.stores.base import Due
from andon.stores.nats import NatsStore
from andon.stores.nats.wire import UNSURE, Write

COUNT = 400
PATIENCE_S = 60.0


async def first_due(store: NatsStore, hold_ms: int) -> Due:
    """Wait for a timer that leads to a task."""
    async with asyncio.timeout(PATIENCE_S):
        while not (due := await store.take_due(0, 10, hold_ms)).tasks:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return due


async def test_of_many_timers_each_is_handed_out_once_and_in_time(store: NatsStore) -> None:
    """Timers fire by the server's clock, which may be ahead of what this process knows."""
    soon = store.now() + 1_500
    tasks = [
        admit(Definition(id=f"t{i}", name="job", run_at=soon + i * 5), store.now(), f"w{i}")
        for i in range(COUNT)
    ]
    await asyncio.gather(*(store.create([task]) for task in tasks))
    taken: Counter[str] = Counter()
    async with asyncio.timeout(PATIENCE_S):
        while len(taken) < COUNT:
            due = await store.take_due(0, 200, 600_000)
            taken.update(task.id for task in due.tasks)
            assert all((task.status.run_at or 0) <= due.now for task in due.tasks)
            await asyncio.sleep(0.005)
    assert set(taken.values()) == {1}


async def test_a_timer_whose_record_is_still_on_its_way_waits_for_it(store: NatsStore) -> None:
    now = store.now()
    task = admit(Definition(id="late", name="job", run_at=now + 50), now, "w")
    core = store._core
    assert core is not None
    await core.timers[0].set([("late", 1, now - 1)], now)
    assert (await store.take_due(0, 10, 600_000)).tasks == ()
    # without a timer of its own, so that only the one written before can fire
    heads = core.heads[0]
    await heads.wire.write(
        heads.names.stream, [heads.write(heads.body(task, None), heads.subject(task), guard=0)]
    )
    due = await first_due(store, 600_000)
    assert [t.id for t in due.tasks] == ["late"]


async def test_a_timer_set_anew_is_there_before_its_hold_is_dropped(
    store: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who dies in between leaves one timer at least."""
    now = store.now()
    await store.create([admit(Definition(id="t", name="job", run_at=now - 1), now - 10, "w")])
    await first_due(store, 600_000)
    assert store._core is not None
    timers, heads = store._core.timers[0], store._core.heads[0]
    standing: list[int] = []

    async def purge(_subject: str) -> None:
        standing.append(len(await heads.walk([heads.names.of("s", ">")])))

    monkeypatch.setattr(timers, "purge", purge)
    await store.rearm([("t", store.now() + 60_000)])
    assert standing == [2]


async def test_a_hold_stands_when_nobody_knows_who_took_the_entry(
    store: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to the write over the entry was lost, and its repeat finds the guard broken."""
    now = store.now()
    await store.create([admit(Definition(id="t", name="job", run_at=now - 1), now - 10, "w")])
    assert store._core is not None
    wire = store._core.wire
    write = wire.write

    async def unsure(stream: str, writes: Sequence[Write]) -> list[int]:
        seqs = await write(stream, writes)
        taking = bool(writes) and all(subject.split(".")[3] == "d" for subject, *_ in writes)
        return [UNSURE] * len(seqs) if taking else seqs

    monkeypatch.setattr(wire, "write", unsure)
    assert (await store.take_due(0, 10, 1_000)).tasks == ()
    monkeypatch.setattr(wire, "write", write)
    due = await first_due(store, 1_000)
    assert [task.id for task in due.tasks] == ["t"]
