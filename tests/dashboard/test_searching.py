"""What a text is that is looked for: what has an index is asked at once, the rest looked for on and
on while somebody looks."""

from typing import Any

import pytest
from service.kit import Running

from andon import Andon
from andon.contract.queries import Page, Query
from andon.dashboard.access import Visitor
from andon.dashboard.pages.frame import Place
from andon.dashboard.reading import Reader
from andon.dashboard.searching import FAILURES, Search, search
from andon.dashboard.sources import source_of
from andon.dashboard.views.bodies import Redaction
from andon.dashboard.views.search import Sought
from andon.dashboard.views.tasks import TaskFilter
from andon.engine.base import Engine, Submission
from andon.model.errors import StoreUnavailable

from .kit import Site

ANYONE = Visitor(name="", scopes=("*",))
OTHERS = 5_000
"""More than one call of a store looks at, twice."""


def only_once(_found: int) -> bool:
    return False


def reader_of(engine: Engine) -> Reader:
    async def opened() -> Engine:
        return engine

    return Reader(opened, Redaction(()), "")


async def crowd(engine: Engine, *first: Submission) -> None:
    """These tasks, and very many that are newer."""
    others = [Submission(id=f"t{n}", name="other", delay=3600) for n in range(OTHERS)]
    await engine.submit(first)
    for start in range(0, OTHERS, 100):
        await engine.submit(others[start : start + 100])


def old(task_id: str, name: str = "other", **fields: Any) -> Submission:
    return Submission(id=task_id, name=name, delay=3600, **fields)


async def test_what_has_an_index_is_found_without_a_look_for_the_rest(
    monkeypatch: pytest.MonkeyPatch,
):
    async with Andon("memory://") as app:
        engine = await app.engine()
        await crowd(engine, old("one", key="ann", group="night"))
        asked: list[Query] = []
        find = engine.find

        async def noted(query: Query) -> Page:
            asked.append(query)
            return await find(query)

        monkeypatch.setattr(engine, "find", noted)
        found = await search(reader_of(engine), "ann", ANYONE)
        assert found.asked == TaskFilter(key="ann")
        found = await search(reader_of(engine), "night", ANYONE)
        assert found.asked == TaskFilter(group="night")
        assert not [query for query in asked if query.name and query.states != FAILURES]
        assert len({(q.id_prefix, q.key, q.group, q.tag, q.name) for q in asked}) == len(asked)
        assert (await search(reader_of(engine), "one", ANYONE)).is_task


async def test_a_rare_name_is_found_by_whoever_looks_on():
    async with Andon("memory://") as app:
        engine = await app.engine()
        await crowd(engine, old("one", name="rare"))
        looking = Search("rare")
        first = await looking.read(reader_of(engine), only_once)
        assert (first.asked, first.is_over) == (None, False)
        seen: list[Sought] = [first]
        while not seen[-1].is_over:
            seen.append(await looking.read(reader_of(engine), only_once))
        assert seen[-1].asked == TaskFilter(name="rare")
        assert len(seen) > 2
        assert await looking.read(reader_of(engine), only_once) == seen[-1]


async def test_a_search_that_a_store_did_not_answer_begins_anew(monkeypatch: pytest.MonkeyPatch):
    async with Andon("memory://") as app:
        engine = await app.engine()
        await engine.submit([old("one", tags=("rare",))])
        looking = Search("rare")
        with monkeypatch.context() as away:

            async def fails(_: Query) -> Page:
                raise StoreUnavailable("It is away.")

            away.setattr(engine, "find", fails)
            with pytest.raises(StoreUnavailable):
                await looking.read(reader_of(engine), only_once)
        assert (await looking.read(reader_of(engine), only_once)).asked == TaskFilter(tag="rare")


async def test_names_and_ids_take_turns_however_short_a_reading_is(
    monkeypatch: pytest.MonkeyPatch,
):
    async with Andon("memory://") as app:
        engine = await app.engine()
        asked: list[str] = []

        async def goes_on(query: Query) -> Page:
            asked.append("name" if query.name and not query.states else "id")
            return Page((), "more" if query.name or query.id_prefix else "")

        monkeypatch.setattr(engine, "find", goes_on)
        looking = Search("rare")
        await looking.read(reader_of(engine), only_once)
        asked.clear()
        for _ in range(4):
            await looking.read(reader_of(engine), only_once)
        assert sorted(asked) == ["id", "id", "name", "name"]


async def test_what_nobody_has_is_said_to_be_nowhere_when_all_was_looked_through():
    async with Andon("memory://") as app:
        engine = await app.engine()
        await crowd(engine)
        looking = Search("nobody")
        assert not (await looking.read(reader_of(engine), only_once)).is_over
        assert await looking.read(reader_of(engine), lambda _: True) == Sought(text="nobody")


async def test_a_page_that_found_nothing_is_told_what_is_found_later():
    place = Place("", ANYONE)
    source = source_of("search/ra%20re")
    assert source is not None
    assert source.is_for(ANYONE)
    assert not source.is_for(Visitor(name="", scopes=("tasks:read:mail",)))
    async with Andon("memory://") as app:
        engine = await app.engine()
        [drawn] = source.draw(place, await source.read(reader_of(engine)))
        assert "Nothing found<" in str(drawn)
        so_far = Sought(text="ra re", is_over=False)
        [drawn] = source.draw(place, so_far)
        assert "Nothing found so far" in str(drawn)
        [drawn] = source.draw(place, Sought(text="ra re", asked=TaskFilter(name="ra re")))
        assert 'id="sought"' in str(drawn)
        assert 'href="/tasks?name=ra+re"' in str(drawn)


def test_a_text_too_long_for_a_stream_is_not_looked_for_on_and_on(
    site: Site, service: Running, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("andon.stores.sqlite.reading.SCAN_BUDGET", 1)
    tasks = [Submission(id=f"t{n}", name="shop.remind", queue="mail", delay=60) for n in range(9)]
    service.call(service.service.engine.submit(tasks))
    monkeypatch.setattr("andon.dashboard.searching.for_a_moment", lambda _: lambda _: False)
    short = site.get("/search?q=nobody")
    assert "goes on while" in short.one(id="sought").text
    assert "search" in short.one("body")["data-live"]
    long = site.get("/search?q=" + "nobody" * 90)
    assert "Nothing found so far" in long.one(id="sought").text
    assert "goes on while" not in long.one(id="sought").text
    assert "data-live" not in long.one("body").attributes
