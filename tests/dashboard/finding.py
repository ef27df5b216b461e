"""How somebody finds a failed task by its name in the browser, reads why it failed, and runs it
again."""

from playwright.sync_api import Locator, Page, expect


def find_and_rerun(page: Page, name: str, said: str) -> int:
    """From the first page to the task that runs again; the clicks that it took. `said` stands in
    its error, which the list shows, and in its traceback."""
    clicks = 0

    def click(what: Locator) -> None:
        nonlocal clicks
        clicks += 1
        what.click()

    click(page.locator("#stations").get_by_role("link", name="failed"))
    page.get_by_label("name", exact=True).fill(name)
    click(page.get_by_role("button", name="Find"))
    click(page.locator("#tasks tbody tr", has_text=said).first.locator("a").first)
    expect(page.locator("#traceback")).to_contain_text(said)
    click(page.get_by_role("button", name="Run again"))
    expect(page.locator(".said")).to_contain_text("runs again")
    expect(page.locator("#task-runs")).to_contain_text("rerun")
    return clicks
