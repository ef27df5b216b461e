"""Groups of which a record is kept: looked at, and sealed."""

from litestar import Router, get, post
from litestar.params import FromPath, JSONBody

from andon.lifecycle.faces.fields import iso, maybe_iso
from andon.model.groups import GroupRecord
from andon.service.answers import KeptGroup
from andon.service.bodies import Nothing
from andon.service.calls import Call

READ, CHANGE = "tasks:read:*", "tasks:change:*"
"""As for a list by group, and for acts on one: its tasks may be of any queue."""


@get("/{group:str}", summary="Get a group")
async def get_group(request: Call, group: FromPath[str]) -> KeptGroup:
    """The record of a group whose tasks were submitted with `group_owner`. `GET
    /api/v1/flows/{flow_id}` shows the progress of its tasks."""
    request.need(READ)
    return _shown(group, await request.service.engine.group(group))


@post("/{group:str}/seal", status_code=200, summary="Seal a group")
async def seal(request: Call, group: FromPath[str], data: JSONBody[Nothing]) -> KeptGroup:
    """Let no task into a group any more, for good. Repeating it changes nothing. Submits that were
    let in before may be stored until `open_until`; when that has passed, all tasks are there."""
    request.need(CHANGE)
    return _shown(group, await request.service.engine.seal_group(group))


def _shown(group: str, record: GroupRecord) -> KeptGroup:
    return KeptGroup(
        id=group,
        owner=record.owner,
        created_at=iso(record.created_at),
        expires_at=iso(record.expires_at),
        sealed_at=maybe_iso(record.sealed_at),
        open_until=iso(record.open_until),
    )


router = Router("/api/v1/groups", route_handlers=[get_group, seal], tags=["flows"])
