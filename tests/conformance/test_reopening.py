"""What a durable store still knows when it is opened again."""

from andon.contract.edges import Link
from andon.contract.outcomes import ChangeKind, CreateKind
from andon.lifecycle.commands import Complete
from andon.model.fleet import QueueConfig

from .kit import Kit, ids, needs


async def reopened(kit: Kit) -> None:
    needs(condition=kit.factory.durable, why="this store keeps nothing")
    await kit.replace()


async def test_closing_twice_is_no_error(kit: Kit) -> None:
    await kit.store.close()
    await kit.store.close()


async def test_records_and_their_order_are_still_there(kit: Kit) -> None:
    tasks = await kit.submit_many(5)
    first, *_ = await kit.claim()
    await kit.renew(first, progress=20)
    before = await kit.store.get(ids(tasks))
    await reopened(kit)
    assert await kit.store.get(ids(tasks)) == before
    claimed = ids(await kit.claim(limit=10))
    left = [task.id for task in tasks if task.id != first.id]
    assert sorted(claimed) == sorted(left)
    assert claimed == left or kit.store.partitions > 1, "order holds within a partition"


async def test_timers_are_still_there(kit: Kit) -> None:
    task = await kit.submit(run_at=kit.store.now() + 5)
    await reopened(kit)
    await kit.due(task.id)


async def test_a_lost_reply_is_known_after_a_restart(kit: Kit) -> None:
    await kit.submit()
    (task,) = await kit.claim(token="t")
    change = kit.change(task, Complete())
    await reopened(kit)
    assert ids(await kit.claim(token="t")) == [task.id]
    await kit.commit(change)
    await reopened(kit)
    assert (await kit.commit(change)).kind is ChangeKind.APPLIED


async def test_keys_limits_edges_and_events_are_still_there(kit: Kit) -> None:
    await kit.configure(max_concurrent_per_key=1)
    holder = await kit.submit(unique_key="u", key="k")
    await kit.submit("parked", key="k")
    child = await kit.submit("child", dependencies=(holder.id,))
    await kit.store.link([Link(child.id, (holder.id,))])
    cursor = await kit.store.events_end()
    await reopened(kit)
    (refused,) = await kit.create(kit.record(unique_key="u"))
    assert refused.kind is CreateKind.KEY_HELD
    (task,) = await kit.claim(limit=10)
    assert task.id == holder.id
    assert (await kit.try_move(task, Complete())).has_dependents
    assert ids(await kit.claim(limit=10)) == ["parked"]
    page = await kit.read_events(cursor)
    assert [e.event.value for e in page.events] == ["claim", "complete", "claim"]
    assert not page.gap


async def test_configuration_is_still_there(kit: Kit) -> None:
    await kit.configure(name="q", paused=True)
    await kit.store.put_setting("s", b"1", expect=None)
    await reopened(kit)
    assert await kit.store.queues() == [QueueConfig(name="q", paused=True)]
    assert await kit.store.setting("s") == b"1"
