"""A task that needs some of its dependencies: it starts when so many have completed, and is given
up when so many no longer can (docs/rulings.md, R8)."""

import asyncio
from typing import Any

import pytest

from andon.contract.edges import Link
from andon.lifecycle.commands import Command, Complete, Fail, Rerun
from andon.model.errors import InvalidSubmission, StoreUnavailable
from andon.model.task import TaskError
from andon.model.words import State

from .conftest import Shop

DONE = Complete(result=b"1")
NO = Fail(error=TaskError(message="no"), retryable=False)


async def family(shop: Shop, count: int, needs: int, **fields: Any) -> list[Any]:
    """So many running parents of a child that needs some of them."""
    ids = tuple([await shop.submit(f"p{n}") for n in range(count)])
    await shop.submit("child", "join", dependencies=ids, needs=needs, **fields)
    return await shop.claim(count)


async def end(shop: Shop, parents: list[Any], command: Command) -> State | None:
    """The state of the child once these have ended so."""
    await asyncio.gather(*(shop.engine.report(parent, command) for parent in parents))
    await shop.told()
    return await shop.state("child")


async def test_it_starts_when_so_many_have_completed_and_the_others_run_on(shop: Shop) -> None:
    a, b, c, d = await family(shop, 4, 2)
    assert await end(shop, [a], DONE) is State.BLOCKED
    assert await end(shop, [b], NO) is State.BLOCKED
    assert await end(shop, [c], DONE) is State.PENDING
    assert (await shop.run()).id == "child"
    assert await end(shop, [d], NO) is State.COMPLETED
    assert all(edge.settled for edge in await shop.engine.store.dependents(d.id))


async def test_children_of_one_call_need_as_many_as_each_of_them_says(shop: Shop) -> None:
    parents = tuple([await shop.submit(f"p{n}") for n in range(3)])
    children = [
        shop.submission(f"c{needs}", "join", dependencies=parents, needs=needs)
        for needs in (1, 2, 3)
    ]
    await shop.engine.submit(children)
    await shop.run()
    assert [await shop.state(f"c{n}") for n in (1, 2, 3)] == [State.PENDING, *[State.BLOCKED] * 2]


async def test_it_is_given_up_when_so_many_no_longer_can(shop: Shop) -> None:
    parents = await family(shop, 4, 3)
    assert await end(shop, parents[:1], NO) is State.BLOCKED
    assert await end(shop, parents[1:2], NO) is State.UNREACHABLE
    error = (await shop.task("child")).status.last_error
    assert error is not None
    assert "Dependency p1 ended failed. The task needs 3 of 4, and fewer are left." in error.message
    assert await end(shop, parents[2:], DONE) is State.UNREACHABLE


async def test_how_they_must_end_counts_for_each_of_them(shop: Shop) -> None:
    a, b, *_ = await family(shop, 4, 2, requires="all-resolved")
    assert await end(shop, [a], NO) is State.BLOCKED
    assert await end(shop, [b], DONE) is State.PENDING


async def test_one_that_waits_through_failures_takes_a_rerun_that_completes(shop: Shop) -> None:
    options = {"on_dependency_failure": "wait"}
    a, b = await family(shop, 2, 1, options=options)
    assert await end(shop, [a, b], NO) is State.BLOCKED
    await shop.engine.act([a.id], Rerun())
    assert await end(shop, await shop.claim(), DONE) is State.PENDING


async def test_a_parent_that_was_rerun_meanwhile_does_not_fail_it(shop: Shop) -> None:
    a, b, c = await family(shop, 3, 2)
    assert await end(shop, [a], NO) is State.BLOCKED
    await shop.engine.act([a.id], Rerun())
    assert await end(shop, [b], NO) is State.BLOCKED, "the one that runs again may complete yet"
    assert await end(shop, await shop.claim(), DONE) is State.BLOCKED
    assert await end(shop, [c], DONE) is State.PENDING


async def test_it_waits_anew_for_as_many(shop: Shop) -> None:
    parents = await family(shop, 3, 2)
    assert await end(shop, parents[:2], NO) is State.UNREACHABLE
    await shop.engine.act(["p0", "p1"], Rerun())
    await shop.engine.act(["child"], Rerun(waits=True))
    await shop.later(3_600)
    again = await shop.claim(2)
    assert await end(shop, again[:1], DONE) is State.BLOCKED
    assert await end(shop, again[1:], DONE) is State.PENDING


@pytest.mark.usefixtures("edges_left")
@pytest.mark.parametrize("command", [DONE, NO], ids=["completed", "failed"])
async def test_ends_that_were_not_told_are_found_by_the_timer(
    shop: Shop, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def crashed(*_: object) -> None:
        raise StoreUnavailable("away")

    parents = await family(shop, 3, 2)
    with monkeypatch.context() as patch:
        patch.setattr(shop.engine.store, "settle", crashed)
        assert await end(shop, parents[:2], command) is State.BLOCKED
    await shop.later(3_600)
    expected = State.PENDING if command is DONE else State.UNREACHABLE
    assert await shop.state("child") is expected


async def test_a_failure_among_many_looks_at_none_of_the_others(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Link] = []
    link: Any = shop.engine.store.link

    async def links(wishes: list[Link]) -> Any:
        asked.extend(wishes)
        return await link(wishes)

    parents = await family(shop, 60, 30)
    monkeypatch.setattr(shop.engine.store, "link", links)
    for parent in parents[:30]:
        assert await end(shop, [parent], NO) is State.BLOCKED
    assert asked == []
    assert await end(shop, parents[30:31], NO) is State.UNREACHABLE
    assert [len(wish.parents) for wish in asked] == [60]


async def test_a_number_that_cannot_be_is_refused_by_name(shop: Shop) -> None:
    await shop.submit("p")
    cases: list[tuple[dict[str, Any], str]] = [
        ({"needs": 1}, "none is given"),
        ({"needs": 0, "dependencies": ("p",)}, "1 to 1, not 0"),
        ({"needs": 2, "dependencies": ("p", "p")}, "1 to 1, not 2"),
        ({"needs": 1, "dependencies": ("p", "child")}, "depends on itself"),
    ]
    for fields, said in cases:
        refused = await shop.try_submit("child", **fields)
        assert isinstance(refused.error, InvalidSubmission), fields
        assert refused.error.field == "needs"
        assert said in str(refused.error)
    assert await shop.state("child") is None
