"""What happened to groups as a whole: told once it has happened, in one order for all, and not lost
with whoever made it happen."""

import asyncio

import pytest

from andon.contract.notes import NoteName, PutNote
from andon.engine.group_news import NewsOfGroups
from andon.engine.groups import SCOPES
from andon.engine.local import LocalEngine
from andon.lifecycle.constants import EVENTS_KEPT_MS
from andon.model.errors import GroupNotFound, StoreUnavailable
from andon.model.groups import GroupHappening, GroupNews

from .conftest import START, Shop


async def grouped(shop: Shop, group: str, owner: str = "ci") -> None:
    outcome = await shop.try_submit(f"{group}-first", group=group, group_owner=owner)
    assert outcome.error is None


async def read(news: NewsOfGroups, number: int = 0, limit: int = 100) -> list[GroupNews]:
    """All of the news after that number."""
    found: list[GroupNews] = []
    while (page := await news.after(number, limit)).items:
        for item in page.items:
            assert item.number == number + 1, "none is left out"
            assert item.news is not None
            number, found = item.number, [*found, item.news]
    return found


async def test_a_seal_is_told_once_with_the_group_as_it_is_then(shop: Shop) -> None:
    await grouped(shop, "g")
    record = await shop.engine.seal_group("g")
    assert await shop.engine.seal_group("g") == record
    assert record.untold == ()
    assert await shop.engine.group("g") == record
    assert await read(shop.engine.group_news) == [
        GroupNews(
            group="g",
            owner="ci",
            expires_at=record.expires_at,
            sealed_at=START,
            happening=GroupHappening(at=START, what="sealed"),
        )
    ]


async def test_another_priority_of_a_group_is_told_each_time(shop: Shop) -> None:
    await grouped(shop, "g")
    for priority, changed in ((2, 40), (-1, 0)):
        await shop.engine.tell_reprioritised("g", priority, changed)
        await shop.later(1)
    told = [one.happening for one in await read(shop.engine.group_news)]
    assert [(one.what, one.priority, one.changed) for one in told] == [
        ("reprioritised", 2, 40),
        ("reprioritised", -1, 0),
    ]
    with pytest.raises(GroupNotFound):
        await shop.engine.tell_reprioritised("other", 2, 1)


async def test_what_many_write_at_once_has_one_order_without_a_gap(shop: Shop) -> None:
    names = [f"g{i}" for i in range(12)]
    for name in names:
        await grouped(shop, name)
    others = [LocalEngine(shop.engine.store) for _ in range(3)]
    await asyncio.gather(*(others[i % 3].seal_group(name) for i, name in enumerate(names)))
    told = await read(shop.engine.group_news)
    assert sorted(one.group for one in told) == sorted(names)
    for other in others:
        assert await read(other.group_news, limit=5) == told
        assert await other.group_news.end() == len(told)


async def test_they_go_on_where_one_block_of_numbers_is_full(shop: Shop) -> None:
    await grouped(shop, "g")
    for number in range(205):
        await shop.engine.tell_reprioritised("g", 1, number)
    news = NewsOfGroups(shop.engine.store)
    assert [one.happening.changed for one in await read(news, 0, 30)] == list(range(205))
    assert [one.happening.changed for one in await read(news, 99)] == list(range(99, 205))
    assert [one.happening.changed for one in await read(news, 100)] == list(range(100, 205))
    assert await NewsOfGroups(shop.engine.store).end() == 205


class _Broken(Exception):
    pass


async def test_what_was_not_told_by_who_died_is_told_by_who_asks_again_or_sweeps(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        await grouped(shop, name)

    async def dies(self: NewsOfGroups, news: GroupNews) -> None:
        raise _Broken

    with monkeypatch.context() as patch:
        patch.setattr(NewsOfGroups, "append", dies)
        for name in ("a", "b"):
            with pytest.raises(_Broken):
                await shop.engine.seal_group(name)
    assert (await shop.engine.group("a")).sealed_at == START, "it is sealed all the same"
    assert await read(shop.engine.group_news) == []
    await shop.later(5)
    assert (await shop.engine.seal_group("a")).untold == ()
    assert [one.group for one in await read(shop.engine.group_news)] == ["a"]
    for _ in range(SCOPES):
        await shop.engine._groups.sweep()
    told = await read(shop.engine.group_news)
    assert [(one.group, one.happening.at) for one in told] == [("a", START), ("b", START)]
    assert (await shop.engine.group("b")).untold == ()


async def test_what_was_told_and_not_crossed_off_is_told_again_and_is_the_same(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await grouped(shop, "a")
    append = NewsOfGroups.append

    async def dies_after(self: NewsOfGroups, news: GroupNews) -> None:
        await append(self, news)
        raise _Broken

    with monkeypatch.context() as patch:
        patch.setattr(NewsOfGroups, "append", dies_after)
        with pytest.raises(_Broken):
            await shop.engine.seal_group("a")
    await shop.engine.seal_group("a")
    first, again = await read(shop.engine.group_news)
    assert first == again


async def test_what_is_older_than_the_event_log_keeps_goes_but_for_the_newest(shop: Shop) -> None:
    await grouped(shop, "g")
    for number in range(120):
        await shop.engine.tell_reprioritised("g", 1, number)
    await shop.later(EVENTS_KEPT_MS / 1000 + 1)
    news = shop.engine.group_news
    assert await news.trim(100) == 100
    assert await news.trim(100) == 19
    assert await news.trim(100) == 0
    other = NewsOfGroups(shop.engine.store)
    for number in (0, 50, 110):
        page = await other.after(number)
        assert page.gap
        assert [item.number for item in page.items] == [120]
    page = await other.after(119)
    assert (page.gap, [item.number for item in page.items]) == (False, [120])
    await shop.engine.tell_reprioritised("g", 1, 120)
    assert [item.number for item in (await other.after(120)).items] == [121]


async def test_a_process_that_was_idle_while_others_wrote_and_dropped_goes_on_at_the_end(
    shop: Shop,
) -> None:
    await grouped(shop, "g")
    await shop.engine.tell_reprioritised("g", 1, 0)
    idle = LocalEngine(shop.engine.store)
    assert await idle.group_news.end() == 1
    for number in range(1, 120):
        await shop.engine.tell_reprioritised("g", 1, number)
    await shop.later(EVENTS_KEPT_MS / 1000 + 1)
    while await shop.engine.group_news.trim():
        pass
    page = await idle.group_news.after(1)
    assert (page.gap, [item.number for item in page.items]) == (True, [120])
    await idle.tell_reprioritised("g", 1, 120)
    assert [one.happening.changed for one in await read(shop.engine.group_news, 120)] == [120]


async def test_one_that_does_not_decode_is_none_and_the_others_are_read(shop: Shop) -> None:
    await grouped(shop, "g")
    await shop.engine.tell_reprioritised("g", 1, 1)
    name = NoteName("group-news", "0", f"{2:016}")
    await shop.engine.store.put_notes([PutNote(name, b"\xc1", None)])
    await shop.engine.tell_reprioritised("g", 1, 3)
    items = (await shop.engine.group_news.after(0)).items
    assert [(item.number, item.news is None) for item in items] == [
        (1, False),
        (2, True),
        (3, False),
    ]


async def test_a_store_that_always_has_one_more_is_told_of(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await grouped(shop, "g")

    async def behind(self: NewsOfGroups) -> int:
        return 0

    await shop.engine.seal_group("g")
    monkeypatch.setattr(NewsOfGroups, "end", behind)
    with pytest.raises(StoreUnavailable, match="try again"):
        await shop.engine.tell_reprioritised("g", 1, 1)
