"""Holds every answer that a test's client gets from the face against its shape."""

import json
from typing import Any

import httpx
from tests.taskcluster import shapes

from andon.service.taskcluster.face import TABLE

_BASE = "/api/queue/v1"


def check_message(message: dict[str, Any]) -> None:
    """Hold the body of a message, as a stream or a webhook has it, against its shape."""
    check_body(message["exchange"], json.dumps(message["payload"]).encode())


def check_body(exchange: str, body: bytes) -> None:
    """The same by the exchange, or by the last part of its name."""
    shapes.message_validator(exchange.rpartition("/")[2]).validate(json.loads(body))


def check_read(answer: httpx.Response) -> None:
    """Hold an answer against its shape, if it is one of the face."""
    if _is_of_the_face(answer):
        answer.read()
        check_answer(answer)


async def check_read_async(answer: httpx.Response) -> None:
    """The same for a client of the other kind."""
    if _is_of_the_face(answer):
        await answer.aread()
        check_answer(answer)


def _is_of_the_face(answer: httpx.Response) -> bool:
    return answer.request.url.raw_path.decode().startswith(_BASE)


def check_answer(answer: httpx.Response) -> None:
    """Raise `jsonschema_rs.ValidationError` unless the answer has the shape of its route's."""
    method, status = answer.request.method, answer.status_code
    if method in ("HEAD", "OPTIONS") or status == 204:
        return
    path = answer.request.url.raw_path.decode().partition("?")[0].removeprefix(_BASE)
    found = TABLE.find(method, path)
    if status == 424:
        shapes.error_artifact_validator().validate(answer.json())
    elif status >= 400:
        shapes.error_validator().validate(answer.json())
    else:
        assert found is not None, f"{method} {path} is answered, and is no route"
        shapes.answer_validator(found[0].name).validate(answer.json())
