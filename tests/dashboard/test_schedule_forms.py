"""Schedules added and edited on the board, without script: what is written is previewed, saved, or
comes back with what is wrong with it."""

from collections.abc import Iterator

import msgspec
import pytest
from servers.redis import RedisServer
from service.kit import Running, serving

from andon.engine.base import Submission
from andon.engine.schedule_views import changed, schedule_of
from andon.model.recurrence import Recurrence
from andon.model.task import Schedule

from .dom import Element
from .kit import Site, make_app
from .scene import HOSTILE

NEW = "/schedules/~new"
ADD, EDIT, PREVIEW = (f"/acts/schedule/{act}" for act in ("add", "edit", "preview"))
NIGHTLY = {"schedule": "nightly", "task": "shop.remind", "cron": "30 2 * * *", "args": '["ann"]'}


def form_of(page: Element) -> dict[str, str]:
    """What the form would send as it stands."""
    form = page.one("form", action=PREVIEW)
    assert form.attributes["method"] == "post"
    fields = {one["name"]: one.attributes.get("value", "") for one in form.every("input")}
    fields |= {one["name"]: one.raw for one in form.every("textarea")}
    for select in form.every("select"):
        [chosen] = [one for one in select.every("option") if "selected" in one.attributes]
        fields[select["name"]] = chosen["value"]
    return fields


def add(site: Site, **changes: str) -> Element:
    fields = form_of(site.get(NEW)) | NIGHTLY | changes
    return site.send(ADD, fields)


def of(service: Running, name: str = "nightly") -> Schedule:
    [task] = service.call(service.service.engine.get([name]))
    return schedule_of(task, name)


def edited_elsewhere(service: Running, **times: object) -> None:
    """What a colleague does with the command line."""
    engine = service.service.engine
    [task] = service.call(engine.get(["nightly"]))
    [outcome] = service.call(engine.schedules.put([changed(task, times)], "edit"))
    assert outcome.error is None


def test_a_schedule_is_made_with_all_that_its_form_says(site: Site, service: Running):
    page = add(
        site, queue="mail", tz="Europe/Berlin", jitter="1m30s", overlap="skip", catch_up="none",
        pause_after="3", exclude="2030-12-25\r\n2030-12-26",
    )  # fmt: skip
    assert "Schedule nightly is made" in page.one(class_="said").text
    assert page.one("h1").text == "nightly"
    made = of(service)
    assert made.recurrence == Recurrence(
        cron=("30 2 * * *",),
        tz="Europe/Berlin",
        jitter=90.0,
        catch_up="none",
        exclude=("2030-12-25", "2030-12-26"),
    )
    assert (made.template.name, made.template.queue) == ("shop.remind", "mail")
    assert (made.template.args, made.overlap, made.pause_after) == (b'["ann"]', "skip", 3)
    acts = service.call(service.service.engine.acts())
    assert ("add-schedule", "anyone on this machine") in [(one.act, one.actor) for one in acts]


def test_an_interval_and_several_expressions_are_read(site: Site, service: Running):
    add(site, schedule="often", cron="", every="1h30m", args="")
    assert of(service, "often").recurrence == Recurrence(every=5_400)
    assert of(service, "often").template.args == b"{}"
    add(site, schedule="twice", cron="0 2 * * *\r\n\r\n@hourly\r\n")
    assert of(service, "twice").recurrence.cron == ("0 2 * * *", "@hourly")


def test_without_a_queue_its_tasks_go_to_that_of_their_type(site: Site, service: Running):
    add(site)
    assert of(service).template.queue == "mail"


def test_a_type_that_no_worker_has_published_is_said(site: Site):
    said = add(site, task="nobody.knows").one(class_="said").text
    assert "No worker has published a task type 'nobody.knows'" in said


def test_a_preview_shows_what_daylight_saving_does_and_saves_nothing(site: Site, service: Running):
    fields = form_of(site.get(NEW)) | NIGHTLY
    # the hour that clocks leap over, on the one night of the year that has it
    fields |= {"cron": "30 2 25-31 3 0", "tz": "Europe/Berlin"}
    page = site.send(PREVIEW, fields)
    shown = page.one(id="preview")
    assert len(list(shown.one("tbody").every("tr"))) == 10
    assert "02:30" in shown.text
    assert "clocks" in shown.text
    assert {name: form_of(page)[name] for name in fields} == fields
    assert service.call(service.service.engine.schedules.live()) == []


def test_what_was_previewed_can_be_saved_from_there(site: Site, service: Running):
    previewed = site.send(PREVIEW, form_of(site.get(NEW)) | NIGHTLY)
    site.send(ADD, form_of(previewed))
    assert of(service).recurrence.cron == ("30 2 * * *",)
    form = site.get("/schedules/nightly/edit")
    previewed = site.send(PREVIEW, form_of(form) | {"cron": "0 3 * * *"})
    assert "03:00" in previewed.one(id="preview").text
    assert of(service).recurrence.cron == ("30 2 * * *",)
    site.send(EDIT, form_of(previewed))
    assert of(service).recurrence.cron == ("0 3 * * *",)


@pytest.mark.parametrize("path", [ADD, PREVIEW])
@pytest.mark.parametrize(
    ("field", "text", "said"),
    [
        ("schedule", "no/slash", "is not 1 to 47 of"),
        ("schedule", "", "is not 1 to 47 of"),
        ("task", "", "Name the task"),
        ("args", "{'a': 1}", "not JSON"),
        ("args", "17", "JSON object"),
        ("cron", "61 * * * *", "61"),
        ("cron", "0 0 31 2 *", "never"),
        ("cron", "", "neither"),
        ("every", "soon", "is no duration"),
        ("tz", "Mars/Base", "Mars/Base"),
        ("exclude", "christmas", "christmas"),
        ("jitter", "-1s", "negative"),
        ("jitter", "400d", "jitter is 0 to"),
        ("pause_after", "often", "is no number"),
    ],
)
def test_what_cannot_be_says_where_and_keeps_what_was_written(
    site: Site, service: Running, *, path: str, field: str, text: str, said: str
):
    fields = form_of(site.get(NEW)) | NIGHTLY | {field: text}
    page = site.send(path, fields)
    assert said in page.one(role="alert").text
    [marked] = [one["name"] for one in page.every() if "aria-invalid" in one.attributes]
    assert marked == field
    assert form_of(page) | {"form-token": ""} == fields | {"form-token": ""}
    assert service.call(service.service.engine.schedules.live()) == []


@pytest.mark.parametrize(
    ("field", "text"),
    [("overlap", "explode"), ("catch_up", "maybe"), ("pause_after", "0"), ("every", "5m")],
)
def test_what_only_the_store_refuses_comes_back_too(
    site: Site, service: Running, field: str, text: str
):
    page = add(site, **{field: text})
    assert "Nothing was changed" in page.one(role="alert").text
    assert service.call(service.service.engine.schedules.live()) == []


def test_a_name_that_is_taken_is_refused_and_changes_nothing(site: Site, service: Running):
    add(site)
    page = add(site, cron="@hourly")
    assert "There is a schedule 'nightly' already" in page.one(role="alert").text
    assert of(service).recurrence.cron == ("30 2 * * *",)


def test_only_what_was_written_anew_is_changed(site: Site, service: Running):
    add(site, jitter="0.123456s", tz="Europe/Berlin")
    before = of(service)
    site.send(EDIT, form_of(site.get("/schedules/nightly/edit")) | {"cron": "0 4 * * *"})
    after = of(service)
    assert after.recurrence == msgspec.structs.replace(before.recurrence, cron=("0 4 * * *",))
    assert (after.template, after.overlap) == (before.template, before.overlap)
    page = site.send(EDIT, form_of(site.get("/schedules/nightly/edit")))
    assert "nothing to do" in page.one(class_="said").text


def test_an_interval_takes_the_place_of_expressions_that_were_removed(site: Site, service: Running):
    add(site)
    form = form_of(site.get("/schedules/nightly/edit"))
    both = site.send(EDIT, form | {"every": "10m"})
    assert "not both" in both.one(role="alert").text
    site.send(EDIT, form | {"every": "10m", "cron": ""})
    assert of(service).recurrence == Recurrence(every=600)


def test_an_edit_is_refused_where_somebody_else_changed_the_same(site: Site, service: Running):
    add(site)
    form = form_of(site.get("/schedules/nightly/edit")) | {"cron": "0 5 * * *"}
    edited_elsewhere(service, cron=("0 6 * * *",))
    for _ in range(2):  # sending it again does not help
        page = site.send(EDIT, form)
        alert = page.one(role="alert")
        assert "Somebody else has changed its times meanwhile" in alert.text
        assert alert.one("a")["href"] == "/schedules/nightly"
        form = form_of(page)
        assert form["cron"] == "0 5 * * *"
    assert of(service).recurrence.cron == ("0 6 * * *",)


def test_an_edit_of_something_else_leaves_what_somebody_else_changed(site: Site, service: Running):
    add(site)
    form = form_of(site.get("/schedules/nightly/edit")) | {"overlap": "replace", "pause_after": "2"}
    edited_elsewhere(service, cron=("0 6 * * *",))
    site.send(EDIT, form)
    after = of(service)
    assert (after.recurrence.cron, after.overlap, after.pause_after) == (
        ("0 6 * * *",),
        "replace",
        2,
    )


def test_a_form_without_its_digests_changes_nothing(site: Site, service: Running):
    add(site)
    form = form_of(site.get("/schedules/nightly/edit")) | {"cron": "0 5 * * *"}
    bare = {name: value for name, value in form.items() if not name.startswith("part-")}
    assert "Somebody else" in site.send(EDIT, bare).one(role="alert").text
    assert of(service).recurrence.cron == ("30 2 * * *",)


def test_hidden_arguments_stay_unless_they_are_written_anew(site: Site, service: Running):
    add(site, task="shop.charge", args='{"order": 1, "card_token": "tok-4242"}')
    page = site.get("/schedules/nightly/edit")
    assert site.last is not None
    assert "tok-4242" not in site.last.text
    form = form_of(page)
    assert form["args"] == ""
    site.send(EDIT, form | {"queue": "slow"})
    kept = of(service).template
    assert (kept.queue, b"tok-4242" in kept.args) == ("slow", True)
    site.send(EDIT, form_of(site.get("/schedules/nightly/edit")) | {"args": '{"order": 2}'})
    assert of(service).template.args == b'{"order": 2}'


def test_hostile_texts_stay_texts(site: Site):
    page = site.send(PREVIEW, form_of(site.get(NEW)) | NIGHTLY | {"task": HOSTILE, "tz": HOSTILE})
    assert page.has(role="alert")
    assert "<script>alert(1)</script><img" in form_of(page)["task"]
    assert not any("src" not in one.attributes for one in page.every("script"))


def test_a_form_of_another_site_or_without_its_token_changes_nothing(site: Site, service: Running):
    fields = form_of(site.get(NEW)) | NIGHTLY
    site.send(ADD, fields | {"form-token": "0" * 64}, 403)
    site.send(ADD, fields, 403, origin="http://evil.example")
    assert service.call(service.service.engine.schedules.live()) == []


def test_what_is_no_schedule_has_no_form(site: Site, service: Running):
    service.call(service.service.engine.submit([Submission(id="t", name="shop.remind")]))
    site.get("/schedules/t/edit", 404)
    site.get("/schedules/nobody/edit", 404)
    add(site)
    form = form_of(site.get("/schedules/nightly/edit")) | {"overlap": "skip"}
    service.call(service.service.engine.schedules.act(["nightly"], "delete"))
    site.send(EDIT, form, 404)


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server.url("forms")
    server.stop()


def test_it_is_the_same_on_redis(redis: str):
    with serving(make_app(redis)) as service:
        site = Site(service)
        add(site, tz="Europe/Berlin")
        form = form_of(site.get("/schedules/nightly/edit"))
        site.send(EDIT, form | {"cron": "0 4 * * *"})
        assert of(service).recurrence == Recurrence(cron=("0 4 * * *",), tz="Europe/Berlin")
        page = site.send(EDIT, form | {"cron": "0 5 * * *"})
        assert "Somebody else has changed its times" in page.one(role="alert").text
        site.send(EDIT, form | {"overlap": "skip"})
        assert (of(service).recurrence.cron, of(service).overlap) == (("0 4 * * *",), "skip")
        site.close()
