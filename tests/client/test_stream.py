"""Submitting a stream: what is drawn when, what is stored, and what a failure leaves."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from andon import Andon, State
from andon.client.drafts import Draft
from andon.client.streaming import SLICE, Drafts, streamed
from andon.engine.base import Submitted
from andon.model.errors import InvalidSubmission
from andon.stores.memory import MemoryStore
from andon.testing import running, virtual_time

MANY = 10 * SLICE + 7


@pytest.fixture(params=[SLICE, 3 * SLICE], ids=["a slice", "three slices"], autouse=True)
def at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many records the store creates in one call."""
    monkeypatch.setattr(MemoryStore, "most_created", request.param, raising=False)
    return request.param


@pytest.fixture
def add(app: Andon):
    @app.task(name="add")
    async def add(x: int) -> int:
        return x

    return add


async def stored(app: Andon) -> list[int]:
    return [task.args["x"] async for task in app.find()]


@virtual_time
async def test_all_are_stored_and_told_in_the_order_given(app: Andon, add):
    drafts = [add.draft(n) for n in range(MANY)]
    async with running(app, worker=False):
        told = [outcome async for some in app.submit_stream(iter(drafts)) for outcome in some]
        assert await stored(app) == list(range(MANY))
    assert [outcome.id for outcome in told] == [draft.id for draft in drafts]
    assert {(outcome.state, outcome.created, outcome.error) for outcome in told} == {
        (State.PENDING, True, None)
    }


@virtual_time
async def test_an_empty_stream_ends_at_once(app: Andon):
    async with running(app, worker=False):
        assert [some async for some in app.submit_stream(())] == []


@virtual_time
@pytest.mark.parametrize("is_async", [False, True], ids=["iterable", "async iterable"])
async def test_what_is_no_draft_ends_a_stream_after_the_drafts_before_it(
    app: Andon, add, is_async: bool
):
    items: list[Any] = [add.draft(1), add.draft(2), (3,), add.draft(4)]

    async def drawn() -> AsyncIterator[Any]:
        for item in items:
            yield item

    told: list[Submitted] = []

    async def submit() -> None:
        async for some in app.submit_stream(drawn() if is_async else items):
            told.extend(some)

    async with running(app, worker=False):
        with pytest.raises(TypeError, match=r"drafts, such as charge\.draft.*'tuple'"):
            await submit()
        assert await stored(app) == [1, 2]
    assert len(told) == 2


@virtual_time
async def test_no_more_is_drawn_than_a_few_slices_ahead_of_what_is_told(
    app: Andon, add, at_once: int
):
    drawn, told = 0, 0

    def drafts() -> Iterator[Draft[int]]:
        nonlocal drawn
        for n in range(MANY):
            drawn += 1
            yield add.draft(n)

    async with running(app, worker=False):
        async for some in app.submit_stream(drafts()):
            assert drawn - told <= 3 * at_once
            told += len(some)
    assert drawn == told == MANY


@virtual_time
async def test_a_store_that_waits_gets_a_slice_and_one_that_writes_as_much_as_it_takes(
    app: Andon, add, at_once: int
):
    sent: list[int] = []
    written = asyncio.Event()

    async def send(drafts: Drafts) -> list[Submitted]:
        sent.append(len(drafts))
        if len(sent) == 2:
            assert sent == [SLICE, at_once]
            written.set()
        await written.wait()
        return [Submitted(draft.id, State.PENDING, created=True) for draft in drafts]

    async def size() -> int:
        return at_once

    drafts = [add.draft(n) for n in range(MANY)]
    told = [o.id async for some in streamed(send, size, drafts) for o in some]
    assert told == [draft.id for draft in drafts]
    assert (sum(sent), max(sent)) == (MANY, at_once)


@virtual_time
async def test_the_first_are_stored_before_the_last_are_drawn(app: Andon, add):
    async with running(app, worker=False):

        async def drafts() -> AsyncIterator[Draft[int]]:
            for n in range(MANY - 1):
                yield add.draft(n)
            assert len(await stored(app)) >= MANY // 2
            yield add.draft(MANY - 1)

        async for _ in app.submit_stream(drafts()):
            pass
        assert len(await stored(app)) == MANY


@virtual_time
async def test_a_refused_draft_is_told_and_the_others_are_stored(app: Andon, add):
    def drafts() -> Iterator[Draft[int]]:
        for n in range(MANY):
            late = n == SLICE + 1
            yield add.options(delay=60, deadline_in=30).draft(n) if late else add.draft(n)

    async with running(app, worker=False):
        told = [outcome async for some in app.submit_stream(drafts()) for outcome in some]
        assert await stored(app) == [n for n in range(MANY) if n != SLICE + 1]
    refused = [n for n, outcome in enumerate(told) if outcome.error is not None]
    assert refused == [SLICE + 1]
    assert isinstance(told[SLICE + 1].error, InvalidSubmission)


@virtual_time
@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_what_came_before_an_error_of_the_iterable_is_stored_and_told(
    app: Andon, add, kind: str
):
    good = 2 * SLICE + 5

    def plain() -> Iterator[Draft[int]]:
        for n in range(good):
            yield add.draft(n)
        yield add.draft("no number")

    async def awaited() -> AsyncIterator[Draft[int]]:
        for draft in plain():
            yield draft

    told: list[str] = []

    async def hear(drafts: Iterator[Draft[int]] | AsyncIterator[Draft[int]]) -> None:
        async for some in app.submit_stream(drafts):
            told.extend(outcome.id for outcome in some)

    async with running(app, worker=False):
        with pytest.raises(InvalidSubmission, match="'x'"):
            await hear(plain() if kind == "plain" else awaited())
        assert len(told) == good
        assert await stored(app) == list(range(good))


@virtual_time
async def test_who_leaves_early_leaves_nothing_half_written(app: Andon, add, at_once: int):
    async with running(app, worker=False):
        stream = app.submit_stream(add.draft(n) for n in range(MANY))
        first = await anext(stream)
        await stream.aclose()
        known = await stored(app)
        assert len(first) <= len(known) <= 3 * at_once
        assert known == list(range(len(known)))


@virtual_time
async def test_a_child_finds_parents_that_came_before_it(app: Andon, add):
    parents = [add.draft(n) for n in range(3 * SLICE)]
    ids = [parents[0].id, parents[SLICE].id, parents[-1].id]
    child = add.options(depends_on=ids).draft(-1)
    async with running(app, worker=False):
        told = {o.id: o async for some in app.submit_stream([*parents, child]) for o in some}
        assert told[child.id].error is None
        assert told[child.id].state is State.BLOCKED


def test_sync_code_draws_in_its_own_thread(app: Andon, add):
    drawing: set[str] = set()

    def drafts() -> Iterator[Draft[int]]:
        for n in range(MANY):
            drawing.add(threading.current_thread().name)
            yield add.draft(n)

    told = sum(len(some) for some in app.sync.submit_stream(drafts()))
    assert len(app.sync.submit_many(drafts())) == told == MANY
    assert drawing == {threading.current_thread().name}
    app.sync.close()
