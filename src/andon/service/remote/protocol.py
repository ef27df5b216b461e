"""Requests and answers of workers in other languages: plain JSON, durations in seconds. Pure.

docs/worker-protocol.md explains every field. A claimed run ends in its `args`, so that even a shell
can cut them out.
"""

import secrets
from base64 import b64encode
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from andon.contract.requests import ClaimRequest
from andon.lifecycle.bounds import LARGEST_COUNT
from andon.lifecycle.commands import (
    Command,
    Complete,
    Fail,
    Interrupted,
    Reject,
    Release,
    Snooze,
    Terminate,
    UnknownTask,
)
from andon.lifecycle.faces.fields import maybe_iso
from andon.lifecycle.statements import parsed, statement
from andon.lifecycle.timers import run_timeout
from andon.model.code import Code
from andon.model.errors import InvalidSubmission
from andon.model.headers import SIGNATURE_HEADER
from andon.model.task import Definition, Task, TaskError
from andon.model.words import Reason
from andon.service.bodies import NewTask

Kind = Literal["error", "timeout", "intermittent", "terminated"]
Why = Literal[
    "worker-shutdown",
    "malformed-payload",
    "signature-refused",
    "result-invalid",
    "resource-unavailable",
    "internal-error",
    "intermittent-task",
    "unknown-task",
    "cancelled",
]
Token = Annotated[str, Meta(description="The run token that came with the claim.")]
Percent = Annotated[int, Meta(ge=0, le=100, description="How far the run is.")]


class Claim(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What a worker has room for."""

    worker: Annotated[
        str, Meta(min_length=1, max_length=128, description="Its id, unique in the fleet.")
    ]
    queues: Annotated[
        list[Annotated[str, Meta(pattern="^[A-Za-z0-9_./:-]{1,128}$")]],
        Meta(min_length=1, description="In the order they are to be asked."),
    ] = msgspec.field(default_factory=lambda: ["default"])
    limit: Annotated[int, Meta(ge=1, le=1000, description="Most runs.")] = 1
    lease: Annotated[
        float, Meta(gt=0, le=86_400, description="Seconds that the claim holds unrenewed.")
    ] = 30.0
    wait: Annotated[
        float, Meta(ge=0, description="Seconds to wait for a task; the service has a limit.")
    ] = 0.0
    token: Annotated[
        str,
        Meta(max_length=128, description="Random. The same claim again gives the same runs."),
    ] = ""
    room: Annotated[
        dict[str, Annotated[int, Meta(ge=0, le=LARGEST_COUNT)]],
        Meta(description="Task name to runs there is room for; else unlimited."),
    ] = {}
    types: (
        Annotated[
            list[Annotated[str, Meta(pattern=r"^[A-Za-z0-9_./:-]{0,128}\*?(@[0-9]{1,18})?$")]],
            Meta(
                description="What the worker has code for: name, name@2 for a version, name* for "
                "all that begin so. It gets nothing else. Left out: everything."
            ),
        ]
        | None
    ) = None
    code: Annotated[
        str,
        Meta(
            max_length=64,
            description="Instead of `types`: the `code` that the answer to them had.",
        ),
    ] = ""
    statements: Annotated[
        bool, Meta(description="Give the signed bytes of signed tasks, for who checks them.")
    ] = False

    def request(self, partition: int, code: Code | None) -> ClaimRequest:
        """The claim on one partition of the store."""
        return ClaimRequest(
            worker=self.worker,
            token=self.token,
            queues=tuple(self.queues),
            limit=self.limit,
            lease_ms=max(1, round(self.lease * 1000)),
            room=self.room,
            partition=partition,
            code=code,
        )

    def listed(self) -> Code | None:
        """The types it names, if it names any list. Raises `InvalidSubmission`."""
        if self.types is None:
            return None
        return Code.of(map(_type_of, self.types))


def _type_of(text: str) -> tuple[str, int]:
    name, _, version = text.partition("@")
    if not name:
        raise InvalidSubmission(f"{text!r} names no task type.", field="types")
    return name, int(version or 0)


def with_token(claim: Claim) -> Claim:
    """The claim, with a token of its own if it came without."""
    return claim if claim.token else msgspec.structs.replace(claim, token=secrets.token_hex(8))


class ClaimedRun(msgspec.Struct, kw_only=True):
    """One run that the worker now holds."""

    task_id: str
    run: int  #: its number, from 0
    token: str  #: speaks for this run
    name: str
    version: int
    queue: str
    attempt: int  #: which try this is, of those that count, from 1
    fence: int  #: grows with every run of the task
    lease: float  #: seconds that a renewal holds
    lease_until: str | None
    timeout: float | None  #: seconds that the run may take
    deadline: str | None
    max_heartbeat_interval: float | None  #: seconds
    on_shutdown: str
    dependencies: list[str]
    load_dependencies: bool
    headers: dict[str, str]
    statement: str | UnsetType = UNSET  #: where asked for and signed: the signed bytes, base64
    args: msgspec.Raw


class Claimed(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The answer to a claim. No runs: there was nothing to do."""

    code: str | None = None  #: stands for the `types` of the claim in the claims that follow
    runs: list[ClaimedRun]


def claimed_run(task: Task, token: str, args: bytes, *, statements: bool = False) -> ClaimedRun:
    """A claimed task as its worker sees it; its arguments must be known to be JSON."""
    definition, status, policy = task.definition, task.status, task.policy
    timeout = run_timeout(task.status, task.policy)
    return ClaimedRun(
        task_id=task.id,
        run=status.runs[-1].number,
        token=token,
        name=definition.name,
        version=definition.version,
        queue=definition.queue,
        attempt=status.tries + 1,
        fence=status.fence,
        lease=policy.lease,
        lease_until=maybe_iso(None if task.cell is None else task.cell.lease_until),
        timeout=None if timeout is None else timeout / 1000,
        deadline=maybe_iso(status.deadline),
        max_heartbeat_interval=policy.max_heartbeat_interval,
        on_shutdown=policy.on_shutdown,
        dependencies=list(definition.dependencies),
        load_dependencies=definition.load_dependencies,
        headers=definition.headers,
        statement=_statement(definition) if statements else UNSET,
        args=msgspec.Raw(args),
    )


def _statement(definition: Definition) -> str | UnsetType:
    """The bytes that the task's signature claims to sign. The worker checks whether it does."""
    signature = parsed(definition.headers.get(SIGNATURE_HEADER, ""))
    if signature is None:
        return UNSET
    return b64encode(statement(definition, signature.not_after)).decode()


class Renew(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A renewal of one run."""

    lease: Annotated[float, Meta(gt=0, le=86_400, description="Seconds from now; default: 30.")] = (
        30.0
    )
    heartbeat: Annotated[bool, Meta(description="The work itself goes on.")] = False
    progress: Percent | None = None
    message: Annotated[str, Meta(max_length=1024)] | None = None


class RenewOne(Renew, forbid_unknown_fields=True, kw_only=True):
    """The same for one of many."""

    token: Token


class Renewals(msgspec.Struct, forbid_unknown_fields=True):
    """Renewals of many runs."""

    runs: Annotated[list[RenewOne], Meta(max_length=1000)]


class Error(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What went wrong. `code` and `type` are what retry lists are held against."""

    message: str
    code: str = "ERROR"
    type: str = ""
    traceback: str = ""


class Report(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How one run ended."""

    outcome: Literal["completed", "failed", "exception", "snoozed", "released"]
    result: Annotated[msgspec.Raw, Meta(description="Of a completed run: any JSON.")] = (
        msgspec.field(default_factory=lambda: msgspec.Raw(b"null"))
    )
    error: Error | None = None
    kind: Annotated[Kind, Meta(description="Of a failed run.")] = "error"
    reason: Annotated[Why | None, Meta(description="Of an exception.")] = None
    retryable: Annotated[bool | None, Meta(description="Default: as the policy says.")] = None
    delay: (
        Annotated[float, Meta(ge=0, description="Seconds until the retry, or that a snooze lasts.")]
        | None
    ) = None
    progress: Percent | None = None
    message: Annotated[str, Meta(max_length=1024)] = ""
    follow_ups: Annotated[
        list[NewTask],
        Meta(
            description="Of a completed run: tasks that exist if and only if this report is "
            "taken. Whoever reports needs the scopes to submit them."
        ),
    ] = []


class ReportOne(Report, forbid_unknown_fields=True, kw_only=True):
    """The same for one of many."""

    token: Token


class Reports(msgspec.Struct, forbid_unknown_fields=True):
    """How many runs ended."""

    reports: Annotated[list[ReportOne], Meta(max_length=1000)]


_LONGEST_S = 1e12
"""Far beyond any delay that is taken, and few enough to count in."""

_FAILED: dict[str, Reason] = {
    "error": Reason.ERROR,
    "timeout": Reason.TIMEOUT,
    "intermittent": Reason.INTERMITTENT_TASK,
}
_REJECTED: dict[str, Reason] = {
    "malformed-payload": Reason.MALFORMED_PAYLOAD,
    "signature-refused": Reason.SIGNATURE_REFUSED,
    "result-invalid": Reason.RESULT_INVALID,
    "resource-unavailable": Reason.RESOURCE_UNAVAILABLE,
}
_FAILED_BY_REASON: dict[str, Reason] = {
    "internal-error": Reason.INTERNAL_ERROR,
    "intermittent-task": Reason.INTERMITTENT_TASK,
}


def command_of(report: Report) -> Command | None:
    """What a report asks for; None: the worker shuts down, and the task's policy decides.

    Raises `InvalidSubmission` naming the field that is missing.
    """
    delay = None if report.delay is None else round(min(report.delay, _LONGEST_S) * 1000)
    if report.follow_ups and report.outcome != "completed":
        raise InvalidSubmission(
            "Only a completed run has follow-ups; leave them out of this report.",
            field="follow_ups",
        )
    match report.outcome:
        case "completed":
            return Complete(result=bytes(report.result))
        case "released":
            return Release()
        case "snoozed":
            if delay is None:
                raise InvalidSubmission("A snooze needs its delay in seconds.", field="delay")
            return Snooze(delay=delay)
        case "failed":
            if report.kind == "terminated":
                return Terminate(error=_error(report, "TERMINATED"))
            code = "TIMEOUT" if report.kind == "timeout" else "ERROR"
            return Fail(
                error=_error(report, code),
                reason=_FAILED[report.kind],
                retryable=report.retryable,
                delay=delay,
            )
        case "exception":
            return _exception(report, delay)


def _exception(report: Report, delay: int | None) -> Command | None:
    reason = report.reason
    if reason is None:
        raise InvalidSubmission("An exception needs its reason.", field="reason")
    if reason == "worker-shutdown":
        return None
    if reason == "cancelled":
        return Interrupted()
    if reason == "unknown-task":
        return UnknownTask()
    if reason in _REJECTED:
        return Reject(error=_error(report, reason), reason=_REJECTED[reason])
    return Fail(error=_error(report, reason), reason=_FAILED_BY_REASON[reason], delay=delay)


def _error(report: Report, code: str) -> TaskError:
    given = report.error
    if given is None:
        return TaskError(message=f"The worker reported {report.reason or report.kind}.", code=code)
    fields: dict[str, Any] = {**msgspec.structs.asdict(given)}
    if given.code == "ERROR":
        fields["code"] = code
    return TaskError(**fields)
