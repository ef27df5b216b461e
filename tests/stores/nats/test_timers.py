"""The server fires timers; none may be lost on the way to who takes them."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import pytest
from conformance.kit import Kit

from andon.contract.outcomes import Due
from andon.lifecycle import commands
from andon.lifecycle.admission import admit
from andon.lifecycle.commands import Unblock
from andon.model.task import Definition, Task
from andon.stores.nats import NatsStore
from andon.stores.nats.jetstream import UNSURE, Write
from andon.stores.nats.nats_client import Reply
from andon.stores.nats.timers import decode_timer, schedule
from stores.nats.counting import Traffic

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
    await _past(store, "late")
    assert (await store.take_due(0, 10, 600_000)).tasks == ()
    # without a timer of its own, so that only the one written before can fire
    assert store._context is not None
    records = store._context.records[0]
    await records.js.write(
        records.subjects.stream,
        [records.write(records.body(task, None), records.subject(task), guard=0)],
    )
    due = await first_due(store, 600_000)
    assert [t.id for t in due.tasks] == ["late"]


async def _past(store: NatsStore, task_id: str) -> None:
    """Set a timer for the first version of a task that has passed already."""
    assert store._context is not None
    now = store.now()
    await store._context.timers[0].set([(task_id, 1, now - 1)], now)


async def _fired(store: NatsStore, count: int = 1) -> None:
    """Wait until so many entries are there to be taken."""
    async with asyncio.timeout(PATIENCE_S):
        while len(await _standing(store, "d")) < count:  # noqa: ASYNC110 - the server fires
            await asyncio.sleep(0.01)


async def _standing(store: NatsStore, *kinds: str) -> list[tuple[str, ...]]:
    """For whom timers stand: schedules (s) and those that have fired (d)."""
    assert store._context is not None
    records = store._context.records[0]
    found = await records.read_all([records.subjects.of(kind, ">") for kind in kinds])
    return [decode_timer(message.data).ids for message in found if message.data]


async def _meeting(
    stores: Sequence[NatsStore], patch: pytest.MonkeyPatch, hold_ms: int
) -> list[Due]:
    """All take what is due, and each has read the records before one goes on. (Once: what fires
    while one goes on is not waited for by those that are done.)"""
    met = asyncio.Barrier(len(stores))
    unmet = dict.fromkeys(stores, True)
    with patch.context() as patched:
        for store in stores:
            assert store._context is not None
            records = store._context.records[0]

            async def read(
                ids: Iterable[str],
                *,
                store: NatsStore = store,
                plain: Callable[..., Awaitable[Any]] = records.read,
            ) -> Any:
                found = await plain(ids)
                if unmet.pop(store, False):
                    async with asyncio.timeout(PATIENCE_S):
                        await met.wait()
                return found

            patched.setattr(records, "read", read)
        return await asyncio.gather(*(store.take_due(0, 10, hold_ms) for store in stores))


async def test_takers_that_meet_at_a_timer_do_not_multiply_it(
    store: NatsStore, others: list[NatsStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim that was never written leaves one; while the fleet waits for it, it stays one."""
    stores = [store, *others]
    await _past(store, "never")
    for _ in range(3):
        await _fired(store)
        await _meeting(stores, monkeypatch, 1_000)
        assert len(await _standing(store, "s", "d")) == 1


async def test_takers_that_meet_at_a_timer_that_is_early_set_one_anew(
    store: NatsStore, others: list[NatsStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = store.now()
    await store.create([admit(Definition(id="t", name="job", run_at=now + 600_000), now, "w")])
    await _past(store, "t")
    await _meeting([store, *others], monkeypatch, 1_000)
    assert await _standing(store, "s", "d") == [("t",), ("t",)]  # its own, and that one


async def test_takers_that_meet_at_tasks_leave_one_hold(
    store: NatsStore, others: list[NatsStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = [store, *others]
    now = stores[0].now()
    soon = now + 300 - now % 200  # within one group
    await stores[0].create(
        [admit(Definition(id=i, name="job", run_at=soon), now, "w") for i in ("a", "b")]
    )
    await _fired(stores[0])
    dues = await _meeting(stores, monkeypatch, 600_000)
    assert sorted(task.id for due in dues for task in due.tasks) == ["a", "b"]
    assert len(await _standing(stores[0], "s", "d")) == 1


async def test_many_timers_of_one_version_become_one(store: NatsStore) -> None:
    """More than are read in one go, of a record that is still to come and of one that is due."""
    assert store._context is not None
    subjects, js = store._context.records[0].subjects, store._context.js
    now = store.now()
    await store.create([admit(Definition(id="t", name="job", run_at=now - 1), now - 9, "w")])
    many = [
        schedule(subjects, ("g", f"{i:03}{task}"), now - 1, [(task, 1, now - 1)], now=now, made=now)
        for i in range(150)
        for task in ("never", "t")
    ]
    await js.write(subjects.stream, many)
    taken: Counter[str] = Counter()
    async with asyncio.timeout(PATIENCE_S):
        while True:
            due = await store.take_due(0, 200, 600_000)
            taken.update(task.id for task in due.tasks)
            timers = Counter([i for ids in await _standing(store, "s", "d") for i in ids])
            if timers["never"] == 1:
                break
            await asyncio.sleep(0.05)
    assert timers["t"] < 10  # at most one for each of the pages they were read in
    assert taken == {"t": 1}


async def test_a_timer_that_fires_between_two_reads_of_a_taker_is_seen(
    store: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither with what is due nor with what is to come would mean that it waits for a poll."""
    assert store._context is not None
    js = store._context.js
    now = store.now()
    await store.create([admit(Definition(id="t", name="job", run_at=now + 700), now, "w")])
    read, reads = js.read, 0

    async def slow(stream: str, request: dict[str, Any]) -> Any:
        nonlocal reads
        reads += 1
        found = await read(stream, request)
        if reads == 1:
            with monkeypatch.context() as patched:
                patched.setattr(js, "read", read)
                await _fired(store)
        return found

    monkeypatch.setattr(js, "read", slow)
    due = await store.take_due(0, 10, 600_000)
    assert due.tasks or (due.next_at is not None and due.next_at <= store.now() + 100)


async def test_a_timer_set_anew_is_there_before_its_hold_is_dropped(
    store: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who dies in between leaves one timer at least."""
    now = store.now()
    await store.create([admit(Definition(id="t", name="job", run_at=now - 1), now - 10, "w")])
    await first_due(store, 600_000)
    assert store._context is not None
    records = store._context.records[0]
    standing: list[int] = []

    async def purge(_subject: str) -> None:
        standing.append(len(await records.read_all([records.subjects.of("s", ">")])))

    monkeypatch.setattr(records, "purge", purge)
    await store.rearm([("t", store.now() + 60_000)])
    assert standing == [2]


async def test_a_hold_stands_when_nobody_knows_who_took_the_entry(
    store: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to the write over the entry was lost, and its repeat finds the guard broken."""
    now = store.now()
    await store.create([admit(Definition(id="t", name="job", run_at=now - 1), now - 10, "w")])
    assert store._context is not None
    js = store._context.js
    write = js.write

    async def unsure(stream: str, writes: Sequence[Write], **options: bool) -> list[int]:
        seqs = await write(stream, writes)
        taking = bool(writes) and all(subject.split(".")[3] == "d" for subject, *_ in writes)
        return [UNSURE] * len(seqs) if taking else seqs

    monkeypatch.setattr(js, "write", unsure)
    assert (await store.take_due(0, 10, 1_000)).tasks == ()
    monkeypatch.setattr(js, "write", write)
    due = await first_due(store, 1_000)
    assert [task.id for task in due.tasks] == ["t"]


async def test_timers_set_anew_read_no_record_and_go_with_the_last_that_moves(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    await kit.submit_many(20, dependencies=("absent",), policy={"on_missing_parent": "unreachable"})
    taken: list[Task] = []

    async def all_taken() -> bool:
        taken.extend((await kit.store.take_due(0, 200, 600_000)).tasks)
        return len(taken) == 20

    await kit.until(all_taken)
    traffic = Traffic(monkeypatch)
    later = kit.store.now() + 60_000
    await kit.store.rearm([(task.id, later) for task in taken])
    assert traffic.taken()[1] == 0
    assert isinstance(kit.store, NatsStore)
    assert [len(ids) for ids in await _standing(kit.store, "s")] == [20], "and no hold"
    await kit.store.commit([kit.change(task, Unblock()) for task in taken])
    for _ in range(3):  # a later write, or a look, deletes the entries that are spent
        await kit.store.take_due(0, 200, 600_000)
    assert await _standing(kit.store, "s") == []


async def _taken_together(kit: Kit, hold_ms: int) -> list[Task]:
    """Tasks whose timers one call has taken."""
    await kit.submit_many(5, run_at=kit.store.now() + 300)
    taken: list[Task] = []

    async def all_taken() -> bool:
        taken.extend((await kit.store.take_due(0, 10, hold_ms)).tasks)
        return len(taken) == 5

    await kit.until(all_taken)
    return taken


async def test_the_hold_of_several_goes_with_the_last_that_moves(kit: Kit) -> None:
    *others, last = await _taken_together(kit, 600_000)
    assert isinstance(kit.store, NatsStore)
    assert [len(ids) for ids in await _standing(kit.store, "s", "d")] == [5]
    await kit.store.commit([kit.change(task, commands.Due()) for task in others])
    assert [len(ids) for ids in await _standing(kit.store, "s", "d")] == [5]
    await kit.moved(last, commands.Due())
    assert await _standing(kit.store, "s", "d") == []


async def test_the_hold_of_several_stands_while_one_of_them_was_not_moved(kit: Kit) -> None:
    """The process that took them dies before the last one."""
    *others, last = await _taken_together(kit, 1_000)
    await kit.store.commit([kit.change(task, commands.Due()) for task in others])
    assert isinstance(kit.store, NatsStore)
    assert kit.store._context is not None
    for _ in range(3):
        await kit.store._context.timers[0].sweep()
    assert (await kit.due(last.id)).id == last.id


async def test_of_due_entries_that_name_many_no_more_are_read_than_are_wanted(
    store: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    soon = store.now() + 300
    for batch in range(20):
        ids = [f"t{batch}-{number}" for number in range(20)]
        new = [admit(Definition(id=i, name="job", run_at=soon), soon - 300, i) for i in ids]
        await store.create(new)
    assert store._context is not None
    timers = store._context.timers[0]
    async with asyncio.timeout(PATIENCE_S):
        while len(await timers.fired(1, 64, store.now())) < 20:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    read: list[int] = []
    fired = timers.fired

    async def counted(seq: int, most: int, now: int) -> list[Reply]:
        found = await fired(seq, most, now)
        read.append(len(found))
        return found

    monkeypatch.setattr(timers, "fired", counted)
    for _ in range(3):
        assert len((await store.take_due(0, 40, 600_000)).tasks) == 40
    assert read[1:] == [2, 2], "two name forty"
