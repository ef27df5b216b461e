"""Who may look, and who may do what: tokens, cookies, forms of other sites, foreign names."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from service.kit import Running, eventually, serving

from andon.engine.actor import acting_as
from andon.engine.base import Submission
from andon.service.trust.registry import Registry

from .dom import parsed
from .kit import Site, make_app

ACTS = {
    "/acts/pause": {"queue": "mail"},
    "/acts/resume": {"queue": "mail"},
    "/acts/task/cancel": {"task": "t1"},
    "/acts/task/run-now": {"task": "t1"},
    "/acts/task/rerun": {"task": "t1"},
    "/acts/task/archive": {"task": "t1"},
    "/acts/task/delete": {"task": "t1"},
    "/acts/task/cancel-by-force": {"task": "t1"},
    "/acts/task/edit": {"task": "t1", "arguments": "[1]", "successor": "t2"},
    "/acts/task/reschedule": {"task": "t1", "run-at": "+1m"},
    "/acts/task/reprioritise": {"task": "t1", "priority": "3"},
    "/acts/queue/configure": {"queue": "mail", "max_size": "3", "was-max_size": ""},
    "/acts/flow/cancel": {"flow": "f"},
    "/acts/flow/rerun-failed": {"flow": "f"},
    "/acts/token/create": {"name": "n", "scopes": "tasks:read:*"},
    "/acts/token/revoke": {"token": "none"},
    "/acts/schedule/pause": {"schedule": "t1"},
    "/acts/schedule/resume": {"schedule": "t1"},
    "/acts/schedule/run": {"schedule": "t1"},
    "/acts/schedule/preview": {"schedule": "s", "task": "a", "every": "1h", "is-new": "yes"},
    "/acts/schedule/add": {"schedule": "s", "task": "a", "every": "1h", "queue": "mail"},
    "/acts/schedule/edit": {"schedule": "t1", "every": "1h"},
    "/acts/alerts/rule": {"name": "r", "when": "new-error", "is-new": "yes"},
    "/acts/alerts/remove-rule": {"name": "r"},
    "/acts/alerts/target": {"name": "t", "how": "chat", "url": "http://127.0.0.1:1/"},
    "/acts/alerts/remove-target": {"target": "t"},
    "/acts/alerts/test": {"target": "t"},
    "/bulk/chosen": {"do": "cancel", "chosen": "t1"},
    "/bulk/matching": {"do": "cancel", "queue": "mail"},
    "/bulk/letters": {"do": "delete", "queue": "mail"},
    "/bulk/do": {"do": "cancel", "queue": "mail"},
}
ASKS_ONLY = {"/bulk/chosen"}
"""Does nothing but ask, which each task's queue decides about afterwards."""

PAGES = (
    "/",
    "/tasks",
    "/tasks?queue=mail",
    "/tasks/t1",
    "/dead-letters",
    "/dead-letters/list",
    "/queues",
    "/queues/mail",
    "/types",
    "/types/shop.charge",
    "/workers",
    "/schedules",
    "/schedules/~new",
    "/flows",
    "/alerts",
    "/alerts/rule",
    "/alerts/target",
    "/tokens",
    "/audit",
    "/doctor",
)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Running]:
    """A service that asks for tokens, with one task."""
    app = make_app(f"sqlite:///{tmp_path}/tasks.db")

    async def first_token() -> None:
        engine = await app.connections.engine()
        await Registry(engine.store).create("first", ["*"])  # type: ignore[attr-defined]
        await app.close()

    asyncio.run(first_token())
    with serving(app, require_token=True) as running:
        task = Submission(id="t1", name="shop.remind", queue="mail", delay=3600)
        running.call(running.service.engine.submit([task]))
        yield running


def token(running: Running, *scopes: str) -> str:
    text, _ = running.call(running.service.access.registry.create("someone", list(scopes)))
    return text


def entered(running: Running, *scopes: str) -> Site:
    """Somebody who came in with a token of these scopes."""
    site = Site(running)
    door = site.get("/", 401)
    hidden = {one["name"]: one["value"] for one in door.every("input", type="hidden")}
    site.send("/enter", hidden | {"token": token(running, *scopes)}, EITHER)
    return site


EITHER = 0


def _status(site: Site, path: str) -> int:
    return site.http.get(path).status_code


def test_without_a_token_there_is_only_the_door(guarded: Running):
    site = Site(guarded)
    for page in PAGES:
        door = site.get(page, 401)
        assert door.one("input", type="password")
        assert not door.has("nav")
    assert site.http.get("/live?topic=andon").status_code == 401
    site.close()


def test_the_token_becomes_a_cookie_that_no_script_and_no_other_site_has(guarded: Running):
    site = Site(guarded)
    door = site.get("/", 401)
    hidden = {one["name"]: one["value"] for one in door.every("input", type="hidden")}
    site.http.follow_redirects = False
    answer = site.http.post(
        "/enter",
        data=hidden | {"token": token(guarded, "*")},
        headers={"origin": guarded.url},
    )
    assert answer.status_code == 303
    [cookie] = [c for c in answer.headers.get_list("set-cookie") if c.startswith("andon_token=")]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    site.close()


def test_a_wrong_token_is_told_at_the_door(guarded: Running):
    site = Site(guarded)
    door = site.get("/", 401)
    hidden = {one["name"]: one["value"] for one in door.every("input", type="hidden")}
    page = site.send("/enter", hidden | {"token": "andon_00000000_" + "x" * 43}, 401)
    assert "not known here" in page.one(role="alert").text
    site.close()


def test_a_token_that_was_revoked_opens_nothing_any_more(guarded: Running):
    site = entered(guarded, "*")
    assert _status(site, "/") == 200
    for one in guarded.call(guarded.service.access.registry.tokens()):
        if one.name == "someone":
            guarded.call(guarded.service.access.registry.revoke(one.id))
    assert eventually(lambda: _status(site, "/") in (401, 403))
    site.close()


def test_what_a_token_may_not_see_is_neither_in_the_navigation_nor_there(guarded: Running):
    site = entered(guarded, "tasks:read:mail")
    page = site.get("/tasks?queue=mail")
    names = {link.text for link in page.one("nav", aria_label="Pages").every("a")}
    assert names == {"Tasks", "Dead letters", "Schedules", "Flows"}
    for path in (
        "/",
        "/queues/mail",
        "/types",
        "/types/shop.charge",
        "/workers",
        "/alerts",
        "/tokens",
        "/audit",
        "/doctor",
        "/tasks",
    ):
        assert _status(site, path) == 403, path
    assert site.http.get("/live?topic=andon").status_code == 404
    assert site.get("/tasks/t1").one("h1").text == "shop.remind t1"
    assert not list(page.every("button", form="act"))
    site.close()


def test_a_task_of_another_queue_is_not_shown(guarded: Running):
    task = Submission(id="t2", name="shop.charge", queue="billing", args=b'{"order": 77123}')
    guarded.call(guarded.service.engine.submit([task]))
    site = entered(guarded, "tasks:read:mail")
    page = site.get("/tasks/t2", 403)
    assert "77123" not in page.text
    site.close()


def test_a_schedule_submits_nothing_that_its_maker_may_not(guarded: Running):
    path = "/acts/schedule/add"
    fields = {"schedule": "s", "task": "shop.remind", "every": "1h", "catch_up": "latest"}
    fields |= {"overlap": "allow"}
    reads = ("tasks:read:*", "tasks:create:mail", "tasks:change:mail")
    site = entered(guarded, *reads)
    for changes in ({"queue": "billing"}, {"task": "shop.charge"}):
        site.post(path, fields | changes, 403, at="/schedules/~new")
    site.post(path, fields, at="/schedules/~new")
    [made] = guarded.call(guarded.service.engine.schedules.live())
    assert (made.id, made.definition.queue) == ("s", "mail")
    form = {"schedule": "s", "overlap": "allow", "catch_up": "latest", "every": "1h"}
    form |= {"task": "shop.remind", "queue": "billing", "was-queue": "mail"}
    site.post("/acts/schedule/edit", form, 403, at="/schedules/s")
    other = entered(guarded, "tasks:read:billing", "tasks:create:billing", "tasks:change:billing")
    other.get("/schedules/s/edit", 404)
    other.post("/acts/schedule/edit", form, 404, at="/tasks?queue=billing")
    reader = entered(guarded, "tasks:read:mail", "tasks:create:billing")
    assert not reader.get("/schedules/s").has("a", href="/schedules/s/edit")
    reader.get("/schedules/s/edit", 403)
    assert guarded.call(guarded.service.engine.schedules.live()) == [made]
    for one in (site, other, reader):
        one.close()


def test_who_may_only_read_can_do_nothing(guarded: Running):
    reads = ("tasks:read:*", "queues:read:*", "workers:read", "admin:storage", "admin:audit")
    site = entered(guarded, *reads)
    before = _everything(guarded)
    for page in ("/", "/tasks", "/tasks/t1", "/schedules", "/queues/mail"):
        shown = site.get(page)
        assert not list(shown.every("button", form="act")), page
        assert not shown.has(class_="filters change"), page
    hidden = _hidden(site)
    for path in set(ACTS) - ASKS_ONLY:
        answer = site.http.post(
            path, data={**hidden, **ACTS[path]}, headers={"origin": guarded.url}
        )
        assert answer.status_code in (403, 404), (path, answer.text)
    assert _everything(guarded) == before
    site.close()


@pytest.mark.parametrize(
    ("headers", "spoils"),
    [
        ({"origin": "http://evil.example"}, False),
        ({"sec-fetch-site": "cross-site", "origin": "{url}"}, False),
        ({"sec-fetch-site": "same-site"}, False),
        ({}, False),
        ({"origin": "{url}"}, True),
    ],
)
def test_a_form_of_another_site_does_nothing(
    service: Running, headers: dict[str, str], spoils: bool
):
    task = Submission(id="t1", name="shop.remind", queue="mail", delay=3600)
    service.call(service.service.engine.submit([task]))
    site = Site(service)
    hidden = _hidden(site)
    if spoils:
        hidden["form-token"] = "0" * 64
    before = _everything(service)
    sent = {name: value.format(url=service.url) for name, value in headers.items()}
    for path, fields in ACTS.items():
        answer = site.http.post(path, data={**hidden, **fields}, headers=sent)
        assert answer.status_code == 403, path
    assert _everything(service) == before
    site.close()


def test_a_foreign_name_that_points_here_is_refused(service: Running):
    site = Site(service)
    for path in ("/", "/tasks", "/live?topic=andon"):
        answer = site.http.get(path, headers={"host": "evil.example"})
        assert answer.status_code == 403, path
    site.close()


def test_after_an_act_nobody_is_sent_to_another_site(service: Running):
    task = Submission(id="t1", name="shop.remind", queue="mail")
    service.call(service.service.engine.submit([task]))
    site = Site(service)
    site.http.follow_redirects = False
    for back in ("//evil.example/", "https://evil.example/", "/\\evil.example", "javascript:x"):
        fields = {**_hidden(site), "queue": "mail", "back": back}
        answer = site.http.post("/acts/pause", data=fields, headers={"origin": service.url})
        assert answer.headers["location"] == "/", back
    site.close()


def test_a_token_made_here_allows_no_more_than_its_makers(guarded: Running):
    site = entered(guarded, "admin:tokens", "tasks:read:mail")
    at = "/tokens"
    site.post("/acts/token/create", {"name": "n", "scopes": "tasks:read:*"}, 403, at=at)
    page = site.post("/acts/token/create", {"name": "n", "scopes": "tasks:read:mail"}, at=at)
    made = page.one("pre").text
    assert made.startswith("andon_")
    assert made not in site.get("/tokens").text
    site.close()


def test_who_leaves_has_to_come_in_again(guarded: Running):
    site = entered(guarded, "*")
    assert _status(site, "/tasks") == 200
    site.send("/leave", _hidden(site), 401)
    assert _status(site, "/tasks") == 401
    site.close()


def test_tokens_are_no_good_for_the_api_as_cookies(guarded: Running):
    site = entered(guarded, "*")
    assert site.http.get("/api/v1/tasks").status_code == 401
    site.close()


def test_a_board_that_is_not_wanted_is_not_there(tmp_path: Path):
    app = make_app(f"sqlite:///{tmp_path}/tasks.db")
    with serving(app, board=False) as running, running.client() as http:
        assert http.get("/").status_code == 404
        assert http.get("/tasks").status_code == 404


def _hidden(site: Site) -> dict[str, str]:
    page = next(
        p
        for p in (site.http.get(one) for one in ("/", "/tasks", "/tasks?queue=mail"))
        if p.is_success
    )

    form = parsed(page.text).one("form", id="act")
    return {one["name"]: one["value"] for one in form.every("input", type="hidden")}


def _everything(running: Running) -> Any:
    engine = running.service.engine
    [task] = running.call(engine.get(["t1"]))
    tokens = running.call(running.service.access.registry.tokens())
    return task.status, running.call(engine.queues()), [t.state(0) for t in tokens]


def test_the_newest_acts_are_shown_and_all_that_are_kept_on_demand(site: Site, service: Running):
    async def act() -> None:
        with acting_as("ann"):
            for number in range(101):
                await service.service.engine.configure_queue("mail", {"max_size": number + 1})

    service.call(act())
    page = site.get("/audit?actor=ann")
    assert len(list(page.one(id="audit").one("tbody").every("tr"))) == 100
    [every] = [a for a in page.one("main").every("a") if a.text == "All 101 that are kept"]
    page = site.get(every["href"])
    assert len(list(page.one(id="audit").one("tbody").every("tr"))) == 101
    assert "that are kept" not in page.one("main").text
