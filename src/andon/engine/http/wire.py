"""The messages between `HttpEngine` and a service: one struct per request and per reply. Pure.

Records travel whole, as JSON of the structs in `andon.model`; bytes are base64. Both ends ignore
fields that they do not know, so that either may be the newer one. Each request about a run carries
that run's token, which names the task and the run.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from andon.contract.isolation import AT_FAULT
from andon.contract.outcomes import Verdict
from andon.contract.requests import ClaimRequest
from andon.engine.base import ActionResult, Submission, Submitted
from andon.engine.http.errors import Problem, error_of, problem_of
from andon.lifecycle import commands
from andon.lifecycle.commands import Command
from andon.model.errors import AndonError, InvalidSubmission
from andon.model.fleet import TypeInfo
from andon.model.task import Task
from andon.model.words import Event, State

ROOT = "/api/v1/engine/"
"""The path prefix of the routes for `HttpEngine`: POST, one path per method."""

TIME_HEADER = "andon-time"
ACTOR_HEADER = "Andon-Actor"
"""On every reply: the store's clock, ms UTC."""

MOST_BYTES = 4 * 1024 * 1024
"""Bytes of items that one request carries at most, unless one item alone has more."""

KEEPALIVE_S = 10.0
"""An attention stream is never silent for longer."""

MOST_RUNS = 200
"""Runs that one request may renew or report."""


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """How one submission, act or report ended. `yes`: it was created, or changed something."""

    id: str
    state: State | None = None
    yes: bool = False
    error: Problem | None = None


class Claim(ClaimRequest, frozen=True, kw_only=True):
    """A claim that names its code by the digest; `code`, the list, is there only if the service has
    said that it does not know the digest."""

    digest: str = ""


def claim_of(request: ClaimRequest, *, lists_code: bool) -> Claim:
    """A claim as it is sent."""
    fields = msgspec.structs.asdict(request)
    if request.code is not None:
        fields["digest"] = request.code.digest
    if not lists_code:
        fields["code"] = None
    return Claim(**fields)


class Claimed(msgspec.Struct, frozen=True):
    """One claimed task, and the token of the run that was opened for it."""

    task: Task
    token: str


class Sign(msgspec.Struct, frozen=True, omit_defaults=True):
    """A renewal of the run that a token names; answered by a `Verdict`."""

    token: str
    lease_ms: int
    heartbeat: bool = False
    progress: int | None = None
    message: str | None = None


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the run that a token names ended; answered by an `Outcome`."""

    token: str
    event: Event
    fields: dict[str, Any] = {}
    progress: int | None = None
    message: str = ""
    heartbeat_at: int = 0
    follow_ups: tuple[Submission, ...] = ()  #: of a completed run


class Which(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tasks, and what is to be done to them."""

    ids: list[str]
    event: Event | None = None
    fields: dict[str, Any] = {}
    force: bool = False


class OfEdit(msgspec.Struct, frozen=True):
    """A task, its new arguments (JSON) and the id of its successor; answered by an `Outcome`."""

    id: str
    args: bytes
    successor: str


class After(msgspec.Struct, frozen=True):
    """Events after a cursor."""

    cursor: str
    limit: int = 500


class OfQueue(msgspec.Struct, frozen=True):
    """Changes to a queue's configuration."""

    name: str
    changes: dict[str, Any]


class NamedQueue(msgspec.Struct, frozen=True):
    """A queue by its name."""

    name: str


class OfPolicy(msgspec.Struct, frozen=True):
    """A named retry policy, and what it is to be."""

    name: str
    options: dict[str, Any] = {}


class OfTypes(msgspec.Struct, frozen=True):
    """Task types to be published."""

    types: list[TypeInfo]


class OfQueueHistory(msgspec.Struct, frozen=True, omit_defaults=True):
    """The days that are asked for, and the queue, or all."""

    days: int
    queue: str | None = None


class OfLetterGroups(msgspec.Struct, frozen=True, omit_defaults=True):
    """How many dead letters are to be looked at, of a queue and a name, or of all."""

    look: int
    queue: str | None = None
    name: str | None = None
    cursor: str = ""


class OfMinutes(msgspec.Struct, frozen=True, omit_defaults=True):
    """The minutes that are asked for, of the queue or type of a name, or of all."""

    minutes: int
    name: str | None = None
    by_type: bool = False


class OfAudit(msgspec.Struct, frozen=True, omit_defaults=True):
    """How many acts by hand are asked for, and of which actor; None: of all."""

    limit: int
    actor: str | None = None


class OfDependents(msgspec.Struct, frozen=True, omit_defaults=True):
    """The task whose dependents are asked for, after which of them, and how many."""

    id: str
    cursor: str = ""
    limit: int = 100


class OfClaiming(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Which workers are asked for: a page of those of a queue, or one; or a page of queues."""

    queue: str = ""
    worker: str = ""
    cursor: str = ""
    limit: int = 100
    in_quarantine: bool | None = None
    until: int = 0  #: of a quarantine, ms UTC
    by: str = ""
    info: str = ""


class OfRuns(msgspec.Struct, frozen=True):
    """Runs of one worker, by their tasks."""

    worker: str
    ids: list[str]


class OfGroup(msgspec.Struct, frozen=True):
    """The id of a group."""

    name: str


class OfWaits(msgspec.Struct, frozen=True, omit_defaults=True):
    """The queues, or all, or the one task of which it is asked what they wait for."""

    queues: list[str] = []
    task: str = ""


class OfRun(msgspec.Struct, frozen=True):
    """The run that a token names."""

    token: str


class Attention(msgspec.Struct, frozen=True, omit_defaults=True):
    """POST attend: topics to send hints for, tasks to watch; answered by a stream of frames."""

    topics: list[str] = []
    tasks: list[str] = []


class Frame(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of an attention stream. An empty one is a keepalive."""

    ready: bool = False  #: every topic is subscribed to, every task was read once
    topics: list[str] = []  #: were hinted
    task: str = ""  #: this task: its record, why there is none, or that it has ended
    record: Task | None = None
    error: Problem | None = None
    done: bool = False


_COMMANDS: dict[Event, type[Command]] = {
    kind.event: kind
    for kind in vars(commands).values()
    if isinstance(kind, type) and issubclass(kind, Command) and kind is not Command
}

CONTROL_EVENTS = frozenset(
    {
        Event.RERUN,
        Event.RUN_NOW,
        Event.SCHEDULE,
        Event.RESCHEDULE,
        Event.REPRIORITISE,
        Event.ARCHIVE,
        Event.DELETE,
    }
)
"""What may be done to tasks by `act`."""


_RESOLVED = {
    "births": "Definitions are made by the service; send what is to be borne in `follow_ups`.",
    "schedule": "Schedules are made by the service; send what one is to be to `put_schedules`.",
}
"""Commands that would carry whole records to store, and the request to send instead. A client may
not send such records: the service resolves and checks a submission, as for any submit."""


def fields_of(command: Command) -> dict[str, Any]:
    """The fields of a command beside its event."""
    names = command.__struct_fields__
    return {name: getattr(command, name) for name in names if name not in _RESOLVED}


def command_of(event: Event, fields: dict[str, Any]) -> Command:
    """The command of an event. Raises `InvalidSubmission` naming the field at fault."""
    for name, instead in _RESOLVED.items():
        if fields.get(name):
            raise InvalidSubmission(instead, field="fields")
    try:
        return msgspec.convert(fields, _COMMANDS[event], builtin_types=())
    except msgspec.ValidationError as error:
        raise InvalidSubmission(f"{event.value}: {error}.", field="fields") from None


def outcome_of(done: Submitted | ActionResult, error: AndonError | None) -> Outcome:
    """The wire form of an outcome of the engine, with its error as the caller may read it."""
    yes = done.created if isinstance(done, Submitted) else done.changed
    return Outcome(done.id, done.state, yes, None if error is None else problem_of(error))


def submitted(outcome: Outcome) -> Submitted:
    """The outcome of a submission."""
    return Submitted(outcome.id, outcome.state, outcome.yes, _error(outcome.error))


def acted(outcome: Outcome) -> ActionResult:
    """The outcome of an act."""
    return ActionResult(outcome.id, outcome.state, outcome.yes, _error(outcome.error))


def _error(problem: Problem | None) -> AndonError | None:
    return None if problem is None else error_of(problem)


class Packed(NamedTuple):
    """The wire form of one item of a batch, and its place there."""

    place: int
    body: bytes


def packed(items: Iterable[object]) -> tuple[list[Packed], dict[int, str]]:
    """The wire forms of the items; and why some cannot be sent, by place (docs/rulings.md, R36)."""
    good: list[Packed] = []
    bad: dict[int, str] = {}
    for place, item in enumerate(items):
        try:
            good.append(Packed(place, encode(item)))
        except AT_FAULT as error:
            bad[place] = f"It cannot be sent: {error}."
    return good, bad


def in_groups(items: Iterable[Packed], most: int) -> Iterator[list[Packed]]:
    """So many items as one request takes: at most `most`, and `MOST_BYTES`."""
    group: list[Packed] = []
    size = 0
    for one in items:
        if group and (len(group) >= most or size + len(one.body) > MOST_BYTES):
            yield group
            group, size = [], 0
        group.append(one)
        size += len(one.body)
    if group:
        yield group


def body_of(group: Sequence[Packed]) -> bytes:
    """A group as a JSON array."""
    return b"[" + b",".join([one.body for one in group]) + b"]"


encode = msgspec.json.Encoder().encode
decode_outcomes = msgspec.json.Decoder(list[Outcome]).decode
decode_outcome = msgspec.json.Decoder(Outcome).decode
decode_claimed = msgspec.json.Decoder(list[Claimed]).decode
decode_verdicts = msgspec.json.Decoder(list[Verdict]).decode
decode_frame = msgspec.json.Decoder(Frame).decode
