"""A walk through all pages of the shop's board in a browser."""

from collections.abc import Iterator

from playwright.sync_api import Page, expect

from .browser import Watched, faults_of_access, overflow

PAGES = {
    "andon": "/",
    "tasks": "/tasks?state=failed",
    "task": "/tasks/order-35",
    "dead-letters": "/dead-letters",
    "dead-letters-listed": "/dead-letters/list",
    "queues": "/queues",
    "queue": "/queues/billing",
    "types": "/types",
    "type": "/types/shop.charge",
    "workers": "/workers",
    "schedules": "/schedules",
    "schedule": "/schedules/shop-tidy",
    "schedule-new": "/schedules/~new",
    "schedule-edit": "/schedules/shop-tidy/edit",
    "flows": "/flows",
    "alerts": "/alerts",
    "alert-rule": "/alerts/rule",
    "alert-target": "/alerts/target",
    "tokens": "/tokens",
    "audit": "/audit",
    "doctor": "/doctor",
    "nothing": "/search?q=nothing-like-it",
}


def walk(board: Watched) -> Iterator[tuple[str, Page]]:
    """Every page, open and live: nothing is wrong on it, nobody is kept from using it, and it is
    no wider than its window."""
    flow = board.open("/flows").locator("#flows tbody a").first.get_attribute("href")
    for name, path in {**PAGES, "flow": flow or ""}.items():
        page = board.open(path)
        expect(page.locator("h1").first).to_be_attached()
        expect_no_faults(page, name)
        assert overflow(page) <= 0, name
        board.check()
        yield name, page


def expect_no_faults(page: Page, name: str) -> None:
    """Fail if axe-core finds anything."""
    faults = faults_of_access(page)
    assert faults == [], f"{name}: {faults}"
