"""Makes the OpenAPI document: from what the framework reads off the handlers, and what it cannot
know.

Operations, parameters and their texts are the framework's. Schemas are msgspec's own, which is
what decodes the bodies; every operation gets the problems it may answer with, and examples.
"""

import inspect
from typing import TYPE_CHECKING, Any, cast

import msgspec
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin

from andon.lifecycle.admission import admit
from andon.lifecycle.profiles import CBINTEL, NATIVE
from andon.lifecycle.rendering import as_seen, document
from andon.model.errors import TaskNotFound
from andon.model.task import Definition
from andon.service import answers, bodies, schedule_bodies
from andon.service.lines import MEDIA_TYPE

if TYPE_CHECKING:
    from litestar import Litestar
    from litestar.handlers import HTTPRouteHandler

Document = dict[str, Any]

_PROBLEMS = {
    "400": "The request cannot be understood: it is not JSON, or not UTF-8.",
    "401": "The token is missing, expired or revoked.",
    "403": "The token does not allow this.",
    "404": "There is no such task or queue.",
    "408": "The request did not come in time.",
    "409": "It is not possible as things stand; nothing was changed.",
    "412": "It has another content by now.",
    "413": "The body is too large.",
    "415": "The body is not JSON.",
    "416": "There is no such range in it.",
    "422": "A part of the request is wrong; `field` names it.",
    "429": "Too many requests, or the queue is full. `Retry-After` says when to try again.",
    "500": "An error of the service; its log says which.",
    "503": "The store does not answer, or the service is stopping.",
}
_ALWAYS = ("401", "403", "429", "500", "503")
_WITH_BODY = ("400", "408", "413", "415", "422")
_UNGUARDED = frozenset({"service"})  #: tags of routes that need no token

_EXAMPLE = admit(
    Definition(id="resize-4711", name="resize", args=b'{"path":"/in/4711.png","width":640}'),
    1_893_456_000_000,
    "",
)
_ACCEPTED = {"id": "resize-4711", "state": "pending", "created": True}
_ACTED = {"id": "resize-4711", "state": "cancelled", "changed": True}
_PROBLEM = {
    "type": "urn:andon:problem:task-not-found",
    "title": "Task not found",
    "status": 404,
    "detail": str(TaskNotFound("resize-4711")),
    "instance": "/api/v1/tasks/resize-4711",
    "task_id": "resize-4711",
}


def _examples() -> dict[str, Any]:
    task = document(NATIVE, _EXAMPLE)
    job = as_seen(CBINTEL, _EXAMPLE)
    many = {"found": 1, "changed": 1, "unchanged": 0, "refused": 0, "dry_run": False}
    return {
        "tasks_submit": _ACCEPTED,
        "tasks_get_task": task,
        "tasks_list_all": {"tasks": [task], "cursor": ""},
        "tasks_submit_bulk": {"accepted": 1, "refused": 0, "tasks": [_ACCEPTED]},
        "tasks_cancel": _ACTED,
        "tasks_edit": {
            "id": "resize-4711",
            "successor": "resize-4712",
            "state": "pending",
            "created": True,
        },
        "policies_list_policies": {"gentle": {"max_retries": 10, "retry_delay": 60.0}},
        "tasks_act": {**many, "tasks": [_ACTED]},
        "dead_letters_list_letters": {"tasks": [], "cursor": ""},
        "jobs_submit": job,
        "jobs_get_job": job,
        "jobs_cancel": {
            "job_id": "job_abc123",
            "status": "CANCELLED",
            "cancelled_at": "2030-01-15T10:33:00Z",
        },
    }


def openapi_config() -> OpenAPIConfig:
    """The settings of the framework."""
    return OpenAPIConfig(
        title="Andon",
        version="1",
        description="A durable task queue: submit, watch and control tasks.",
        path="/schema",
        render_plugins=[JsonRenderPlugin(path="/framework.json")],
        use_handler_docstrings=True,
        operation_id_creator=_operation_id,
    )


def _operation_id(handler: "HTTPRouteHandler", *_: Any) -> str:
    tags = handler.resolve_tags() or ["api"]
    return f"{tags[0].replace(' ', '_')}_{handler.handler_name}"


def document_of(app: "Litestar") -> bytes:
    """The document as JSON, the same for the same code."""
    found: Document = app.openapi_schema.to_schema()
    found["components"]["schemas"] |= _schemas()
    found["components"]["responses"] = {
        f"Problem{status}": _problem_response(text) for status, text in _PROBLEMS.items()
    }
    found["paths"]["/openapi.json"]["get"]["responses"]["200"]["content"]["application/json"] = {
        "schema": {"type": "object"}
    }
    _show_files(found["paths"])
    _show_lines(found["paths"])
    examples = _examples()
    for operations in found["paths"].values():
        for method, operation in operations.items():
            takes_path = any(
                one["in"] == "path" or one["name"] == "task"
                for one in operation.get("parameters", ())
            )
            _complete(operation, takes_path=takes_path, changes=method != "get")
            _show(operation, examples.get(operation["operationId"]))
    _dedent(found)
    return msgspec.json.encode(found, order="deterministic")


def _dedent(part: Any) -> None:
    """Texts that are docstrings lose their indentation, as they do by themselves from Python 3.13
    on."""
    if isinstance(part, list):
        for one in cast("list[Any]", part):
            _dedent(one)
    elif isinstance(part, dict):
        found = cast("Document", part)
        text = found.get("description")
        if isinstance(text, str):
            found["description"] = inspect.cleandoc(text)
        for one in found.values():
            _dedent(one)


def _show_files(paths: Document) -> None:
    """Bodies that are streams, which the framework knows nothing of."""
    file = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    for operations in paths.values():
        for operation in operations.values():
            if operation["operationId"] in ("artifacts_upload", "blobs_send"):
                operation["requestBody"] = {"content": file, "required": True}
            elif operation["operationId"] in ("artifacts_download", "blobs_fetch"):
                found = operation["responses"]["200"]
                found["content"] = file
                operation["responses"]["206"] = {"description": "The range.", "content": file}
                for status in ("412", "416"):
                    operation["responses"][status] = {
                        "$ref": f"#/components/responses/Problem{status}"
                    }


def _show_lines(paths: Document) -> None:
    """Lists that can also be answered line by line: the framework knows only that there is a second
    kind of answer."""
    for operations in paths.values():
        for operation in operations.values():
            content: Document = operation["responses"].get("200", {}).get("content", {})
            schema = content.get("application/json", {}).get("schema", {})
            if {} in schema.get("oneOf", ()):
                [content["application/json"]["schema"]] = [one for one in schema["oneOf"] if one]
                content[MEDIA_TYPE] = {
                    "schema": {"type": "string", "description": "One record a line."}
                }


def _schemas() -> Document:
    structs = [
        kind
        for module in (bodies, schedule_bodies, answers)
        for kind in vars(module).values()
        if inspect.isclass(kind) and issubclass(kind, msgspec.Struct)
    ]
    _, schemas = msgspec.json.schema_components(structs, ref_template="#/components/schemas/{name}")
    return schemas


def _problem_response(text: str) -> Document:
    schema = {"$ref": "#/components/schemas/ProblemDetails"}
    return {
        "description": text,
        "content": {"application/problem+json": {"schema": schema, "example": _PROBLEM}},
    }


def _complete(operation: Document, *, takes_path: bool, changes: bool) -> None:
    """Add the problems an operation may answer with, and say of parameters what they are."""
    responses: Document = operation["responses"]
    responses.pop("400", None)  # the framework's own shape, which nothing here answers with
    statuses = {"500", "503"} if set(operation.get("tags", ())) & _UNGUARDED else set(_ALWAYS)
    if "requestBody" in operation:
        statuses |= set(_WITH_BODY)
        # A route whose fields are all optional takes an empty body too.
        schema = operation["requestBody"]["content"].get("application/json", {}).get("schema", {})
        name = schema.get("$ref", "").rpartition("/")[2]
        operation["requestBody"]["required"] = name not in _OPTIONAL
    statuses |= {"404"} if takes_path else set()
    always = {"policies"}.intersection(operation.get("tags", ()))
    statuses |= {"409"} if changes and not always else set()
    statuses |= {"400", "422"}
    for status in sorted(statuses):
        responses.setdefault(status, {"$ref": f"#/components/responses/Problem{status}"})
    for parameter in operation.get("parameters", ()):
        parameter["schema"] = _without_null(parameter["schema"])
        for noise in ("allowEmptyValue", "allowReserved", "deprecated"):
            parameter.pop(noise, None)
    operation.pop("deprecated", None)


_OPTIONAL = frozenset(
    {
        "Nothing",
        "Cancelling",
        "Rerunning",
        "QueueChanges",
        "Purging",
        "ScheduleChanges",
        "RerunningFlow",
    }
)


def _without_null(schema: Document) -> Document:
    """A parameter that is left out is not sent as null."""
    kinds = [kind for kind in schema.get("oneOf", ()) if kind != {"type": "null"}]
    if len(kinds) != 1:
        return schema
    return {name: value for name, value in schema.items() if name != "oneOf"} | kinds[0]


def _show(operation: Document, example: Any) -> None:
    """Put the example into the answer, and add the answers that have another status."""
    responses = operation["responses"]
    usual = next(status for status in responses if status.startswith("2"))
    if example is not None:
        responses[usual]["content"]["application/json"]["example"] = example
    responses[usual]["description"] = "Done."
    if usual == "201":
        responses["201"]["description"] = "Stored."
        responses["201"]["headers"] = {
            "Location": {"description": "Where it is.", "schema": {"type": "string"}}
        }
        responses["200"] = {**responses["201"], "description": "It was stored before."}
    if operation["operationId"] == "jobs_submit":
        responses["422"] = {
            "description": "Recorded as FAILED (the job), or wrong in itself (a problem).",
            "content": {
                **responses["201"]["content"],
                "application/problem+json": {
                    "schema": {"$ref": "#/components/schemas/ProblemDetails"}
                },
            },
        }
