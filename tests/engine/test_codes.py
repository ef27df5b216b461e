"""Lists of what workers have code for are kept once, found everywhere, and bounded."""

import asyncio
from typing import Any

import pytest

from andon.engine import codes
from andon.engine.codes import CodeBook
from andon.model.code import Code
from andon.model.errors import InvalidSubmission

from .conftest import START, Clock, Shop

DAY_MS = 86_400_000


def code(*names: str) -> Code:
    return Code.of((name, 0) for name in names)


def in_one_place(count: int, size: int = 1) -> list[Code]:
    """Different lists that are kept side by side, each of so many types."""
    found: list[Code] = []
    number = 0
    while len(found) < count:
        one = code(*(f"t{number}.{n:0100}" for n in range(size)))
        if one.digest[0] == "a":
            found.append(one)
        number += 1
    return found


class Counted:
    """A store, and how often each of its methods was called."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name in ("setting", "put_setting"):
            self.calls.append(name)
        return getattr(self._store, name)


async def test_a_list_is_found_by_its_digest_on_any_replica(shop: Shop) -> None:
    store = shop.engine.store
    one, other = code("a", "b"), Code.of([("a", 2), ("c*", 0)])
    for each in (one, other):
        await CodeBook(store).keep(each)
    found = await CodeBook(store).find([one.digest, other.digest, "0" * 16, "no digest", ""])
    assert found == {one.digest: one, other.digest: other}


async def test_what_is_known_costs_nothing_to_keep_or_find(shop: Shop) -> None:
    store = Counted(shop.engine.store)
    book, one = CodeBook(store), code("a")  # type: ignore[arg-type]
    await book.keep(one)
    store.calls.clear()
    for _ in range(5):
        await book.keep(one)
        assert await book.find([one.digest]) == {one.digest: one}
    assert store.calls == []


async def test_many_workers_that_begin_at_once_lose_no_list(shop: Shop) -> None:
    lists = in_one_place(8)
    await asyncio.gather(*(CodeBook(shop.engine.store).keep(one) for one in lists))
    found = await CodeBook(shop.engine.store).find([one.digest for one in lists])
    assert len(found) == len(lists)


async def test_what_nobody_uses_goes_and_what_is_used_stays(shop: Shop, clock: Clock) -> None:
    store = shop.engine.store
    used, unused, new = in_one_place(3)
    for each in (used, unused):
        await CodeBook(store).keep(each)
    book = CodeBook(store)
    for day in range(1, 12):
        clock.ms = START + day * DAY_MS + day
        await book.keep(used)
    await book.keep(new)
    found = await CodeBook(store).find([used.digest, unused.digest, new.digest])
    assert set(found) == {used.digest, new.digest}


async def test_a_place_that_is_full_drops_what_was_used_longest_ago(
    shop: Shop, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codes, "_MOST_BYTES_OF_ALL", 3_000)
    lists = in_one_place(5, size=8)
    for one in lists:
        clock.ms += 1
        await CodeBook(shop.engine.store).keep(one)
    found = await CodeBook(shop.engine.store).find([one.digest for one in lists])
    assert set(found) == {one.digest for one in lists[-3:]}
    assert len(await shop.engine.store.setting("codes-a") or b"") <= 3_000


@pytest.mark.parametrize(
    "bad",
    [
        Code.of([("", 0)]),
        Code.of([("a b", 0)]),
        Code.of([("a**", 0)]),
        Code.of([("a@2", 0)]),
        Code.of([("a\udcff", 0)]),
        Code.of([("a", -1)]),
        Code.of([("a", 2**63)]),
        Code.of([("x" * 129, 0)]),
        Code.of([(f"{n:0100}", 0) for n in range(3_000)]),
    ],
    ids=lambda one: repr(one)[:40],
)
async def test_a_list_that_cannot_be_one_is_refused(shop: Shop, bad: Code) -> None:
    with pytest.raises(InvalidSubmission):
        await CodeBook(shop.engine.store).keep(bad)
