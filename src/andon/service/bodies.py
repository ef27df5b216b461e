"""Bodies of requests. Every struct refuses fields that it does not have.

Times are ISO 8601 with a zone, or whole milliseconds since 1970 UTC; durations are seconds.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

Moment = Annotated[
    str | int,
    Meta(
        description="ISO 8601 with a zone, or whole milliseconds since 1970 UTC.",
        examples=["2030-01-15T10:30:00Z"],
    ),
]
TaskId = Annotated[str, Meta(description="1 to 64 of A-Z a-z 0-9 _ : -", examples=["resize-4711"])]
Name = Annotated[str, Meta(description="1 to 128 of A-Z a-z 0-9 _ . / : -")]
Priority = Annotated[
    int | str,
    Meta(description="-4 to 5, higher first, or a name from lowest to highest.", examples=[0]),
]


NO_ARGUMENTS = msgspec.Raw(b"{}")
"""The arguments of a request that names none: this very object, so that it can be recognised."""


def _no_arguments() -> msgspec.Raw:
    return NO_ARGUMENTS


class NewTask(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, gc=False):
    """A task to submit. With an `id` of your own the same request may be repeated safely."""

    name: Annotated[Name, Meta(examples=["resize"])]
    args: Annotated[
        msgspec.Raw,
        Meta(
            description="Named arguments (an object), positional ones (an array), or one value.",
            examples=[{"path": "/in/4711.png", "width": 640}],
        ),
    ] = msgspec.field(default_factory=_no_arguments)
    payload_base64: Annotated[
        bytes | None,
        Meta(
            description="Instead of `args`: bytes, in base64, as the one argument. Python handlers "
            "take them as `bytes`; `args` shows them in base64.",
            examples=["aGVsbG8="],
        ),
    ] = None
    id: TaskId | None = None
    version: Annotated[int, Meta(ge=0, le=2_147_483_647)] = 0
    queue: Name | None = None
    priority: Priority = 0
    delay: float | None = None
    run_at: Moment | None = None
    deadline_in: float | None = None
    deadline: Moment | None = None
    expires_at: Moment | None = None
    depends_on: list[TaskId] = []
    requires: Literal["all-completed", "all-resolved"] = "all-completed"
    needs: Annotated[
        int | None,
        Meta(description="How many of `depends_on` must end as `requires` says; else all."),
    ] = None
    load_dependencies: bool = False
    unique: Annotated[
        bool, Meta(description="Derive the unique key from the name and the arguments.")
    ] = False
    unique_key: str | None = None
    on_held: Annotated[
        Literal["refuse", "supersede", "extend"],
        Meta(
            description="If another task holds the unique key: refuse with its id; supersede it "
            "(one that waits is cancelled, the end of an active one is waited for); extend: "
            "supersede it, and start after `delay` anew."
        ),
    ] = "refuse"
    supersede_active: Annotated[
        bool, Meta(description="Ask a holder that is active to cancel, too.")
    ] = False
    max_delay: Annotated[
        float | None,
        Meta(description="extend: seconds from the first submit by which the start is put off."),
    ] = None
    key: Annotated[str | None, Meta(description="Concurrency key.")] = None
    group: str | None = None
    group_owner: Annotated[
        str | None,
        Meta(
            description="Keep a record of the group: it refuses tasks of other owners, and all "
            "once it is sealed."
        ),
    ] = None
    tags: list[str] = []
    headers: dict[str, str] = {}
    scopes: list[str] = []
    options: Annotated[
        dict[str, Any],
        Meta(description="Policy options of this task.", examples=[{"max_retries": 5}]),
    ] = {}


class Bulk(msgspec.Struct, forbid_unknown_fields=True):
    """Tasks to submit together. Each stands alone; they may depend on one another."""

    tasks: list[NewTask]


class Select(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which tasks, by what they are. Everything named must hold."""

    states: Annotated[
        list[str], Meta(description="Names of states, Andon's own or those of `as`.")
    ] = []
    queue: str | None = None
    name: str | None = None
    tag: str | None = None
    key: str | None = None
    group: str | None = None
    worker: str | None = None
    fingerprint: Annotated[
        str | None, Meta(description="Of the error: one of a group of dead letters.")
    ] = None


class Which(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which tasks to act on: `ids`, or a `filter`, or `all`."""

    ids: list[TaskId] | None = None
    filter: Select | None = None
    all: bool = False
    limit: Annotated[int, Meta(ge=1, description="At most so many in this request.")] | None = None
    dry_run: Annotated[bool, Meta(description="Only say which tasks it would be.")] = False


Action = Literal[
    "cancel",
    "retry",
    "rerun",
    "run-now",
    "schedule",
    "reschedule",
    "reprioritise",
    "archive",
    "delete",
]


class Act(Which, forbid_unknown_fields=True, kw_only=True):
    """The same done to many tasks."""

    action: Action
    force: Annotated[
        bool, Meta(description="cancel: running tasks at once. delete: also what others need.")
    ] = False
    run_at: Annotated[Moment | None, Meta(description="rerun, reschedule.")] = None
    deadline: Annotated[Moment | None, Meta(description="rerun.")] = None
    keep_budget: Annotated[bool, Meta(description="rerun: the tries used still count.")] = False
    blocked: Annotated[bool, Meta(description="rerun: what is blocked, too.")] = False
    priority: Annotated[Priority | None, Meta(description="reprioritise.")] = None


class RemovedWorker(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A worker that is gone for good."""

    worker: Annotated[str, Meta(description="Its id, as lists of workers have it.")]
    dry_run: Annotated[bool, Meta(description="Only say which tasks it runs.")] = False


class Editing(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The arguments of the successor. With an `id` for it the same request may be repeated."""

    args: Annotated[
        msgspec.Raw,
        Meta(description="An object, an array, or one value.", examples=[{"width": 320}]),
    ]
    id: TaskId | None = None


class Cancelling(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How to cancel."""

    force: Annotated[bool, Meta(description="A running task too, without waiting for it.")] = False


class Rerunning(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How to run again what has ended."""

    run_at: Moment | None = None
    deadline: Annotated[
        Moment | None, Meta(description="A new one; needed where the old one has passed.")
    ] = None
    keep_budget: Annotated[bool, Meta(description="The tries used still count, but for one.")] = (
        False
    )
    blocked: Annotated[
        bool, Meta(description="A task that waits for its dependencies, too: it runs without them.")
    ] = False


class Rescheduling(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """When to start instead."""

    run_at: Moment


class Reprioritising(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which priority instead."""

    priority: Priority


class RerunningFlow(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How to run a flow again."""

    failed_only: Annotated[
        bool, Meta(description="Only what did not complete, and what follows it.")
    ] = True


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """An empty object; the body may be left out."""


class QueueChanges(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Settings of a queue to change; null takes a limit away, what is left out stays."""

    paused: bool | UnsetType = UNSET
    max_concurrent: int | UnsetType | None = UNSET
    max_concurrent_per_key: int | UnsetType | None = UNSET
    rate_limit: Annotated[float | UnsetType | None, Meta(description="Claims a second.")] = UNSET
    rate_burst: int | UnsetType | None = UNSET
    max_size: int | UnsetType | None = UNSET
    on_full: Literal["reject", "discard-old"] | UnsetType = UNSET
    weight: int | UnsetType = UNSET
    policy: Annotated[
        dict[str, Any] | UnsetType, Meta(description="The defaults of its tasks' policy, whole.")
    ] = UNSET


class NewQueue(QueueChanges, forbid_unknown_fields=True, kw_only=True):
    """A queue to make, with its settings."""

    name: Name


class Purging(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How to purge a queue."""

    force: Annotated[
        bool, Meta(description="Running tasks too, and what tasks elsewhere still need.")
    ] = False


class NewJob(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A job, as cbintel's API takes it."""

    type: Annotated[Name, Meta(examples=["crawl"])]
    params: Annotated[
        msgspec.Raw, Meta(description="An object.", examples=[{"query": "andon"}])
    ] = msgspec.field(default_factory=_no_arguments)
    max_retries: int | None = None
    retry_on: Annotated[
        list[str] | None, Meta(description="Codes of errors to retry; only these.")
    ] = None
    no_retry_on: Annotated[list[str] | None, Meta(description="Codes never to retry.")] = None
    job_id: Annotated[
        TaskId | None,
        Meta(description="An id of your own, so that the request may be repeated safely."),
    ] = None
    queue: Annotated[
        Name | None,
        Meta(description="The queue that the job goes to, if it was signed: another is refused."),
    ] = None
    signature: Annotated[
        str | None, Meta(description="Of the job, as docs/signing.md says; needs its `job_id`.")
    ] = None


class NewLine(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A line of a run's log."""

    text: str
    level: Literal["debug", "info", "warning", "error", "critical"] = "info"
    at: Annotated[Moment | None, Meta(description="Default: when it was received.")] = None


class NewLines(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Lines to add to a run's log."""

    lines: list[NewLine]
    number: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=9_007_199_254_740_991,
                description="Greater than those before it; the same number again replaces that "
                "piece, so that a request whose answer was lost can be repeated. Default: by time.",
            ),
        ]
        | None
    ) = None
