"""Debian's Chromium, driven by Playwright: no browser of its own is downloaded."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
MISSING = "no Chromium is on this machine (Debian: apt-get install chromium)"

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason=MISSING)

_ARGS = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_MS = 60_000


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser for as long as the block lasts."""
    assert CHROMIUM is not None
    sandbox = [] if os.geteuid() else ["--no-sandbox"]  # Chromium refuses to have one as root
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=[*_ARGS, *sandbox], timeout=PATIENCE_MS
        )
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page that notes whatever goes wrong on it."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.page: Page = context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.url = url
        self.errors: list[str] = []
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", self._asked)

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.type}: {message.text}")

    def _asked(self, request: Any) -> None:
        if not request.url.startswith(self.url):
            self.errors.append(f"asked another host: {request.url}")

    def open(self, path: str) -> Page:
        """Go to a page of the board, and until it is live if it can be."""
        self.page.goto(self.url + path)
        self.live()
        return self.page

    def live(self) -> None:
        """Wait until its stream is there."""
        if self.page.locator("body[data-live]").count():
            self.page.locator("#pulse[data-state=on]").wait_for(state="attached")

    def check(self) -> None:
        """Nothing went wrong so far: no error in the console, under the content security policy."""
        assert self.errors == []


@contextmanager
def looking(browser: Browser, url: str, **options: Any) -> Iterator[Watched]:
    """A page in a context of its own, at which nothing may go wrong."""
    size = {"width": 1280, "height": 860}
    context = browser.new_context(**{"viewport": size, "timezone_id": "Europe/Berlin"} | options)
    try:
        watched = Watched(context, url)
        yield watched
        watched.check()
    finally:
        context.close()


def faults_of_access(page: Page) -> list[str]:
    """What axe-core finds that keeps somebody from using a page."""
    found = Axe().run(page)
    return [
        f"{one['id']}: {one['help']} ({one['nodes'][0]['html'][:200]})"
        for one in found.response["violations"]
    ]


def overflow(page: Page) -> int:
    """By how many pixels a page is wider than its window."""
    return page.evaluate("document.documentElement.scrollWidth - window.innerWidth")


_WITHOUT_THIS_MACHINE = r"""
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode;
  node.data = node.data
    .replace(/sqlite:\/\/\/\S+\/tasks\.db/, "sqlite:////srv/shop/tasks.db")
    .replace(/"[^"]*\/scene\.py"/g, '"/srv/shop/shop.py"');
}
"""
"""Pictures show no folder of the machine that they were taken on."""


def kept(page: Page, folder: Path | None, name: str) -> None:
    """Keep a picture of the page, where pictures are asked for."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        page.evaluate(_WITHOUT_THIS_MACHINE)
        page.screenshot(path=folder / f"{name}.png")
