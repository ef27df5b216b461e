"""Logs of runs: read, followed, and written by their runs."""

from typing import TYPE_CHECKING, Annotated

from litestar import Router, get, post
from litestar.params import FromPath, HeaderParameter, QueryParameter

from andon.artifacts.base import LogLine, LogPage
from andon.contract.topics import run_topic, task_topic
from andon.lifecycle.faces.fields import iso
from andon.model.errors import InvalidSubmission, TaskNotFound
from andon.service.answers import KeptLines, LogEntries, LogEntry, RefusedLine
from andon.service.bodies import NewLine, NewLines
from andon.service.calls import Call
from andon.service.decoding import Items
from andon.service.following import LOOK_S, LogStream, is_over, place_of
from andon.service.problems import invalid, problem_of
from andon.service.routes.artifacts import OfRun
from andon.service.routes.runs import of_path
from andon.service.streaming import check_streams
from andon.service.submitting import moment_ms
from andon.service.waiting import held

if TYPE_CHECKING:
    from andon.model.task import Task

MOST_LINES = 10_000
MOST_TEXT = 16 * 1024
"""Characters of one line; the rest is cut."""


@get("/tasks/{task_id:str}/logs", summary="Read a run's log")
async def read_log(
    request: Call,
    task_id: FromPath[str],
    run: OfRun = None,
    cursor: Annotated[str, QueryParameter(description="After this one; default: all.")] = "",
    wait: Annotated[
        float,
        QueryParameter(ge=0, description="Answer once there are lines, or after so many seconds."),
    ] = 0.0,
) -> LogEntries:
    """What a run of the task has logged, the newest run's unless `run` says which.

    To follow a log, ask again with the answer's `cursor` and a `wait`, until it is `over`.
    """
    service = request.service
    task = await _task(request, task_id)
    request.need(f"tasks:read:{task.definition.queue}")
    newest = task.status.runs[-1].number if task.status.runs else 0
    number = newest if run is None else run
    kept = await request.artifacts()

    async def over() -> bool:
        return is_over(await _task(request, task_id), number, service.engine.now())

    async def lines() -> LogPage:
        with service.engine.listen([task_topic(task_id), run_topic(task_id)]) as moved:
            while True:
                page = await kept.read_log(task_id, number, cursor)
                if page.lines or await over():
                    return page
                await moved.wait(LOOK_S)

    page = None
    if wait > 0:
        page = await held(request, lines(), min(wait, service.settings.max_wait))
    # Asked before the log is read: then no line can come that the page lacks.
    ended = await over()
    if page is None or ended:
        page = await kept.read_log(task_id, number, cursor)
    entries = [LogEntry(iso(line.at), line.level, line.text) for line in page.lines]
    return LogEntries(number, entries, page.cursor, ended and not entries)


async def _task(request: Call, task_id: str) -> "Task":
    [task] = await request.service.engine.get([task_id])
    if task is None:
        raise TaskNotFound(task_id)
    return task


@get("/tasks/{task_id:str}/logs/stream", summary="Follow a log", media_type="text/event-stream")
async def follow_log(
    request: Call,
    task_id: FromPath[str],
    run: OfRun = None,
    last_event_id: Annotated[
        str | None,
        HeaderParameter(name="Last-Event-ID", description="Go on after this line."),
    ] = None,
) -> LogStream:
    """What the task's runs log, one run after the other, as server-sent events; with `run` that
    run's alone.

    Each line is an `event: line` with its run, time, level and text as JSON. `event: end` says why
    there is no more: `over` (nothing more will be logged), `gone` (the task is deleted), `stopping`
    or `failed` (connect again with Last-Event-ID and nothing is missed).
    """
    task = await _task(request, task_id)
    request.need(f"tasks:read:{task.definition.queue}")
    check_streams(request.service)
    after = place_of(last_event_id) if last_event_id else None
    if run is not None and after is not None and after.run != run:
        raise invalid(f"Last-Event-ID is of run {after.run}.", field="Last-Event-ID")
    return LogStream(request.service, task_id, run, after)


@post("/runs/{task_id:str}/{number:str}/logs", status_code=200, summary="Add to a run's log")
async def append_log(
    request: Call, task_id: FromPath[str], number: FromPath[str], data: Items[NewLines]
) -> KeptLines:
    """Keep lines that the run logged, in the order given; how many.

    Best a second's lines together. A run may do so for a minute after its end. A line that cannot
    be kept is left out, and told with its place.
    """
    who = of_path(request, task_id, number)
    service = request.service
    if len(data.lines) + len(request.unread) > MOST_LINES:
        raise invalid(f"At most {MOST_LINES:,} lines in one request.", field="lines")
    await service.runs.known(who)
    now = service.engine.now()
    piece = data.number or now
    refused = dict(request.unread)
    places = [n for n in range(len(data.lines) + len(refused)) if n not in refused]
    lines: list[LogLine] = []
    for place, line in zip(places, data.lines, strict=True):
        try:
            lines.append(_line(line, now))
        except InvalidSubmission as error:
            refused[place] = problem_of(error)
    if lines:
        kept = await request.artifacts()
        await kept.append_log(who.task, who.number, piece, lines)
    told = [RefusedLine(place, refused[place].document) for place in sorted(refused)]
    return KeptLines(len(lines), told)


def _line(line: NewLine, now: int) -> LogLine:
    at = now if line.at is None else moment_ms("at", line.at)
    return LogLine(at, line.level, line.text[:MOST_TEXT])


router = Router("/api/v1", route_handlers=[read_log, follow_log, append_log], tags=["logs"])
