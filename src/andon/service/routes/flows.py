"""Flows: tasks that depend on one another, seen and acted on as one."""

from typing import Annotated

from litestar import Router, get, post
from litestar.params import FromPath, JSONBody, QueryParameter

from andon.engine.flows import cancel_flow, list_flows, read_flow, rerun_flow
from andon.lifecycle.faces.fields import iso
from andon.lifecycle.flows import FlowDocument
from andon.service.answers import ActedOnFlow, FlowPage, ListedFlow
from andon.service.bodies import Cancelling, RerunningFlow
from andon.service.calls import Call

READ, CANCEL, CHANGE = "tasks:read:*", "tasks:cancel:*", "tasks:change:*"
"""As for a list by group, and for acts on one: its tasks may be of any queue."""


@get("/", summary="List flows")
async def list_all(
    request: Call,
    limit: Annotated[int, QueryParameter(ge=1, le=1_000, description="How many, at most.")] = 20,
) -> FlowPage:
    """The newest flows, by their first tasks. Only the newest tasks of the store are looked at."""
    request.need(READ)
    found = await list_flows(request.service.engine, limit=limit)
    return FlowPage([ListedFlow(f.id, f.name, f.members, iso(f.created_at)) for f in found])


@get("/{flow_id:str}", summary="Get a flow")
async def get_flow(request: Call, flow_id: FromPath[str]) -> FlowDocument:
    """How far a flow is, and what it consists of: a node for all tasks that are alike, each after
    those it waits for. Any other group of tasks has an answer, too."""
    request.need(READ)
    return (await read_flow(request.service.engine, flow_id)).document


@post("/{flow_id:str}/cancel", status_code=200, summary="Cancel a flow")
async def cancel(request: Call, flow_id: FromPath[str], data: JSONBody[Cancelling]) -> ActedOnFlow:
    """Cancel all tasks of a flow that have not ended, its last ones first."""
    request.need(CANCEL)
    engine = request.service.engine
    tally = await cancel_flow(engine, await read_flow(engine, flow_id), force=data.force)
    return ActedOnFlow(tally.found, tally.changed, tally.unchanged, tally.refused)


@post("/{flow_id:str}/rerun", status_code=200, summary="Rerun a flow")
async def rerun(
    request: Call, flow_id: FromPath[str], data: JSONBody[RerunningFlow]
) -> ActedOnFlow:
    """Run again what did not complete, and all that follows it. Each task waits for those it
    depends on, as it did at first. Repeat it if you do not know whether it was carried through."""
    request.need(CHANGE)
    engine = request.service.engine
    flow = await read_flow(engine, flow_id)
    tally = await rerun_flow(engine, flow, failed_only=data.failed_only)
    return ActedOnFlow(tally.found, tally.changed, tally.unchanged, tally.refused)


router = Router("/api/v1/flows", route_handlers=[list_all, get_flow, cancel, rerun], tags=["flows"])
