"""Dead letters: tasks that ended badly and are kept to be looked at."""

from typing import Annotated

import msgspec
from litestar import Router, get, post
from litestar.params import QueryParameter

from andon.engine.filtering import Filters
from andon.engine.letter_groups import LOOK, MOST_LOOKED
from andon.lifecycle.commands import Delete
from andon.lifecycle.letter_groups import groups_document
from andon.service.acting import act_on_many
from andon.service.answers import ActedOnMany, TaskPage
from andon.service.bodies import Which
from andon.service.calls import As, Call, profile_named
from andon.service.decoding import Items
from andon.service.lines import Lines
from andon.service.listing import list_tasks
from andon.service.parameters import Cursor, Flag, ListLimit, Queue, States, Tag, TaskName
from andon.service.selecting import state_names


@get("/", summary="List dead letters")
async def list_letters(
    request: Call,
    *,
    states: States = None,
    queue: Queue = None,
    name: TaskName = None,
    tag: Tag = None,
    fingerprint: Annotated[str | None, QueryParameter(description="Those of this group.")] = None,
    newest_first: Flag = False,
    limit: ListLimit = None,
    cursor: Cursor = "",
    seen_as: As = None,
) -> TaskPage | Lines:
    """Dead letters in the order in which the tasks were created.

    With `Accept: application/x-ndjson` all of them, one a line.
    """
    filters = Filters(
        states=state_names(states), queue=queue, name=name, tag=tag, fingerprint=fingerprint
    )
    return await list_tasks(
        request,
        filters,
        seen_as,
        limit=limit,
        cursor=cursor,
        newest_first=newest_first,
        dead_letters=True,
    )


class GroupShown(msgspec.Struct, kw_only=True):
    """Dead letters of one kind of error, of those that were looked at."""

    fingerprint: str
    pattern: str
    count: int
    newest: str
    newest_at: str
    oldest_at: str
    names: list[str]
    queues: list[str]


class GroupsShown(msgspec.Struct, kw_only=True):
    """Groups, the largest first. Unless `whole`, each count is "at least", and `cursor` goes on."""

    groups: list[GroupShown]
    looked: int
    whole: bool
    cursor: str


@get("/groups", summary="Group dead letters by their errors")
async def list_groups(
    request: Call,
    *,
    queue: Queue = None,
    name: TaskName = None,
    look: Annotated[
        int, QueryParameter(ge=1, le=MOST_LOOKED, description="Dead letters to look at.")
    ] = LOOK,
    cursor: Cursor = "",
) -> GroupsShown:
    """The newest dead letters by the fingerprint of their errors: type and message, without
    numbers, ids and quoted values. To act on a whole group, name its `fingerprint` in the `filter`
    of a resubmit or purge; a `dry_run` counts it exactly."""
    request.need(f"tasks:read:{queue or '*'}")
    found = await request.service.engine.letter_groups(queue, name, look=look, cursor=cursor)
    return msgspec.convert(groups_document(found), GroupsShown)


@post("/resubmit", status_code=200, summary="Resubmit dead letters")
async def resubmit(request: Call, data: Items[Which], seen_as: As = None) -> ActedOnMany:
    """Run dead letters again, with a new budget of tries."""
    return await act_on_many(
        request,
        data,
        profile_named(seen_as),
        "tasks:change",
        request.service.engine.retry,
        dead_letters=True,
    )


@post("/purge", status_code=200, summary="Purge dead letters")
async def purge(request: Call, data: Items[Which], seen_as: As = None) -> ActedOnMany:
    """Remove dead letters for good."""
    engine = request.service.engine
    return await act_on_many(
        request,
        data,
        profile_named(seen_as),
        "tasks:change",
        lambda ids: engine.act(ids, Delete()),
        dead_letters=True,
    )


router = Router(
    "/api/v1/dead-letters",
    route_handlers=[list_letters, list_groups, resubmit, purge],
    tags=["dead letters"],
)
