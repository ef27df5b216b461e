"""The board in a real browser: every page, live, by keyboard alone, light and dark, on a phone."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from service.kit import Running, look_at_alerts

from andon.dashboard.assets import assets
from andon.engine.base import Submission

from .browser import Watched, chromium, kept, looking, needs_chromium, overflow
from .finding import find_and_rerun
from .scene import scene, settled
from .walking import PAGES, expect_no_faults, walk

pytestmark = [needs_chromium, pytest.mark.slow]

SHOWN = ("andon", "tasks", "task", "dead-letters", "flow", "workers", "queue")
"""Pages whose pictures the documentation shows."""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with scene(tmp_path_factory.mktemp("shop")) as running:
        settled(running)
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def board(browser: Browser, shop: Running) -> Iterator[Watched]:
    with looking(browser, shop.url) as watched:
        yield watched


@pytest.fixture
def pictures(request: pytest.FixtureRequest) -> Path | None:
    folder = request.config.getoption("--pictures")
    return None if folder is None else Path(folder)


def test_every_page_is_whole_and_open_to_everybody(
    board: Watched, shop: Running, pictures: Path | None
):
    for name, page in walk(board):
        if name in SHOWN:
            if name == "andon" and pictures is not None:
                work_for_a_picture(page, shop)
            kept(page, pictures, name)


def work_for_a_picture(page: Page, shop: Running) -> None:
    """Some seconds of work, so that there is something to see."""
    for turn in range(40):
        some = [
            Submission(
                id=f"work-{turn}-{n}",
                name="shop.charge" if n % 4 == 0 else "shop.remind",
                queue="billing" if n % 4 == 0 else "mail",
                args=b"[%d]" % (35 if n == 8 else 4) if n % 4 == 0 else b'["ann"]',
            )
            for n in range(24 + 8 * (turn % 5))
        ]
        shop.call(shop.service.engine.submit(some))
        page.wait_for_timeout(500)


def test_it_is_legible_in_the_dark(browser: Browser, shop: Running, pictures: Path | None):
    with looking(browser, shop.url, color_scheme="dark") as board:
        for name in ("andon", "tasks", "task", "dead-letters", "doctor"):
            page = board.open(PAGES[name])
            expect_no_faults(page, name)
            if name in ("andon", "task"):
                kept(page, pictures, f"{name}-dark")


def test_it_works_on_a_phone(browser: Browser, shop: Running, pictures: Path | None):
    size = {"width": 390, "height": 844}
    with looking(browser, shop.url, viewport=size, has_touch=True) as board:
        for name, path in PAGES.items():
            page = board.open(path)
            assert overflow(page) <= 0, name
            if name in ("andon", "task"):
                expect_no_faults(page, name)
                kept(page, pictures, f"{name}-phone")


def test_counts_change_by_themselves(board: Watched, shop: Running):
    page = board.open("/")
    row = page.locator("#queue-empty-one")
    expect(row).to_have_count(0)
    shop.call(
        shop.service.engine.submit(
            [Submission(id="new-1", name="shop.remind", queue="empty-one", delay=3600)]
        )
    )
    expect(row).to_have_count(1)


def test_a_rule_is_made_and_changed_by_keyboard_alone(board: Watched, shop: Running):
    chat = {"how": "chat", "url": "http://127.0.0.1:1/"}
    shop.call(shop.service.engine.alerts.put_target("chat", chat))
    page = board.open("/alerts/rule")
    page.get_by_label("name of the rule").focus()
    page.keyboard.type("stuck")
    page.get_by_label("above: an age").focus()
    page.keyboard.type("soon")
    page.get_by_label("targets to tell").focus()
    page.keyboard.type("chat")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("'soon' is no duration")
    expect_no_faults(page, "a form that is wrong")
    page.get_by_label("above: an age").fill("10m")
    page.keyboard.press("Enter")
    row = page.locator("#alert-rules tbody tr")
    expect(row).to_contain_text("the oldest task waits for more than 10m")
    expect_no_faults(page, "a list with a rule")
    page = board.open("/alerts/rules/stuck")
    page.get_by_label("for how long").fill("5m")
    page.keyboard.press("Enter")  # saves, though another button removes
    expect(row).to_contain_text("for 5m")
    row.get_by_role("link", name="stuck").click()
    page.get_by_role("button", name="Remove the rule stuck").click()
    expect(page.locator("#alert-rules")).to_contain_text("There is none")
    board.check()


def test_a_schedule_is_previewed_made_and_changed_by_keyboard_alone(board: Watched, shop: Running):
    page = board.open("/schedules")
    page.get_by_role("link", name="New schedule").press("Enter")
    page.get_by_label("name", exact=True).fill("by-hand")
    page.get_by_label("task", exact=True).fill("shop.tidy")
    page.get_by_label("cron expressions").fill("30 2 * * *")
    page.get_by_label("time zone").fill("Mars/Base")
    page.keyboard.press("Enter")  # a look, which changes nothing
    expect(page.get_by_role("alert")).to_contain_text("Mars/Base")
    expect_no_faults(page, "schedule refused")
    page.get_by_label("time zone").fill("Europe/Berlin")
    page.keyboard.press("Enter")
    expect(page.locator("#preview tbody tr")).to_have_count(10)
    expect_no_faults(page, "schedule previewed")
    page.get_by_role("button", name="Make the schedule").press("Enter")
    expect(page.locator(".said")).to_contain_text("Schedule by-hand is made")
    page.get_by_role("link", name="Edit").press("Enter")
    page.get_by_label("cron expressions").fill("")
    page.get_by_label("or every").fill("90m")
    page.get_by_role("button", name="Save").press("Enter")
    expect(page.locator(".said")).to_contain_text("Schedule by-hand is changed")
    [task] = shop.call(shop.service.engine.get(["by-hand"]))
    assert task.status.schedule is not None
    assert task.status.schedule.recurrence.every == 5_400
    shop.call(shop.service.engine.schedules.act(["by-hand"], "delete"))
    board.check()


def test_a_rule_that_fires_is_seen_without_a_reload(board: Watched, shop: Running):
    alerts = shop.service.engine.alerts
    page = board.open("/alerts")
    shop.call(alerts.put_rule("letters", {"when": "dead-letters", "above": 0}))
    row = page.locator("#alert-rules tbody tr").filter(has_text="letters")
    expect(row).to_have_count(1, timeout=30_000)
    shop.call(look_at_alerts(shop.service.engine))
    expect(row).to_contain_text("billing", timeout=30_000)
    board.check()
    shop.call(alerts.remove_rule("letters"))


def test_a_target_is_tested_from_its_row(board: Watched, shop: Running):
    chat = {"how": "chat", "url": "http://127.0.0.1:1/"}
    shop.call(shop.service.engine.alerts.put_target("chat", chat))
    page = board.open("/alerts")
    page.get_by_role("button", name="Tell chat that this is a test").click()
    expect(page.locator("h1")).to_contain_text("andon.alert.chat")
    expect(page.locator("main")).to_contain_text("could not be asked")
    board.check()


def test_the_cord_is_pulled_by_keyboard_alone(board: Watched, shop: Running):
    page = board.open("/")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.locator("#queue-mail a").first.focus()
    for _ in range(10):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.value") == "mail":
            break
    page.keyboard.press("Enter")
    expect(page.locator(".said")).to_contain_text("Queue mail paused")
    expect(page.get_by_role("button", name="Resume mail")).to_be_visible()
    page.get_by_role("button", name="Resume mail").press("Enter")
    expect(page.locator(".said")).to_contain_text("Queue mail goes on")
    assert not any(q.paused for q in shop.call(shop.service.engine.queues()))


def test_keys_move_along_rows_choose_and_open(board: Watched):
    page = board.open("/tasks?name=shop.remind&state=completed")
    page.keyboard.press("j")
    page.keyboard.press("j")
    second = page.locator("tbody tr").nth(1)
    expect(second.locator("a").first).to_be_focused()
    page.keyboard.press("x")
    expect(second.get_by_role("checkbox")).to_be_checked()
    expect(page.locator("[data-chosen]")).to_have_text("1 chosen")
    page.keyboard.press("k")
    first = page.locator("tbody tr").first.locator("a").first
    expect(first).to_be_focused()
    task_id = first.inner_text()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text(task_id)
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.type("order-3")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("order-3")


def test_what_is_chosen_and_focused_stays_when_the_list_is_drawn_anew(
    board: Watched, shop: Running
):
    page = board.open("/tasks?queue=drawn&order=oldest")
    for number in (1, 2):
        task = Submission(id=f"drawn-{number}", name="shop.remind", queue="drawn", delay=3600)
        shop.call(shop.service.engine.submit([task]))
        expect(page.locator("#tasks tbody tr")).to_have_count(number)
        if number == 1:
            page.keyboard.press("j")
            page.keyboard.press("x")
    expect(page.locator("tbody tr").first.get_by_role("checkbox")).to_be_checked()
    expect(page.locator("tbody tr").first.locator("a").first).to_be_focused()


SEEN = """text => new Promise(done => {
  const stream = new EventSource(document.body.dataset.live);
  stream.addEventListener("fragment", event => event.data.includes(text) && done());
})"""


def test_a_click_counts_though_the_list_changes_under_it(board: Watched, shop: Running):
    page = board.open("/tasks?queue=pressed&order=oldest")
    for number in (1, 2):
        task = Submission(id=f"pressed-{number}", name="shop.remind", queue="pressed", delay=3600)
        shop.call(shop.service.engine.submit([task]))
        if number == 1:
            expect(page.locator("#tasks tbody tr")).to_have_count(1)
            page.locator("#tasks tbody tr a").first.hover()
            page.mouse.down()
    page.evaluate(SEEN, "pressed-2")
    expect(page.locator("#tasks tbody tr")).to_have_count(1)
    page.mouse.up()
    expect(page.locator("h1")).to_contain_text("shop.remind")
    page.go_back()
    expect(page.locator("#tasks tbody tr")).to_have_count(2)


def test_a_failed_task_is_found_read_and_rerun_within_five_clicks(board: Watched):
    page = board.open("/")
    assert find_and_rerun(page, "shop.charge", "refused the connection") <= 5


def test_a_log_grows_while_it_is_looked_at(board: Watched, shop: Running):
    task = Submission(
        id="live-log", name="shop.report", queue="mail", args=b'["today"]', delay=3600
    )
    shop.call(shop.service.engine.submit([task]))
    page = board.open("/tasks/live-log")
    expect(page.locator("#log")).to_contain_text("Nothing is logged yet")
    page.get_by_role("button", name="Run now").click()
    expect(page.locator("#log")).to_contain_text("page 3 of today")
    expect(page.locator("#task-head")).to_contain_text("completed")


def test_all_that_match_are_cancelled_after_a_question(board: Watched, shop: Running):
    some = [
        Submission(id=f"many-{n}", name="shop.remind", queue="many", delay=3600) for n in range(7)
    ]
    shop.call(shop.service.engine.submit(some))
    page = board.open("/tasks?queue=many&state=scheduled")
    page.get_by_role("button", name="Cancel all that match").click()
    expect(page.locator("h1")).to_have_text("Cancel 7 tasks?")
    page.get_by_role("button", name="Cancel 7 tasks").click()
    expect(page.locator("#doing h1")).to_have_text("Cancel: ✓ done")
    tasks = shop.call(shop.service.engine.get([one.id for one in some]))
    assert {task.state for task in tasks} == {"cancelled"}


def test_hostile_texts_change_nothing_and_break_no_layout(board: Watched, pictures: Path | None):
    for path in ("/tasks/hostile-1", "/tasks?queue=hostile", "/dead-letters", "/tasks?tag=<b>"):
        page = board.open(path)
        board.page.on("dialog", lambda dialog: board.errors.append(dialog.message))
        assert page.locator("main script, main img, main i").count() == 0
        assert overflow(page) <= 0
        shown = page.locator("body").inner_text()
        assert not set("\x1b\x07\u202e\u2066\0") & set(shown)
        board.check()
    page = board.open("/tasks/hostile-1")
    expect(page.locator("#task-error")).to_contain_text("<script>alert(1)</script>")
    expect(page.locator("#log")).to_contain_text("<img src=x onerror=alert(2)>")
    assert page.locator(".chip").count() < 100


def test_it_is_read_and_used_without_script(browser: Browser, shop: Running):
    with looking(browser, shop.url, java_script_enabled=False) as board:
        page = board.page
        page.goto(f"{shop.url}/")
        expect(page.locator("#stations")).to_contain_text("pending")
        page.get_by_role("button", name="Pause reports").click()
        expect(page.locator(".said")).to_contain_text("Queue reports paused")
        page.get_by_role("button", name="Resume reports").click()
        expect(page.locator(".said")).to_contain_text("Queue reports goes on")


def test_times_are_in_the_zone_of_who_looks(board: Watched):
    page = board.open("/tasks/order-1")
    utc = page.locator("#moves time").first.get_attribute("datetime") or ""
    hour = (int(utc[11:13]) + 1) % 24  # Berlin in November
    expect(page.locator("#moves time").first).to_contain_text(f"{hour:02}:{utc[14:16]}")


def test_script_and_style_are_small(shop: Running):
    files = assets()
    zipped = sum(len(gzip.compress(files[name].body)) for name in ("board.css", "board.js"))
    assert zipped < 20_000


def test_what_is_written_changes_a_task_by_keyboard_alone(board: Watched, shop: Running):
    task = Submission(id="change-1", name="shop.remind", queue="mail", args=b'["ann"]', delay=7200)
    shop.call(shop.service.engine.submit([task]))
    page = board.open("/tasks/change-1")
    page.get_by_label("starts").fill("+3h")
    page.keyboard.press("Enter")
    expect(page.locator(".said")).to_contain_text("has another start")
    expect(page.locator("h1")).to_contain_text("change-1")
    page.get_by_text("Edit the arguments").press("Enter")
    expect_no_faults(page, "a task with its forms open")
    page.get_by_label("arguments, as JSON").fill('["bob"]')
    page.get_by_role("button", name="Cancel it, and submit one").press("Enter")
    expect(page.locator(".said")).to_contain_text("in place of change-1")
    expect(page.locator("#arguments")).to_contain_text("bob")
    page.get_by_role("link", name="change-1").click()
    expect(page.locator("#task-head")).to_contain_text("cancelled")
    assert overflow(page) <= 0


def test_limits_of_a_queue_are_changed_without_script(browser: Browser, shop: Running):
    with looking(browser, shop.url, java_script_enabled=False) as board:
        page = board.page
        page.goto(f"{shop.url}/queues/reports")
        page.get_by_label("most pending tasks").fill("5000")
        page.get_by_role("button", name="Change", exact=True).click()
        expect(page.locator(".said")).to_contain_text("has other settings: max_size")
        expect(page.get_by_label("most pending tasks")).to_have_value("5000")
        assert overflow(page) <= 0
