"""A blocked task waits for what the runs that it waits for add, though whoever wrote that dies
after any of the writes (docs/decisions/members-added.md)."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from andon.engine.base import Submission
from andon.engine.local import LocalEngine
from andon.lifecycle.commands import Complete
from andon.model.errors import StoreUnavailable
from andon.model.headers import BEFORE_HEADER
from andon.model.words import State

from .kit import Kit

DONE = Complete(result=b"1")


async def run_one(kit: Kit, engine: LocalEngine, *follow_ups: Submission) -> str:
    """Claim one task, and complete it; its id."""
    (task,) = await kit.claim()
    await engine.report(task, DONE, follow_ups)
    await engine.settled()
    return task.id


def added(task_id: str) -> Submission:
    return Submission(id=task_id, name="job", headers={BEFORE_HEADER: "join"})


async def fire(engine: LocalEngine) -> None:
    for partition in range(engine.store.partitions):
        await engine.timekeeper.run_once(partition)
    await engine.settled()


def in_state(engine: LocalEngine, state: State) -> Callable[[], Awaitable[bool]]:
    """Whether the join is in this state, once timers that are due have fired."""

    async def look() -> bool:
        await fire(engine)
        return await engine.store.states(["join"]) == [state]

    return look


async def begun(engine: LocalEngine) -> None:
    outcomes = await engine.submit(
        [
            Submission(id="a", name="job"),
            Submission(id="join", name="job", dependencies=("a",), load_dependencies=True),
        ]
    )
    assert [one.error for one in outcomes] == [None, None]


async def test_a_join_waits_for_what_is_added_and_what_that_adds(kit: Kit) -> None:
    engine = LocalEngine(kit.store)
    await begun(engine)
    assert await run_one(kit, engine, added("b"), added("c")) == "a"
    ran = {await run_one(kit, engine, added("d")), await run_one(kit, engine)}
    assert await kit.state("join") is State.BLOCKED
    ran.add(await run_one(kit, engine))
    assert ran == {"b", "c", "d"}
    assert await kit.state("join") is State.PENDING


@pytest.mark.parametrize("step", ["create", "link", "settle", "dependents_of_each"])
async def test_another_engine_finishes_what_one_left_when_it_died(
    kit: Kit, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`step` is the operation at which it dies, after the report was written."""

    async def away(*_: object, **__: object) -> Any:
        raise StoreUnavailable("away")

    first, second = LocalEngine(kit.store), LocalEngine(kit.store)
    await begun(first)
    with monkeypatch.context() as patch:
        patch.setattr(kit.store, step, away)
        assert await run_one(kit, first, added("b")) == "a"
    assert await kit.state("join") is State.BLOCKED

    async def is_paid() -> bool:
        await fire(second)
        return not (await kit.there("a")).status.owes

    await kit.until(is_paid)
    assert await kit.state("join") is State.BLOCKED
    assert await run_one(kit, second) == "b"
    await kit.until(in_state(second, State.PENDING))
