"""Forms for what is written: another start, priority or arguments of a task, limits of a queue."""

import msgspec
import pytest
from service.kit import Running

from andon import Andon
from andon.engine.base import Submission
from andon.model.task import Task

from .dom import Element
from .kit import Site


def submit(service: Running, **fields: object) -> None:
    wanted = {"id": "t", "name": "shop.remind", "queue": "mail", "args": b'["ann"]'} | fields
    service.call(service.service.engine.submit([Submission(**wanted)]))  # type: ignore[arg-type]


def task_of(service: Running, task_id: str = "t") -> Task:
    [task] = service.call(service.service.engine.get([task_id]))
    return task


def form_of(page: Element, path: str) -> dict[str, str]:
    """What a form of its own would send as it stands, without script."""
    form = page.one("form", action=path)
    assert form.attributes["method"] == "post"
    fields = {one["name"]: one.attributes.get("value", "") for one in form.every("input")}
    fields |= {one["name"]: one.raw for one in form.every("textarea")}
    return fields


def test_a_waiting_task_gets_another_start(site: Site, service: Running):
    submit(service, delay=3600)
    before = task_of(service).status.run_at
    path = "/acts/task/reschedule"
    fields = form_of(site.get("/tasks/t"), path) | {"run-at": "+2h"}
    page = site.send(path, fields)
    assert "Task t has another start" in page.one(class_="said").text
    assert page.one("h1").text.endswith("t")
    after = task_of(service).status.run_at
    assert before is not None
    assert after is not None
    assert 3_000_000 < after - before < 4_000_000
    assert task_of(service).status.events[-1].actor == "anyone on this machine"


def test_a_task_gets_another_priority(site: Site, service: Running):
    submit(service)
    path = "/acts/task/reprioritise"
    fields = form_of(site.get("/tasks/t"), path)
    assert fields["priority"] == "0"
    site.send(path, fields | {"priority": "highest"})
    assert task_of(service).status.priority == 3
    site.send(path, fields | {"priority": "-4"})
    assert task_of(service).status.priority == -4


def test_edited_arguments_are_a_successors_and_both_name_the_other(site: Site, service: Running):
    submit(service, tags=("vip",))
    path = "/acts/task/edit"
    fields = form_of(site.get("/tasks/t"), path)
    assert msgspec.json.decode(fields["arguments"]) == ["ann"]
    page = site.send(path, fields | {"arguments": '["bob"]'})
    successor = task_of(service).status.successor
    assert successor == fields["successor"]
    assert page.one("h1").text.endswith(successor)
    assert page.one(id="arguments").raw.split() == ["[", '"bob"', "]"]
    assert task_of(service).state == "cancelled"
    after = task_of(service, successor)
    assert (after.definition.predecessor, after.definition.tags) == ("t", ("vip",))
    assert "predecessor" in page.text


def test_a_form_that_is_sent_twice_makes_one_task(site: Site, service: Running):
    submit(service)
    path = "/acts/task/edit"
    fields = form_of(site.get("/tasks/t"), path) | {"arguments": '["bob"]'}
    for _ in range(2):
        assert fields["successor"] in site.send(path, fields).one("h1").text
    [queue] = service.call(service.service.engine.stats())
    assert (queue.counts["pending"], queue.counts["cancelled"]) == (1, 1)


def test_hidden_arguments_are_never_written_back(site: Site, service: Running):
    submit(service, name="shop.charge", args=b'{"order": 1, "card_token": "tok-4242"}')
    page = site.get("/tasks/t")
    assert "tok-4242" not in page.text
    assert form_of(page, "/acts/task/edit")["arguments"] == ""
    assert "write all of them anew" in page.one(id="change").text


@pytest.mark.parametrize(
    ("act", "field", "text", "said"),
    [
        ("reschedule", "run-at", "tomorrow", "is no time"),
        ("reschedule", "run-at", "+forever", "is no duration"),
        ("reschedule", "run-at", "1969-01-01", "before the year 1970"),
        ("reprioritise", "priority", "urgent", "is no priority"),
        ("reprioritise", "priority", "99", "not between -4 and 5"),
        ("edit", "arguments", "{'a': 1}", "not JSON"),
        ("edit", "arguments", "17", "JSON object"),
    ],
)
def test_what_cannot_be_is_said_and_changes_nothing(
    site: Site, service: Running, *, act: str, field: str, text: str, said: str
):
    submit(service, delay=3600)
    before = task_of(service)
    path = f"/acts/task/{act}"
    page = site.send(path, form_of(site.get("/tasks/t"), path) | {field: text})
    assert "⚠" in page.one(class_="said").text
    assert said in page.one(class_="said").text
    assert task_of(service) == before


def test_a_task_has_the_forms_that_its_state_allows(site: Site, service: Running):
    submit(service)
    site.get("/tasks/t").one(id="change")
    service.call(service.service.engine.cancel(["t"]))
    assert not site.get("/tasks/t").has(id="change")
    fields = {"task": "t", "run-at": "now", "back": "/tasks/t"}
    page = site.post("/acts/task/reschedule", fields, at="/tasks/t")
    assert "⚠" in page.one(class_="said").text


def test_limits_of_a_queue_are_changed_and_taken_away(site: Site, service: Running):
    submit(service)
    path = "/acts/queue/configure"

    def config() -> object:
        [found] = service.call(service.service.engine.queues())
        return (found.rate_limit, found.max_concurrent, found.max_size, found.weight)

    fields = form_of(site.get("/queues/mail"), path)
    page = site.send(
        path, fields | {"rate_limit": "300/m", "max_concurrent": "4", "max_size": "1000"}
    )
    assert "Queue mail has other settings" in page.one(class_="said").text
    assert config() == (5.0, 4, 1000, 1)
    fields = form_of(site.get("/queues/mail"), path)
    assert (fields["rate_limit"], fields["max_concurrent"]) == ("5/s", "4")
    site.send(path, fields | {"rate_limit": "", "weight": ""})
    assert config() == (None, 4, 1000, 1)


def test_what_somebody_else_changed_meanwhile_stays(site: Site, service: Running):
    submit(service)
    path = "/acts/queue/configure"
    fields = form_of(site.get("/queues/mail"), path)
    service.call(service.service.engine.configure_queue("mail", {"max_size": 7}))
    site.send(path, fields | {"max_concurrent": "2"})
    [found] = service.call(service.service.engine.queues())
    assert (found.max_size, found.max_concurrent) == (7, 2)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rate_limit", "fast"),
        ("max_concurrent", "many"),
        ("max_concurrent", "-1"),
        ("on_full", "explode"),
        ("weight", "0"),
        ("rate_limit", "nan"),
    ],
)
def test_a_setting_that_cannot_be_is_said_and_changes_nothing(
    site: Site, service: Running, name: str, text: str
):
    submit(service)
    path = "/acts/queue/configure"
    before = service.call(service.service.engine.queues())
    fields = form_of(site.get("/queues/mail"), path) | {name: text, "max_size": "9"}
    page = site.send(path, fields)
    assert "⚠" in page.one(class_="said").text
    assert service.call(service.service.engine.queues()) == before


def test_a_form_without_its_token_changes_nothing(site: Site, service: Running):
    submit(service, delay=3600)
    before = task_of(service)
    path = "/acts/task/reschedule"
    fields = form_of(site.get("/tasks/t"), path) | {"run-at": "now"}
    site.send(path, fields | {"form-token": "0" * 64}, 403)
    site.send(path, fields, 403, origin="http://evil.example")
    assert task_of(service) == before


def test_a_queue_that_is_not_there_is_not_made(site: Site, app: Andon, service: Running):
    submit(service)
    site.post("/acts/queue/configure", {"queue": "other", "max_size": "3"}, 404)
    assert [q.name for q in service.call(service.service.engine.queues())] == ["mail"]
