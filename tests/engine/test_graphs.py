"""Submissions of one call that depend on one another: created in few calls where a store can create
them together, and refused in the same way on every store."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from andon.contract.isolation import Unwritable
from andon.contract.limits import MAX_BATCH
from andon.contract.optional import CreatesTogether, SettlesAtOnce, offered
from andon.engine.base import Submission, Submitted
from andon.lifecycle.commands import Complete
from andon.model.errors import InvalidSubmission, StoreUnavailable, TaskConflict, UniqueKeyHeld
from andon.model.words import State

from .conftest import Shop
from .faulty import Faulty

LINKS = 9
MIDDLE = 4


def chain(shop: Shop, size: int = LINKS) -> list[Submission]:
    """Each waits for the one before it; given last to first."""
    return [
        shop.submission(f"l{number}", dependencies=(f"l{number - 1}",) if number else ())
        for number in reversed(range(size))
    ]


def with_link(links: Sequence[Submission], number: int, **fields: Any) -> list[Submission]:
    """The chain with something else said of one link."""
    task_id = f"l{number}"
    return [replace(s, **fields) if s.id == task_id else s for s in links]


async def states(shop: Shop, ids: Sequence[str]) -> list[State | None]:
    return await shop.engine.store.states(ids)


async def test_a_chain_is_created_in_few_calls_where_the_store_can(
    shop: Shop, faulty: Faulty
) -> None:
    outcomes = await shop.engine.submit(chain(shop, 100))
    assert {one.created for one in outcomes} == {True}
    creates = faulty.calls["create"] + faulty.calls["create_together"]
    if offered(faulty, CreatesTogether):
        assert (creates, faulty.calls["link"]) == (1, 1)
    else:
        assert (creates, faulty.calls["link"]) == (100, 99)


async def test_links_of_a_chain_run_one_after_the_other(shop: Shop, faulty: Faulty) -> None:
    links = chain(shop, MAX_BATCH + 50)
    await shop.engine.submit(links)
    for number in range(5):
        [run] = await shop.claim(9)
        assert run.id == f"l{number}"
        await shop.engine.report(run, Complete())
        await shop.told()
    if offered(faulty, SettlesAtOnce):
        assert faulty.calls["settle"] == 0, "each link was unblocked with the end of the one before"
    last = [f"l{MAX_BATCH + number}" for number in range(50)]
    assert await states(shop, last) == [State.BLOCKED] * 50


async def test_levels_of_any_width_follow_upon_one_another(shop: Shop) -> None:
    wide = [f"w{number}" for number in range(MAX_BATCH + 10)]
    narrow = [f"n{number}" for number in range(3)]
    submissions = [
        shop.submission("first"),
        *(shop.submission(one, dependencies=("first",)) for one in wide),
        shop.submission("join", dependencies=tuple(wide)),
        *(shop.submission(one, dependencies=("join",)) for one in narrow),
        shop.submission("last", dependencies=tuple(narrow)),
    ]
    outcomes = await shop.engine.submit(submissions)
    assert [one.id for one in outcomes] == [s.id for s in submissions]
    assert {one.error for one in outcomes} == {None}
    await shop.run()
    assert await states(shop, ["first", *wide[:2], "join", "last"]) == [
        State.COMPLETED,
        State.PENDING,
        State.PENDING,
        State.BLOCKED,
        State.BLOCKED,
    ]


async def refused_by_policy(shop: Shop, links: list[Submission]) -> list[Submission]:
    return with_link(links, MIDDLE, options={"max_retries": -1})


async def recorded_as_invalid(shop: Shop, links: list[Submission]) -> list[Submission]:
    return with_link(links, MIDDLE, invalid="no", options={"on_invalid": "record"})


async def key_held(shop: Shop, links: list[Submission]) -> list[Submission]:
    await shop.submit("holder", unique_key="k")
    return with_link(links, MIDDLE, unique_key="k")


async def id_taken(shop: Shop, links: list[Submission]) -> list[Submission]:
    await shop.submit(f"l{MIDDLE}", "another")
    return links


async def behind_nobody(shop: Shop, links: list[Submission]) -> list[Submission]:
    return with_link(links, MIDDLE, dependencies=(f"l{MIDDLE - 1}", "nobody"))


Slip = Callable[[Shop, list[Submission]], Awaitable[list[Submission]]]


@pytest.mark.parametrize(
    ("slip", "error"),
    [
        (refused_by_policy, InvalidSubmission),
        (recorded_as_invalid, InvalidSubmission),
        (key_held, UniqueKeyHeld),
        (id_taken, TaskConflict),
        (behind_nobody, InvalidSubmission),
    ],
)
async def test_what_depends_on_a_refused_one_is_refused_and_the_rest_is_stored(
    shop: Shop, slip: Slip, error: type[Exception]
) -> None:
    beside = [shop.submission("a"), shop.submission("b", dependencies=("a", f"l{MIDDLE - 1}"))]
    links = await slip(shop, chain(shop))
    outcomes = {one.id: one for one in await shop.engine.submit([*links, *beside])}
    check(outcomes, error)
    stored = [f"l{number}" for number in range(MIDDLE)] + ["a", "b"]
    assert None not in await states(shop, stored)
    later = [f"l{number}" for number in range(MIDDLE + 1, LINKS)]
    assert await states(shop, later) == [None] * len(later)


def check(outcomes: dict[str, Submitted], error: type[Exception]) -> None:
    assert isinstance(outcomes[f"l{MIDDLE}"].error, error)
    for number in range(MIDDLE + 1, LINKS):
        assert f"'l{number - 1}', which was refused" in str(outcomes[f"l{number}"].error)
    fine = [f"l{number}" for number in range(MIDDLE)] + ["a", "b"]
    assert [outcomes[task_id].error for task_id in fine] == [None] * len(fine)


@pytest.mark.parametrize("place", [0, MIDDLE, LINKS - 1])
async def test_one_that_the_store_cannot_write_is_refused_with_what_depends_on_it(
    shop: Shop, faulty: Faulty, place: int
) -> None:
    faulty.bad = {f"l{place}"}
    faulty.fails = {"create_together": Unwritable("no")}
    faulty.refuses = {"create"}
    outcomes = {one.id: one for one in await shop.engine.submit(chain(shop))}
    refused = [outcomes[f"l{number}"].error is not None for number in range(LINKS)]
    assert refused == [number >= place for number in range(LINKS)]
    found = await states(shop, [f"l{number}" for number in range(LINKS)])
    assert [one is None for one in found] == refused


async def test_a_graph_that_is_submitted_again_is_answered_like_the_first(shop: Shop) -> None:
    first = await shop.engine.submit(chain(shop))
    again = await shop.engine.submit(chain(shop))
    assert [(one.id, one.state, one.error) for one in again] == [
        (one.id, one.state, one.error) for one in first
    ]
    assert {one.created for one in again} == {False}


async def test_a_submit_that_found_the_store_away_can_be_repeated(
    shop: Shop, faulty: Faulty
) -> None:
    away = StoreUnavailable("away")
    faulty.broken = {"link": away}
    with pytest.raises(StoreUnavailable):
        await shop.engine.submit(chain(shop))
    faulty.broken = {"create": away, "create_together": away}
    with pytest.raises(StoreUnavailable):
        await shop.engine.submit(chain(shop))
    faulty.broken = {}
    outcomes = await shop.engine.submit(chain(shop))
    assert {one.error for one in outcomes} == {None}
    for _ in range(LINKS):
        await shop.run()
    assert await shop.state(f"l{LINKS - 1}") is State.COMPLETED
