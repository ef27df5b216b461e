"""The bodies of answers, except records in the form of a profile."""

from typing import Any

import msgspec

from andon.model.words import State


class ProblemDetails(msgspec.Struct, kw_only=True):
    """What went wrong (RFC 9457)."""

    type: str  #: urn:andon:problem:NAME
    title: str
    status: int
    detail: str  #: one sentence, for people
    instance: str = ""  #: the path that was asked for
    field: str | msgspec.UnsetType = msgspec.UNSET  #: the part of the request at fault


class Accepted(msgspec.Struct, gc=False):
    """A task that is stored."""

    id: str
    state: State | None
    created: bool  #: False: the same submission was stored before


class BulkItem(msgspec.Struct, gc=False, omit_defaults=True):
    """How one of many submissions ended."""

    id: str
    state: State | None
    created: bool
    error: dict[str, Any] | None = None  #: problem details; set: refused


class BulkAccepted(msgspec.Struct):
    """How many submissions ended, in the order they were given."""

    accepted: int
    refused: int
    tasks: list[BulkItem]


class ActedOn(msgspec.Struct, gc=False, omit_defaults=True):
    """How acting on one task ended."""

    id: str
    state: State | None  #: after the act; null when the record is gone
    changed: bool
    error: dict[str, Any] | None = None  #: problem details; set: refused


class Edited(msgspec.Struct, gc=False):
    """The task that was cancelled, and the one that replaces it."""

    id: str
    successor: str
    state: State | None  #: of the successor; null while it is not stored yet, which it will be
    created: bool  #: false for a repeat


class ActedOnMany(msgspec.Struct):
    """How acting on many tasks ended."""

    found: int
    changed: int
    unchanged: int  #: nothing was to be done
    refused: int
    dry_run: bool
    tasks: list[ActedOn]  #: the first of them, at most a page


class ListedFlow(msgspec.Struct):
    """A flow, as its first task describes it."""

    id: str  #: the group of its tasks
    name: str
    members: int  #: tasks that it was submitted with
    created_at: str


class FlowPage(msgspec.Struct):
    """Flows, the newest first."""

    flows: list[ListedFlow]


class KeptGroup(msgspec.Struct, kw_only=True):
    """The record of a group of tasks."""

    id: str
    owner: str
    created_at: str
    expires_at: str  #: kept until then at least, and until its last task has gone
    sealed_at: str | None
    open_until: str  #: submits that were let in may be stored until then


class ActedOnFlow(msgspec.Struct):
    """How acting on the tasks of a flow ended."""

    found: int  #: that were acted on
    changed: int
    unchanged: int  #: nothing was to be done
    refused: int


class RefusedLine(msgspec.Struct, gc=False):
    """A line of a log that was not kept."""

    place: int  #: in the request, from 0
    error: dict[str, Any]  #: problem details


class KeptLines(msgspec.Struct, omit_defaults=True):
    """What was kept of the lines of a log."""

    kept: int
    refused: list[RefusedLine] = []


class TaskPage(msgspec.Struct):
    """Tasks as a profile shows them; an empty cursor means there are no more."""

    tasks: list[dict[str, Any]]
    cursor: str


class SchedulePage(msgspec.Struct):
    """Schedules; an empty cursor means there are no more."""

    schedules: list[dict[str, Any]]
    cursor: str


class NextTimes(msgspec.Struct):
    """Times of a schedule: by the clocks of its zone, in UTC, and what is to be said of them."""

    times: list[dict[str, Any]]


class ScheduleActed(msgspec.Struct, omit_defaults=True):
    """How acting on one schedule ended."""

    name: str
    state: State | None  #: after the act; null when the record is gone
    changed: bool
    task: str | None = None  #: id of the task that it has submitted


class RefusedTask(msgspec.Struct):
    """A task that was not submitted."""

    id: str
    error: str  #: one sentence


class BackfilledPart(msgspec.Struct, kw_only=True):
    """What became of a range of a schedule's times; with `dry_run`, what would."""

    count: int  #: times in this part of the range; with `dry_run` in all of it
    more: bool  #: there are more than were counted
    first: str | None  #: ISO 8601
    last: str | None  #: ISO 8601
    created: int
    existed: int  #: had run, or were there
    refused: int
    errors: list[RefusedTask]  #: the first of them
    dry_run: bool
    next: str | None  #: repeat the request with this as `start`; null: all is done


class EventPage(msgspec.Struct):
    """Moves of tasks; go on with the cursor. `gap`: some before these are not kept any more."""

    events: list[dict[str, Any]]
    cursor: str
    gap: bool


class KeptFile(msgspec.Struct, kw_only=True):
    """An artifact: a file that a run left behind, or what stands in the place of one."""

    task: str
    run: int  #: number of the run
    name: str
    size: int  #: bytes, as they are kept
    sha256: str  #: of the bytes, hex
    content_type: str
    created_at: str  #: ISO 8601
    expires_at: str | None = None  #: ISO 8601; null: goes with its task
    kind: str = "file"  #: `file`, `reference`, `link` or `error`
    present: bool = True  #: false: a file was registered, and its bytes have not come
    encoding: str = ""  #: what the bytes are encoded with, `gzip` for example
    url: str = ""  #: of a reference: where it leads
    target: str = ""  #: of a link: the artifact of the same run that it stands for
    reason: str = ""  #: of an error: why there is nothing, in a word
    message: str = ""  #: of an error: why, for people


class Registered(KeptFile, kw_only=True):
    """An artifact that was registered. A file's bytes go to `put_url`, by PUT and without a token,
    with its content type."""

    put_url: str | None = None
    put_until: str | None = None  #: ISO 8601: how long `put_url` is good for


class KeptBytes(msgspec.Struct):
    """Bytes that were kept."""

    size: int
    sha256: str  #: hex
    expires_at: str | None  #: ISO 8601; null: they go with their task


class SignedUrl(msgspec.Struct):
    """A URL that needs no token."""

    url: str
    expires_at: str  #: ISO 8601


class KeptFiles(msgspec.Struct):
    """Artifacts, by run and name; go on with the cursor, unless it is empty."""

    artifacts: list[KeptFile]
    cursor: str = ""


class LogEntry(msgspec.Struct):
    """One line that a run logged."""

    at: str  #: ISO 8601, by the worker's clock
    level: str
    text: str


class LogEntries(msgspec.Struct):
    """Lines in the order they were logged; go on with the cursor. `over`: no more will come."""

    run: int  #: number of the run
    lines: list[LogEntry]
    cursor: str
    over: bool


class Pending(msgspec.Struct):
    """What an autoscaler wants to know of a queue."""

    queue: str
    pending: int  #: waiting to be claimed
    active: int  #: running
    parked: int  #: of the pending, those held back by `max_concurrent_per_key`
    oldest_age: float  #: seconds that the oldest claimable task waits; 0 if there is none
    paused: bool


class QueueEmptied(msgspec.Struct):
    """What became of the tasks of a queue."""

    queue: str
    removed: int
    refused: int  #: that tasks elsewhere still need, or that moved meanwhile
    more: bool  #: as many were removed as one request may; repeat it for the others
    deleted: bool  #: the queue is gone too


class ProfileNames(msgspec.Struct):
    """How a profile names the states."""

    name: str
    states: dict[str, list[str]]  #: Andon's states to the names they are shown under


class Health(msgspec.Struct):
    """Whether the service works."""

    status: str
