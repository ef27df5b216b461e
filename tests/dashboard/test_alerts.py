"""Alerts on the board without script: rules and targets as forms, how they stand, and a test."""

from service.kit import Running, look_at_alerts

from andon.model.alerts import ALERTS_QUEUE

from .kit import Site
from .scene import HOSTILE

SECRET = "the-receiver-knows-it-too"
HOOK = {
    "name": "ops",
    "how": "webhook",
    "url": "https://ops.example/hidden-path",
    "secret": SECRET,
    "is-new": "yes",
}
RULE = {
    "name": "stuck",
    "when": "oldest-age",
    "above": "10m",
    "for": "2m",
    "targets": "ops",
    "is-new": "yes",
}


def with_target(site: Site) -> None:
    site.post("/acts/alerts/target", HOOK, at="/alerts/target")


def test_a_rule_and_its_target_are_made_changed_and_removed(site: Site) -> None:
    page = site.post("/acts/alerts/target", HOOK, at="/alerts/target")
    assert "The target ops is saved" in page.one(class_="said").text
    page = site.post("/acts/alerts/rule", RULE, at="/alerts/rule")
    [row] = list(page.one(id="alert-rules").one("tbody").every("tr"))
    for part in ("stuck", "the oldest task waits for more than 10m, for 2m", "ops"):
        assert part in row.text
    form = site.get("/alerts/rules/stuck")
    values = {
        one["name"]: one["value"]
        for one in form.every("input", type="text")
        if one.attributes.get("value")
    }
    assert values == {"above": "10m", "for": "2m", "targets": "ops"}
    changed = {**RULE, "above": "1h", "is-new": ""}
    page = site.post("/acts/alerts/rule", changed, at="/alerts/rules/stuck")
    assert "more than 1h" in page.one(id="alert-rules").text
    page = site.post("/acts/alerts/remove-target", {"target": "ops"}, at="/alerts/targets/ops")
    assert "told by the rule 'stuck'" in page.one(class_="said").text
    page = site.post("/acts/alerts/remove-rule", {"name": "stuck"}, at="/alerts/rules/stuck")
    assert page.one(id="alert-rules").text.startswith("There is none")
    page = site.post("/acts/alerts/remove-target", {"target": "ops"}, at="/alerts/targets/ops")
    assert "nobody would be told" in page.one(id="alert-targets").text
    site.get("/alerts/rules/stuck", 404)
    site.get("/alerts/targets/ops", 404)


def test_a_form_that_cannot_be_comes_back_with_what_was_written(site: Site) -> None:
    with_target(site)
    page = site.post("/acts/alerts/rule", {**RULE, "above": "soon"}, at="/alerts/rule")
    assert "'soon' is no duration" in page.one(role="alert").text
    written = {one["name"]: one["value"] for one in page.every("input", type="text")}
    assert (written["name"], written["above"], written["targets"]) == ("stuck", "soon", "ops")
    page = site.post("/acts/alerts/target", HOOK, at="/alerts/target")
    assert "There is a target 'ops'" in page.one(role="alert").text


def test_no_page_has_a_secret(site: Site) -> None:
    with_target(site)
    pages = ["/alerts", "/alerts/targets/ops", "/alerts/rule", "/audit"]
    short = {**HOOK, "name": "other", "secret": "short-one"}
    site.post("/acts/alerts/target", short, at="/alerts/target")
    assert site.last is not None
    assert "short-one" not in site.last.text
    for path in pages:
        site.get(path)
        assert SECRET not in site.last.text
        assert "hidden-path" not in site.last.text


def test_what_is_left_empty_of_a_target_stays(site: Site, service: Running) -> None:
    with_target(site)
    moved = {"name": "ops", "how": "webhook", "url": "https://new.example/"}
    site.post("/acts/alerts/target", moved, at="/alerts/targets/ops")
    book = service.call(service.service.engine.alerts.book())
    assert (book.targets["ops"].url, book.targets["ops"].secret) == (moved["url"], SECRET)


def test_what_fires_is_shown_with_what_was_seen(site: Site, service: Running) -> None:
    engine = service.service.engine
    service.call(engine.alerts.put_rule("letters", {"when": "dead-letters", "above": 0}))
    charge = service.service.app.functions["shop.charge", 0]
    with service.working(queues=["billing"]):
        service.call(charge.options(id="bad").submit(order=-7))
        service.call(engine.wait_end("bad", 60))
    service.call(look_at_alerts(engine))
    page = site.get("/alerts")
    row = page.one(id="alert-rules").one("tbody").one("tr")
    assert "firing" in row.text
    assert "billing" in row.text
    assert "1 dead letter" in site.get("/alerts/rules/letters").one(id="alert-subjects").text


def test_a_test_leads_to_its_task(site: Site) -> None:
    with_target(site)
    page = site.post("/acts/alerts/test", {"target": "ops"}, at="/alerts")
    assert site.last is not None
    assert site.last.url.path.startswith("/tasks/alert-")
    assert ALERTS_QUEUE in page.one("main").text
    page = site.post("/acts/alerts/test", {"target": "nobody"}, at="/alerts")
    assert "no alert target" in page.one(class_="said").text


def test_a_page_makes_no_command_and_shows_one_that_is_there(site: Site, service: Running) -> None:
    page = {"name": "page", "how": "command", "argv": "id", "is-new": "yes"}
    site.post("/acts/alerts/target", page, 403, at="/alerts/target")
    command = {"how": "command", "argv": ["/bin/page", "--now"]}
    service.call(service.service.engine.alerts.put_target("page", command))
    shown = site.get("/alerts/targets/page")
    assert "/bin/page" in shown.one("main").text
    assert not shown.has("select")


def test_a_hostile_name_changes_nothing(site: Site) -> None:
    with_target(site)
    page = site.post("/acts/alerts/rule", {**RULE, "name": HOSTILE}, at="/alerts/rule")
    assert page.has(role="alert")
    assert not page.has("img")
    page = site.post("/acts/alerts/rule", {**RULE, "queue": HOSTILE}, at="/alerts/rule")
    assert page.has(role="alert")
    assert not page.has("img")
