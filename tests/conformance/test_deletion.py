"""A deleted task leaves its events and a stub, and nothing else."""

from andon.contract.edges import Link
from andon.contract.outcomes import ChangeKind, CreateKind, Verdict
from andon.lifecycle.commands import Cancel, Complete, Delete
from andon.model.words import State

from .kit import Kit


async def test_nothing_of_a_deleted_task_is_left(kit: Kit) -> None:
    await kit.configure(max_concurrent=1, max_concurrent_per_key=1)
    task = await kit.active(unique_key="u", key="k", group="g", tags=("t",))
    ended = await kit.moved(task, Complete(result=b"1"))
    await kit.move(ended, Delete())
    assert await kit.get(task.id) is None
    assert (await kit.store.history(task.id)).events == ()
    assert await kit.find_all() == []
    assert await kit.find_all(key="k") == []
    assert await kit.find_all(group="g") == []
    stats = await kit.stats()
    assert (stats.counts, stats.parked, stats.oldest_pending_at) == ({}, 0, None)
    assert (await kit.store.take_due(kit.store.partition_of(task.id), 10, 1)).next_at is None
    assert await kit.renew(task) is Verdict.LOST
    assert (await kit.store.info()).entries == 0
    # what it had held is free
    other = await kit.active(unique_key="u", key="k")
    assert other.state is State.ACTIVE


async def test_a_deleted_child_leaves_no_edge_that_holds_its_parent(kit: Kit) -> None:
    parent = await kit.active()
    child = await kit.submit(dependencies=(parent.id,))
    await kit.store.link([Link(child.id, (parent.id,), loads=True)])
    await kit.move(await kit.moved(child, Cancel()), Delete())
    # a store may leave the edge itself to the parent's fan-out; it must not outlast that
    await kit.store.unlink([(parent.id, child.id)])
    ended = await kit.moved(parent, Complete())
    assert (await kit.try_move(ended, Delete())).kind is ChangeKind.APPLIED


async def test_a_claim_token_whose_runs_are_gone_claims_anew(kit: Kit) -> None:
    await kit.submit()
    (task,) = await kit.claim(token="t")
    await kit.move(await kit.moved(task, Complete()), Delete())
    await kit.submit("next")
    (again,) = await kit.claim(token="t")
    assert again.id == "next"


async def test_many_tasks_deleted_leave_the_store_empty(kit: Kit) -> None:
    tasks = await kit.submit_many(50, key="k", group="g")
    for task in tasks:
        await kit.move(await kit.moved(task, Cancel()), Delete())
    assert (await kit.store.info()).entries == 0
    assert await kit.claim(limit=100) == []
    outcomes = await kit.create(*[kit.record(task.id) for task in tasks])
    assert {o.kind for o in outcomes} == {CreateKind.EXISTS}
