"""Unique calls: which arguments make the key, and what a held key does to a submit."""

import pytest

from andon import Andon
from andon.errors import InvalidSubmission, SubmissionsRefused, TaskCancelled, UniqueKeyHeld
from andon.testing import running, virtual_time


@virtual_time
async def test_unique_by_compares_the_named_arguments_only(app: Andon):
    @app.task(name="sync", unique_by=("order",))
    async def sync(order: int, note: str = "") -> None: ...

    async with running(app, worker=False):
        await sync.submit(7, "first")
        with pytest.raises(UniqueKeyHeld):
            await sync.submit(7, "second")
        await sync.submit(8, "first")


def test_an_argument_that_is_none_is_refused_with_the_nearest_name(app: Andon):
    with pytest.raises(InvalidSubmission, match="Did you mean 'order'"):

        @app.task(unique_by=("ordr",))
        async def sync(order: int) -> None: ...


@virtual_time
async def test_a_call_of_positions_has_no_named_arguments(app: Andon):
    async with running(app, worker=False):
        with pytest.raises(InvalidSubmission, match="positions"):
            await app.submit("elsewhere", [7], unique_by=("order",))


@virtual_time
async def test_on_held_return_gives_the_handle_on_the_holder(app: Andon):
    @app.task(name="sync", unique=True, on_held="return")
    async def sync(order: int) -> None: ...

    async with running(app, worker=False):
        first = await sync.submit(7)
        again = await sync.submit(7)
        assert (again.id, first.created, again.created) == (first.id, True, False)
        many = await app.submit_many([sync.draft(7), sync.draft(8)])
        assert [handle.id == first.id for handle in many] == [True, False]
        with pytest.raises(UniqueKeyHeld):
            await sync.options(on_held="refuse").submit(7)


@virtual_time
async def test_a_refusal_beside_a_held_key_still_refuses(app: Andon):
    @app.task(name="sync", unique=True, on_held="return")
    async def sync(order: int) -> None: ...

    async with running(app, worker=False):
        first = await sync.submit(7)
        taken = sync.options(id=first.id).draft(9)
        with pytest.raises(SubmissionsRefused) as refused:
            await app.submit_many([taken, sync.draft(7)])
        assert list(refused.value.errors) == [first.id]


@virtual_time
async def test_headers_of_a_type_and_of_a_call_are_merged(app: Andon):
    @app.task(name="send", headers={"team": "mail", "tone": "plain"})
    async def send() -> None: ...

    async with running(app, worker=False):
        task = await (await send.options(headers={"tone": "warm"}).submit()).get()
    assert task.headers == {"team": "mail", "tone": "warm"}


@virtual_time
async def test_a_debounced_task_runs_once_after_the_last_of_a_burst_of_submits(app: Andon):
    ran: list[str] = []

    @app.task(name="index", unique_by=("page",), on_held="extend", delay=10, max_delay=30)
    async def index(page: int, text: str) -> None:
        ran.append(text)

    async with running(app):
        first, second = await index.submit(7, "a"), await index.submit(7, "ab")
        other = await index.submit(8, "z")
        await second.result(timeout=60)
        with pytest.raises(TaskCancelled, match=f"superseded.*{second.id}"):
            await first.result()
        assert (await first.get()).successor == second.id
        assert (await second.get()).predecessor == first.id
        await other.result(timeout=60)
        assert sorted(ran) == ["ab", "z"]
        await index.options(on_held="refuse").submit(7, "abc")
        with pytest.raises(UniqueKeyHeld):
            await index.options(on_held="refuse").submit(7, "abcd")
        with pytest.raises(InvalidSubmission, match="on_held is one of"):
            index.options(on_held="replace")  # pyright: ignore
        with pytest.raises(InvalidSubmission, match="needs max_delay"):
            await app.submit("elsewhere", [7], unique_key="k", delay=1, on_held="extend")
