"""A service that is killed, and a store that does not answer: the page says so, and goes on by
itself."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect
from service.kit import serving

from andon.model.errors import StoreUnavailable

from .browser import chromium, looking, needs_chromium
from .kit import make_app

pytestmark = [needs_chromium, pytest.mark.slow]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


def test_a_store_that_does_not_answer(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async def away(*_: Any) -> None:
        raise StoreUnavailable("The store is away.")

    with (
        serving(make_app(f"sqlite:///{tmp_path}/tasks.db")) as running,
        looking(browser, running.url) as board,
    ):
        page = board.open("/")
        with monkeypatch.context() as patched:
            patched.setattr(running.service.engine, "stats", away)
            expect(page.locator("#notice")).to_contain_text("The store does not answer")
            expect(page.locator("#stations")).to_be_visible()
            page.reload()
            expect(page.locator("#refusal")).to_contain_text("The store does not answer")
            board.errors.clear()  # the browser notes the 503
        expect(page.locator("#stations")).to_be_visible()
        expect(page.locator("#notice")).to_have_text("")


def test_a_service_that_is_killed_and_comes_back(browser: Browser, tmp_path: Path):
    url = f"sqlite:///{tmp_path}/tasks.db"
    with serving(make_app(url)) as first:
        port = int(first.url.rpartition(":")[2])
        with looking(browser, first.url) as board:
            page = board.open("/")
            first.stop()
            expect(page.locator("#notice")).to_contain_text("The board does not answer")
            with serving(make_app(url), port=port):
                expect(page.locator("#notice")).to_have_text("")
                board.live()
            board.errors.clear()  # the browser notes the connections that were refused
