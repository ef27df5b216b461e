"""A store or service that is away: the page says so, stays as it was, and goes on by itself."""

from pathlib import Path
from typing import Any

import pytest
from servers.hurt import Hurtable
from service.kit import serving
from tests.dashboard.kit import make_app

from andon.dashboard.patience import EVERY, until_next
from andon.model.errors import StoreUnavailable

from .kit import looking, mails

_AWAY = "The store does not answer"


async def test_a_store_that_does_not_answer_for_a_while(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("The store is away.")

    async with make_app(url) as app:
        await (await app.engine()).submit(mails(2))
        async with looking(url) as seen:
            await seen.press("2")
            await seen.until("m1")
            with monkeypatch.context() as patched:
                patched.setattr(seen.engine, "find", away)
                patched.setattr(seen.engine, "get", away)
                await seen.until(_AWAY)
                assert "m1" in seen.text
                await seen.press("c")
                await seen.until("Cancel 1 task?")
                await seen.press("y")
                await seen.until("Cancel: ✗ ended early")
                await seen.press("escape", "g")
                await seen.write("m0")
                await seen.until("The store is away.")
            await seen.press("f5")
            await seen.until("m1", gone=_AWAY)


@pytest.mark.slow
async def test_a_server_that_is_killed_and_comes_back(tmp_path: Path) -> None:
    server = Hurtable("redis", tmp_path)
    server.start()
    try:
        url = server.fresh_url()
        async with make_app(url) as app:
            await (await app.engine()).submit(mails(2))
        async with looking(url) as seen:
            await seen.until("pending 2")
            server.kill()
            await seen.until(_AWAY)
            assert "pending 2" in seen.text
            server.start()
            await seen.until("ready", gone=_AWAY)
            await seen.press("2")
            await seen.until("Tasks: all")
    finally:
        server.stop()


async def test_a_service_that_is_stopped_and_comes_back(url: str) -> None:
    with serving(make_app(url)) as first:
        port = int(first.url.rpartition(":")[2])
        first.call(first.service.engine.submit(mails(2)))
        async with looking(first.url) as seen:
            await seen.until("pending 2")
            first.stop()
            await seen.until(_AWAY)
            with serving(make_app(url), port=port):
                await seen.until("pending 2", gone=_AWAY)


async def test_what_cannot_be_shown_is_said_and_ends_nothing(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("a bug")

    async with make_app(url) as app:
        await (await app.engine()).submit(mails(1))
        async with looking(url) as seen:
            await seen.until("mail")
            with monkeypatch.context() as patched:
                patched.setattr(seen.engine, "find", broken)
                await seen.press("2")
                await seen.until("This should not have happened: RuntimeError: a bug")
            await seen.press("f5")
            await seen.until("m0", gone="should not")


async def test_only_what_is_looked_at_is_read_and_no_more_often_than_the_board_does(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("andon.top.page.EVERY", dict.fromkeys(EVERY, 3600.0))
    async with make_app(url) as app:
        await (await app.engine()).submit(mails(1))
        async with looking(url) as seen:
            await seen.until("mail")
            read: list[str] = []
            for name in ("stats", "find", "get", "workers", "waits"):
                asked = getattr(seen.engine, name)

                async def counted(*args: Any, asked: Any = asked, name: str = name) -> Any:
                    read.append(name)
                    return await asked(*args)

                monkeypatch.setattr(seen.engine, name, counted)
            await seen.press("down", "up", "question_mark", "escape")
            await seen.until("mail", gone="Back")
            assert read.count("stats") <= 1  # the page was looked at anew after the help
            before = len(read)
            await seen.press("down", "down", "t", "t", "up")
            await seen.until("mail")
            assert len(read) == before
            await seen.press("2")
            await seen.until("m0")
            assert read.count("find") == 1


def test_a_failing_store_is_asked_ever_less_often() -> None:
    assert [until_next(2.0, failures) for failures in range(4)] == [2.0, 4.0, 5.0, 5.0]
    assert until_next(15.0, 3) == 15.0


async def test_a_page_that_is_read_while_the_application_ends_breaks_nothing(url: str) -> None:
    async with make_app(url) as app:
        await (await app.engine()).submit(mails(1))
        async with looking(url) as seen:
            await seen.until("mail")
            page: Any = seen.top.screen
            reading = page._reading
            await page.query("*").remove()  # as the end of the application does it first
            page.action_read_again()
            await reading.wait()
            assert not reading.is_cancelled
