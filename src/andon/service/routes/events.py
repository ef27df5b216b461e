"""Events: the moves of tasks, page by page or as they happen."""

from typing import Annotated, Any

from litestar import Router, get
from litestar.params import HeaderParameter, QueryParameter

from andon.engine.filtering import Filters
from andon.lifecycle.rendering import event_document, history_as
from andon.model.errors import TaskNotFound
from andon.service.answers import EventPage
from andon.service.calls import As, Call, profile_named
from andon.service.hub import Wants
from andon.service.parameters import Limit
from andon.service.selecting import checked_query, state_names
from andon.service.streaming import EventStream, check_streams

TaskParameter = Annotated[str | None, QueryParameter(description="Moves of this task.")]
QueueParameter = Annotated[str | None, QueryParameter(description="Moves of this queue's tasks.")]
StateParameter = Annotated[
    str | None,
    QueryParameter(name="state", description="Moves into these states, separated by commas."),
]


@get("/", summary="List events")
async def list_events(
    request: Call,
    *,
    task: TaskParameter = None,
    queue: QueueParameter = None,
    states: StateParameter = None,
    limit: Limit = 100,
    cursor: Annotated[
        str, QueryParameter(description="After this one; without it, from the oldest kept.")
    ] = "",
    seen_as: As = None,
) -> EventPage:
    """The moves of tasks in the order of the log, per task complete.

    `limit` moves are looked at; those that the filters leave out are missing from the page, which
    may be empty though its cursor leads on. At the end of the log the cursor stays as it is.
    """
    wants = await _wants(request, task, queue, states, seen_as)
    service = request.service
    page = await service.engine.events(cursor, min(limit, service.settings.max_page))
    tasks = await service.hub.tasks_of(page.events) if wants.needs_task else {}
    shown: list[dict[str, Any]] = []
    for event in page.events:
        if not wants.admits(event, service.hub.queue_of(event.task)):
            continue
        if wants.profile is None:
            shown.append(event_document(event))
        else:
            entries = history_as(wants.profile, [event], tasks.get(event.task))
            shown += [{"task": event.task, **entry} for entry in entries]
    return EventPage(shown, page.cursor, page.gap)


@get("/stream", summary="Stream events", media_type="text/event-stream")
async def stream_events(
    request: Call,
    *,
    task: TaskParameter = None,
    queue: QueueParameter = None,
    states: StateParameter = None,
    seen_as: As = None,
    last_event_id: Annotated[
        str | None,
        HeaderParameter(name="Last-Event-ID", description="Go on after this event."),
    ] = None,
) -> EventStream:
    """The moves of tasks as they happen, as server-sent events, from now or after an event.

    Each message is `event: move` with the move as JSON; `event: gap` says that some before it are
    not kept any more, `event: end` that the service ends the stream (`stopping`, or `slow` for a
    client that reads too slowly): connect again with Last-Event-ID and nothing is missed.
    """
    service = request.service
    check_streams(service)
    wants = await _wants(request, task, queue, states, seen_as)
    return EventStream(service, wants, last_event_id or None)


async def _wants(
    request: Call, task: str | None, queue: str | None, states: str | None, seen_as: str | None
) -> Wants:
    profile = profile_named(seen_as)
    engine = request.service.engine
    filters = Filters(states=state_names(states), queue=queue)
    query, _ = await checked_query(engine, filters, profile)
    if task is not None:
        [found] = await engine.get([task])
        if found is None:
            raise TaskNotFound(task)
        request.need(f"tasks:read:{found.definition.queue}")
    else:
        request.need(f"tasks:read:{queue or '*'}")
    return Wants(
        task, queue, frozenset(query.states), None if profile.name == "native" else profile
    )


router = Router("/api/v1/events", route_handlers=[list_events, stream_events], tags=["events"])
