"""The structures below the memory store, against the simplest thing that could be right."""

import asyncio
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from andon.contract.edges import Link
from andon.contract.outcomes import ChangeKind
from andon.contract.requests import Change, ClaimRequest
from andon.lifecycle.admission import admit
from andon.lifecycle.apply import apply
from andon.lifecycle.commands import Cancel, Complete, Delete
from andon.model.fleet import QueueConfig
from andon.model.task import Definition, Task
from andon.stores.memory import MemoryStore
from andon.stores.memory.heap import NamedHeap
from andon.stores.memory.ordered import Ordered

_SIX = st.integers(0, 5)


@given(st.lists(st.tuples(st.sampled_from(["put", "discard"]), _SIX, _SIX), max_size=200))
def test_a_named_heap_is_a_dictionary_with_a_first(steps: list[tuple[str, int, int]]) -> None:
    heap, plain = NamedHeap[int](), dict[str, int]()
    for step, name, key in steps:
        if step == "put":
            heap.put(str(name), key)
            plain[str(name)] = key
        else:
            plain.pop(str(name), None)
            assert heap.discard(str(name)) == bool(plain)
        assert len(heap) == len(plain)
        first = heap.first()
        if first is None:
            assert not plain
        else:
            assert first[0] == min(plain.values()) == plain[first[1]]


def test_a_named_heap_does_not_grow_with_what_was_removed() -> None:
    heap = NamedHeap[int]()
    heap.put("kept", 0)
    for i in range(10_000):
        heap.put(f"gone{i}", 1)
        heap.discard(f"gone{i}")
    assert len(heap._heap) < 200


def test_ordered_places_are_a_sorted_set_however_they_come_and_go() -> None:
    rng = Random(7)
    places, plain = Ordered[str](), set[str]()
    for _ in range(12_000):
        place = f"{rng.randrange(8_000):05}"
        if place in plain:
            plain.remove(place)
            assert places.remove(place) == bool(plain)
        else:
            places.add(place)
            plain.add(place)
    assert len(places) == len(plain)
    everything = sorted(plain)
    assert list(places.after(None)) == everything
    assert list(places.before(None)) == everything[::-1]
    for _ in range(50):
        pivot = f"{rng.randrange(8_000):05}"
        assert list(places.after(pivot)) == [p for p in everything if p > pivot]
        assert list(places.before(pivot)) == [p for p in everything[::-1] if p < pivot]


# --- nothing is left behind, whatever the path to deletion ---


def _left(store: MemoryStore) -> dict[str, object]:
    """Everything the store still holds of tasks, but stubs and events."""
    records = store._records
    ready, lists, edges = records.ready, records.lists, records.edges
    return {
        "rows": records.rows,
        "unique": records._unique,
        "tokens": records._tokens,
        "timers": [name for heap in records.timers for name in heap._keys],
        "lanes": ready._lanes,
        "ages": ready._ages,
        "gates": ready._gates,
        "active": dict(ready.active),
        "parked": dict(ready.parked),
        "lists": {state: queues for state, queues in lists._states.items() if queues},
        "keys": [lists._keys, lists._groups, lists._workers, lists._dead_letters],
        "edges": [edges._of, edges._parents, edges._loading, edges._satisfied],
        "fanout": [dict(edges._unsettled), edges._fanout],
    }


def test_a_store_whose_tasks_are_all_deleted_holds_nothing_of_them() -> None:
    empty = _left(MemoryStore())

    async def scenario() -> None:
        store = MemoryStore()
        await store.open()
        limit = QueueConfig(name="default", max_concurrent_per_key=1)
        assert await store.put_queue(limit, expect=QueueConfig(name="default"))
        numbers = iter(range(10_000))

        async def move(task: Task, command: object) -> None:
            moved = apply(
                task,
                command,  # pyright: ignore[reportArgumentType]
                now=store.now(),
                random=lambda: 0.5,
                write_id=f"w{next(numbers)}",
            )
            change = Change(before=task, after=moved.status, event=moved.event)
            (changed,) = await store.commit([change])
            assert changed.kind is ChangeKind.APPLIED

        tasks = [
            admit(
                Definition(
                    id=f"t{i}",
                    name=f"n{i % 3}",
                    key=f"k{i % 4}",
                    group="g",
                    unique_key=f"u{i}",
                    dependencies=(f"t{i - 1}",) if i % 5 == 4 else (),
                    load_dependencies=True,
                ),
                store.now(),
                f"s{i}",
            )
            for i in range(40)
        ]
        await store.create(tasks)
        await store.link([Link(t.id, t.definition.dependencies, loads=True) for t in tasks])
        request = ClaimRequest(worker="w", token="t", queues=("default",), limit=10, lease_ms=1_000)
        for task in await store.claim(request):
            await move(task, Complete())
        for task in await store.get([t.id for t in tasks]):
            assert task is not None
            if task.status.finished_at is None:
                await move(task, Cancel())
        await store.unlink([(p, t.id) for t in tasks for p in t.definition.dependencies])
        for task in await store.get([t.id for t in tasks]):
            assert task is not None
            await move(task, Delete())
        assert _left(store) == empty

    asyncio.run(scenario())


def test_the_best_of_those_held_back_by_their_key_comes_next() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        await store.open()
        limit = QueueConfig(name="default", max_concurrent_per_key=1)
        assert await store.put_queue(limit, expect=QueueConfig(name="default"))
        for name, priority in (("first", -1), ("middle", 0), ("high", 1)):
            definition = Definition(id=name, name="job", key="k", priority=priority)
            await store.create([admit(definition, store.now(), name)])
        for name in ("first", "high", "middle"):
            request = ClaimRequest(
                worker="w", token=name, queues=("default",), limit=5, lease_ms=1_000
            )
            [task] = await store.claim(request)
            assert task.id == name
            moved = apply(task, Complete(), now=store.now(), random=lambda: 0.5, write_id=name)
            await store.commit([Change(before=task, after=moved.status, event=moved.event)])

    asyncio.run(scenario())


def test_a_reader_that_changes_a_record_changes_nothing_in_the_store() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        await store.open()
        await store.create([admit(Definition(id="t", name="job"), store.now(), "w")])
        (task,) = await store.get(["t"])
        assert task is not None
        task.result = b"mine"
        (again,) = await store.get(["t"])
        assert again is not None
        assert again.result is None

    asyncio.run(scenario())
