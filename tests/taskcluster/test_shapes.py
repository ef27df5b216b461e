"""The shapes that all answers of these tests are held against: each route and each exchange has
one, and none of them takes what it should not."""

import copy
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import jsonschema_rs
import pytest
from tests.taskcluster import shapes

from andon.service.taskcluster.face import TABLE
from andon.service.taskcluster.messages.exchanges import Exchange

from .kit import HOUR, Queue, at, own_queue
from .shaped import check_answer

BODILESS = {"finishArtifact"}


def test_every_route_and_every_exchange_has_a_shape():
    assert set(shapes.ANSWERS) == {route.name for route in TABLE.routes} - BODILESS
    assert set(shapes.MESSAGES) == {exchange.value for exchange in Exchange}


def objects(schema: Any) -> Iterator[shapes.Schema]:
    """Every schema of an object in a schema."""
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema
        for inner in schema.values():
            yield from objects(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from objects(inner)


FREE = {"payload", "extra"}
"""What is the sender's own."""


@pytest.mark.parametrize("name", sorted({**shapes.ANSWERS, **shapes.MESSAGES}))
def test_every_object_in_a_shape_is_closed(name: str):
    schema = {**shapes.ANSWERS, **shapes.MESSAGES}[name]
    for one in objects(schema):
        assert "additionalProperties" in one or one is shapes.ANY_OBJECT
        free = {key for key, of in one.get("properties", {}).items() if of is shapes.ANY_OBJECT}
        assert free <= FREE


def wrongly(document: Any) -> Iterator[Any]:
    """The document with each one thing in it wrong: a property more or less, a time or a list that
    is none, at every depth."""
    if isinstance(document, dict):
        yield {**document, "colour": "red"}
        for key, value in document.items():
            if key in FREE or key == "tags":
                continue
            yield {**document, key: [] if isinstance(value, str) else "tomorrow"}
            for other in wrongly(value):
                yield {**document, key: other}
    elif isinstance(document, list):
        for place, value in enumerate(document):
            for other in wrongly(value):
                yield [*document[:place], other, *document[place + 1 :]]


def test_an_answer_with_anything_wrong_in_it_does_not_pass(queue: Queue):
    of_its_own = own_queue()
    task_id = queue.create(taskQueueId=of_its_own, tags={"a": "b"}, scopes=["x:y z"])
    answers = {"task": queue.answer("GET", f"/task/{task_id}")}
    answers["claimWork"] = {"tasks": queue.claim(queue=of_its_own)}
    answers["listTaskGroup"] = queue.answer("GET", f"/task-group/{task_id}/list")
    for name, answer in answers.items():
        validator = shapes.answer_validator(name)
        validator.validate(answer)
        changed = list(wrongly(answer))
        assert len(changed) > 20
        for other in changed:
            with pytest.raises(jsonschema_rs.ValidationError):
                validator.validate(other)
        for missing in answer:
            fewer = copy.copy(answer)
            del fewer[missing]
            with pytest.raises(jsonschema_rs.ValidationError):
                validator.validate(fewer)


def test_an_answer_that_a_client_gets_is_held_against_its_shape():
    request = httpx.Request("GET", "http://127.0.0.1/api/queue/v1/ping")
    check_answer(httpx.Response(200, json={"alive": True, "uptime": 1.5}, request=request))
    for status, document in ((200, {"alive": True}), (404, {"code": "ResourceNotFound"})):
        with pytest.raises(jsonschema_rs.ValidationError):
            check_answer(httpx.Response(status, json=document, request=request))


def test_a_task_has_its_shape_in_every_state_that_it_can_be_in(queue: Queue):
    """Each answer is held against its shape as it comes; here the task only has to get there."""
    of_its_own = own_queue()

    def claimed(**fields: Any) -> str:
        task_id = queue.create(taskQueueId=of_its_own, **fields)
        [claim] = queue.claim(queue=of_its_own)
        assert claim["status"]["taskId"] == task_id
        return task_id

    group = queue.create()
    states = {queue.state(group)}
    waiting = queue.create(taskGroupId=group, dependencies=[group])
    states.add(queue.state(waiting))
    states.add(queue.act(waiting, "cancel")["state"])
    states.add(queue.act(waiting, "rerun")["state"])
    states.add(queue.state(claimed(expires=at(timedelta(days=400)), extra={"deep": [{}]})))
    for how, body in (
        ("completed", None),
        ("failed", None),
        *(
            ("exception", {"reason": reason})
            for reason in (
                "worker-shutdown",
                "malformed-payload",
                "resource-unavailable",
                "internal-error",
                "intermittent-task",
            )
        ),
    ):
        task_id = claimed(retries=0, taskGroupId=group, deadline=at(2 * HOUR))
        assert queue.report(task_id, 0, how, body).status_code == 200
        states.add(queue.state(task_id))
    assert states == {"unscheduled", "pending", "running", "completed", "failed", "exception"}
    page = queue.answer("GET", f"/task-group/{group}/list", params={"limit": "2"})
    assert "continuationToken" in page
