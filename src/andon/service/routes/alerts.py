"""Alert rules and targets: made, changed, removed, tested, applied. Secrets go in, and never out.

A rule may name any queue, and its notices say what is in them, so all of it takes `admin:alerts`.
Commands run on the machine of the service: only the command line beside the store sets them.
"""

from typing import Annotated, Any

import msgspec
from litestar import Router, delete, get, patch, post, put
from litestar.params import FromPath, JSONBody, QueryParameter

from andon.lifecycle.alerts.telling import (
    alerts_document,
    document_of,
    rule_document,
    target_document,
)
from andon.service.calls import Call
from andon.service.problems import Problem, not_found
from andon.service.routes.engine.alerts import SCOPE


class TestBegun(msgspec.Struct):
    """A test that is on its way."""

    task: str  #: id of the task that delivers it


class Applied(msgspec.Struct):
    """What was changed, or would be."""

    changes: list[str]
    applied: bool


@get("/", summary="List alert rules and targets")
async def list_alerts(request: Call) -> dict[str, Any]:
    """All rules, their state by the look of the last minute, and all targets, without their
    secrets. Durations are seconds."""
    request.need(SCOPE)
    return alerts_document(await request.service.engine.alerts.shown())


@get("/preview", summary="Look at the alert rules now")
async def preview(request: Call) -> dict[str, Any]:
    """The same as a look would find it now, and in `told` the notices that would be sent. Nothing
    is sent, and nothing is written."""
    request.need(SCOPE)
    found = await request.service.engine.alerts.preview()
    told = [{**document_of(one, ""), "targets": list(one.targets)} for one in found.notices]
    for one in told:
        del one["delivery"]
    return {**alerts_document(found.shown), "told": told}


@put("/", summary="Apply alert rules and targets")
async def apply_alerts(
    request: Call,
    data: JSONBody[dict[str, Any]],
    *,
    dry_run: Annotated[bool, QueryParameter(description="Only say what would change.")] = False,
) -> Applied:
    """Make `rules` and `targets`, by name, equal to the body, and delete all others. A secret that
    it leaves out of a target stays."""
    request.need(SCOPE)
    alerts = request.service.engine.alerts
    changes = await alerts.apply(data, dry_run=dry_run, from_afar=True)
    return Applied(changes, applied=not dry_run)


@put("/rules/{name:str}", summary="Set an alert rule")
async def put_rule(
    request: Call, name: FromPath[str], data: JSONBody[dict[str, Any]]
) -> dict[str, Any]:
    """Make a rule equal to the body: `when`, and what that takes of `queue`, `schedule`, `worker`,
    `above`, `growth`, `within`, `min_runs`, `late`, `for`; `repeat_every`, `targets`. Durations are
    seconds, or text such as `10m`."""
    request.need(SCOPE)
    return rule_document(await request.service.engine.alerts.put_rule(name, data))


@patch("/rules/{name:str}", summary="Change an alert rule")
async def edit_rule(
    request: Call, name: FromPath[str], data: JSONBody[dict[str, Any]]
) -> dict[str, Any]:
    """Change what the body says of a rule; an empty text takes a field away."""
    request.need(SCOPE)
    alerts = request.service.engine.alerts
    if name not in (await alerts.book()).rules:
        raise _no_rule(name)
    return rule_document(await alerts.put_rule(name, data, "edit"))


@delete("/rules/{name:str}", status_code=200, summary="Remove an alert rule")
async def remove_rule(request: Call, name: FromPath[str]) -> dict[str, str]:
    """Delete a rule. If it was firing, no notice says that it has cleared."""
    request.need(SCOPE)
    if not await request.service.engine.alerts.remove_rule(name):
        raise _no_rule(name)
    return {"removed": name}


@put("/targets/{name:str}", summary="Set an alert target")
async def put_target(
    request: Call, name: FromPath[str], data: JSONBody[dict[str, Any]]
) -> dict[str, Any]:
    """Make or change a target: `how` is `webhook` (with `url` and `secret`) or `chat` (with `url`
    and, if it is not `text`, `text_field`). What is left out of one that is there stays."""
    request.need(SCOPE)
    alerts = request.service.engine.alerts
    return target_document(await alerts.put_target(name, data, from_afar=True))


@delete("/targets/{name:str}", status_code=200, summary="Remove an alert target")
async def remove_target(request: Call, name: FromPath[str]) -> dict[str, str]:
    """Delete a target. Refused while a rule names it."""
    request.need(SCOPE)
    if not await request.service.engine.alerts.remove_target(name):
        raise _no_target(name)
    return {"removed": name}


@post("/targets/{name:str}/test", status_code=202, summary="Test an alert target")
async def test_target(request: Call, name: FromPath[str]) -> TestBegun:
    """Send a test notice to a target. The task that sends it shows how it went."""
    request.need(SCOPE)
    alerts = request.service.engine.alerts
    if name not in (await alerts.book()).targets:
        raise _no_target(name)
    return TestBegun(await alerts.test(name))


def _no_rule(name: str) -> Problem:
    return not_found(f"There is no alert rule {name[:128]!r}.")


def _no_target(name: str) -> Problem:
    return not_found(f"There is no alert target {name[:128]!r}.")


router = Router(
    "/api/v1/alerts",
    route_handlers=[
        list_alerts,
        preview,
        apply_alerts,
        put_rule,
        edit_rule,
        remove_rule,
        put_target,
        remove_target,
        test_target,
    ],
    tags=["alerts"],
)
