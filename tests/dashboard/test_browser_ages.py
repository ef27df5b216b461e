"""A page that is costly to read, in a real browser: how old it may be, and who comes to it anew."""

from pathlib import Path

import pytest
from playwright.sync_api import expect
from service.kit import serving

from andon.dashboard.patience import Budget
from andon.engine.base import Submission

from .browser import chromium, looking, needs_chromium
from .kit import make_app

pytestmark = [needs_chromium, pytest.mark.slow]


def rarely(*_: object) -> float:
    """As if a reading had taken long."""
    return 50.0


def test_a_costly_page_says_how_old_it_may_be_and_whoever_opens_it_sees_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Budget, "rest", rarely)
    with (
        serving(make_app(f"sqlite:///{tmp_path}/tasks.db")) as service,
        chromium() as browser,
        looking(browser, service.url) as stays,
        looking(browser, service.url) as comes,
    ):
        first = stays.open("/")
        expect(first.locator("#pulse")).to_have_text("live, up to 60 s old")
        service.call(
            service.service.engine.submit([Submission(id="a", name="shop.remind", queue="mail")])
        )
        second = comes.open("/")
        expect(second.locator("#pulse")).to_have_text("live, up to 60 s old")
        for page in (second, first):  # what the newcomer has it read is for all who look
            expect(page.locator("#queue-mail")).to_be_visible()
        stays.check()
        comes.check()


def test_a_page_that_is_cheap_to_read_says_that_it_is_live_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Budget, "rest", lambda _self, _topic, every, *_: every)
    with (
        serving(make_app(f"sqlite:///{tmp_path}/tasks.db")) as service,
        chromium() as browser,
        looking(browser, service.url) as board,
    ):
        page = board.open("/")
        board.live()
        expect(page.locator("#pulse")).to_have_text("live")
        board.check()
