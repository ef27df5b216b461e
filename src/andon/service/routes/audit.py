"""The audit list: who did what by hand."""

from typing import Annotated

import msgspec
from litestar import Router, get
from litestar.params import QueryParameter

from andon.engine.audit import MOST_RECORDS
from andon.lifecycle.faces.fields import iso
from andon.model.audit import AuditRecord
from andon.service.calls import Call
from andon.service.lines import Lines, listed

SCOPE = "admin:audit"
MOST_LISTED = MOST_RECORDS


class ActShown(msgspec.Struct, kw_only=True):
    """One act by hand, or several alike that followed one another within a minute."""

    at: str
    until: str
    actor: str
    act: str
    subject: str
    count: int
    detail: str


def shown(record: AuditRecord) -> ActShown:
    """The record as JSON has it."""
    return ActShown(
        at=iso(record.at),
        until=iso(record.until),
        actor=record.actor,
        act=record.act,
        subject=record.subject,
        count=record.count,
        detail=record.detail,
    )


@get("/", summary="List what was done by hand")
async def list_acts(
    request: Call,
    *,
    actor: Annotated[str | None, QueryParameter(description="Only what this actor did.")] = None,
    limit: Annotated[
        int, QueryParameter(ge=1, le=MOST_LISTED, description="How many at the most.")
    ] = 100,
) -> list[ActShown] | Lines:
    """Acts by hand, the newest first: on tasks, with the first of them and their number, and
    changes of queues, retry policies and tokens. The newest 500 are kept; the events of tasks say
    who did it as long as they are kept. With `Accept: application/x-ndjson` one a line."""
    request.need(SCOPE)
    found = await request.service.engine.acts(actor, limit)
    return listed(request, [shown(one) for one in found])


router = Router("/api/v1/audit", route_handlers=[list_acts], tags=["audit"])
