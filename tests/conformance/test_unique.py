"""Unique keys: held exactly while the holder is in the states in which they hold."""

from typing import Any

import pytest
from servers.harm import reserved_keys

from andon.contract.outcomes import ChangeKind, Created, CreateKind
from andon.lifecycle.commands import Cancel, Complete, Delete, Deliver, Fail, Rerun, Snooze
from andon.model.task import TaskError

from .kit import Kit, needs


async def another(kit: Kit, **fields: Any) -> Created:
    (created,) = await kit.create(kit.record(unique_key="k", **fields))
    return created


async def test_a_key_is_held_by_one_task(kit: Kit) -> None:
    holder = await kit.submit(unique_key="k")
    refused = await another(kit)
    assert (refused.kind, refused.holder) == (CreateKind.KEY_HELD, holder.id)


async def test_a_key_is_held_by_the_first_of_a_batch(kit: Kit) -> None:
    outcomes = await kit.create(kit.record("a", unique_key="k"), kit.record("b", unique_key="k"))
    assert [(o.kind, o.holder) for o in outcomes] == [
        (CreateKind.CREATED, ""),
        (CreateKind.KEY_HELD, "a"),
    ]


async def test_a_repeated_submit_of_the_holder_is_the_same_task(kit: Kit) -> None:
    holder = await kit.submit(unique_key="k")
    assert (await another(kit, task_id=holder.id)).kind is CreateKind.EXISTS


async def test_other_keys_are_free(kit: Kit) -> None:
    await kit.submit(unique_key="other")
    assert (await another(kit)).kind is CreateKind.CREATED


async def test_a_key_holds_while_its_task_runs_and_waits(kit: Kit) -> None:
    task = await kit.active(unique_key="k", policy={"retry_delay": 60.0})
    assert (await another(kit)).kind is CreateKind.KEY_HELD
    await kit.move(task, Fail(error=TaskError(message="no")))
    assert (await another(kit)).kind is CreateKind.KEY_HELD


@pytest.mark.parametrize("policy", [{}, {"discard_states": ("completed",)}])
async def test_a_key_is_free_as_soon_as_its_task_has_ended(
    kit: Kit, policy: dict[str, object]
) -> None:
    task = await kit.active(unique_key="k", policy=policy)
    await kit.move(task, Complete())
    assert (await another(kit)).kind is CreateKind.CREATED


async def test_no_reservation_is_left_of_a_discarded_end(kit: Kit) -> None:
    needs(condition=kit.factory.durable, why="nothing is kept that can be looked at from outside")
    for held in (("pending",), ("pending", "active"), ("pending", "completed")):
        policy = {"unique_states": held, "discard_states": ("completed",)}
        task = await kit.active(unique_key="k", policy=policy)
        assert await kit.move(task, Complete()) is None

        async def none_left() -> bool:
            return await reserved_keys(kit.factory.url) == 0

        await kit.until(none_left)


async def test_a_key_that_holds_in_an_end_is_freed_by_deletion(kit: Kit) -> None:
    task = await kit.submit(unique_key="k", policy={"unique_states": ("pending", "cancelled")})
    ended = await kit.moved(task, Cancel())
    assert (await another(kit)).kind is CreateKind.KEY_HELD
    await kit.move(ended, Delete())
    assert (await another(kit)).kind is CreateKind.CREATED


async def test_a_key_is_free_while_its_task_is_in_other_states(kit: Kit) -> None:
    task = await kit.active(unique_key="k", policy={"unique_states": ("pending", "scheduled")})
    other = await another(kit)
    assert other.kind is CreateKind.CREATED
    refused = await kit.try_move(task, Snooze(delay=0))
    assert refused.kind is ChangeKind.KEY_HELD


async def test_a_key_is_held_within_its_period(kit: Kit) -> None:
    await kit.submit(unique_key="k", policy={"unique_period": 600.0})
    assert (await another(kit)).kind is CreateKind.KEY_HELD


async def test_a_key_without_a_period_is_held_by_none_of_a_batch(kit: Kit) -> None:
    policy = {"unique_period": 0.0}
    outcomes = await kit.create(
        kit.record("a", unique_key="k", policy=policy), kit.record("b", unique_key="k")
    )
    assert [o.kind for o in outcomes] == [CreateKind.CREATED, CreateKind.CREATED]


async def test_a_key_is_free_after_its_period(kit: Kit) -> None:
    await kit.submit(unique_key="k", policy={"unique_period": 0.02})
    await kit.pass_time(25)
    assert (await another(kit)).kind is CreateKind.CREATED
    assert (await another(kit)).kind is CreateKind.KEY_HELD


async def test_the_end_of_an_overtaken_holder_does_not_free_the_key(kit: Kit) -> None:
    old = await kit.active(unique_key="k", policy={"unique_period": 0.01})
    await kit.pass_time(15)
    holder = await kit.submit(unique_key="k")
    await kit.move(old, Complete())
    assert (await another(kit)).holder == holder.id


async def test_a_rerun_takes_its_key_again(kit: Kit) -> None:
    task = await kit.moved(await kit.submit(unique_key="k"), Cancel())
    await kit.move(task, Rerun())
    assert (await another(kit)).holder == task.id


async def test_a_rerun_is_refused_while_another_holds_the_key(kit: Kit) -> None:
    task = await kit.moved(await kit.submit(unique_key="k"), Cancel())
    holder = await kit.submit(unique_key="k")
    refused = await kit.try_move(task, Rerun())
    assert (refused.kind, refused.holder) == (ChangeKind.KEY_HELD, holder.id)
    assert await kit.there(task.id) == task
    await kit.move(holder, Cancel())
    assert (await kit.try_move(task, Rerun())).kind is ChangeKind.APPLIED


async def test_a_key_goes_from_a_task_to_the_one_that_takes_its_place_and_to_no_third(
    kit: Kit,
) -> None:
    active = await kit.active("a", unique_key="k")
    outcomes = await kit.create(
        kit.record("b", unique_key="k", predecessor="a"),
        kit.record("c", unique_key="k", predecessor="a"),
        kit.record("d", unique_key="k", predecessor="elsewhere"),
    )
    assert [(o.kind, o.holder) for o in outcomes] == [
        (CreateKind.CREATED, ""),
        (CreateKind.KEY_HELD, "b"),
        (CreateKind.KEY_HELD, "b"),
    ]
    await kit.move(active, Complete())  # the key is not its any more
    held = await another(kit)
    assert (held.kind, held.holder) == (CreateKind.KEY_HELD, "b")


async def test_a_key_is_kept_by_who_owes_it_to_a_successor(kit: Kit) -> None:
    a = await kit.submit("a", unique_key="k")
    b = kit.record("b", unique_key="k", predecessor="a")
    owing = await kit.moved(a, Cancel(births=(b.definition,)))
    held = await another(kit)
    assert (held.kind, held.holder) == (CreateKind.KEY_HELD, "a")
    (passed,) = await kit.create(b)
    assert passed.kind is CreateKind.CREATED
    await kit.move(owing, Deliver())
    held = await another(kit)
    assert (held.kind, held.holder) == (CreateKind.KEY_HELD, "b")
