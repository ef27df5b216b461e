"""Bodies of requests. Every form is closed: an unknown property is refused."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from andon.service.taskcluster import patterns
from andon.service.taskcluster.times import Moment, read

Slugid = Annotated[str, Meta(pattern=patterns.SLUGID)]
Identifier = Annotated[str, Meta(pattern=patterns.IDENTIFIER)]
TaskQueue = Annotated[str, Meta(pattern=patterns.TASK_QUEUE)]
Priority = Literal["highest", "very-high", "high", "medium", "low", "very-low", "lowest"]
Text = Annotated[str, Meta(max_length=255)]
LongText = Annotated[str, Meta(max_length=4_096)]
Scope = Annotated[str, Meta(pattern=r"^[\x20-\x7e]*\Z")]
Object = msgspec.Raw
"""An object whose insides are the sender's own; kept as it came."""

MOST_DEPENDENCIES = 10_000
MOST_CLAIMS = 32
MOST_QUEUES = 1_000


class Input(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """The body of a request."""

    def check(self) -> str:
        """Errors that the types of the fields do not find; empty if there are none."""
        return ""


class Metadata(Input, frozen=True, kw_only=True):
    """Who a task is of, and what for."""

    name: Text
    description: Annotated[str, Meta(max_length=32_768)]
    owner: Text
    source: Annotated[str, Meta(max_length=4_096, pattern=r"^(https?://|ssh://|git@)")]


class NewTask(Input, frozen=True, kw_only=True):
    """The definition of a task, as it is sent."""

    provisioner_id: Identifier | UnsetType = UNSET
    worker_type: Annotated[str, Meta(pattern=patterns.WORKER_TYPE)] | UnsetType = UNSET
    task_queue_id: TaskQueue | UnsetType = UNSET
    scheduler_id: Identifier = "-"
    project_id: Annotated[str, Meta(pattern=r"^[a-zA-Z0-9._/-]{1,500}\Z")] = "none"
    task_group_id: Slugid | UnsetType = UNSET
    dependencies: Annotated[list[Slugid], Meta(max_length=MOST_DEPENDENCIES)] = []
    requires: Literal["all-completed", "all-resolved"] = "all-completed"
    routes: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=249)]], Meta(max_length=64)
    ] = []
    priority: Priority = "lowest"
    retries: Annotated[int, Meta(ge=0, le=49)] = 5
    created: Moment
    deadline: Moment
    expires: Moment | UnsetType = UNSET
    scopes: list[Scope] = []
    payload: Object
    metadata: Metadata
    tags: dict[str, LongText] = {}
    extra: Object = Object(b"{}")

    def check(self) -> str:
        for name, given in (("dependencies", self.dependencies), ("routes", self.routes)):
            if given and len(set(given)) != len(given):
                return f"An entry of {name} is given twice"
        for name, raw in (("payload", self.payload), ("extra", self.extra)):
            if not bytes(raw).lstrip().startswith(b"{"):
                return f"{name} must be an object"
        return ""


class TaskIds(Input, frozen=True, kw_only=True):
    """Which tasks."""

    task_ids: list[Slugid]


class TaskQueueIds(Input, frozen=True, kw_only=True):
    """Which task queues."""

    task_queue_ids: Annotated[list[TaskQueue], Meta(max_length=MOST_QUEUES)]

    def check(self) -> str:
        unique = len(set(self.task_queue_ids)) == len(self.task_queue_ids)
        return "" if unique else "An entry of taskQueueIds is given twice"


class ClaimWork(Input, frozen=True, kw_only=True):
    """The worker that claims work, and how much."""

    worker_group: Identifier
    worker_id: Identifier
    tasks: Annotated[int, Meta(ge=1, le=MOST_CLAIMS)] = 1


class Completed(Input, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """Nothing; but old workers say here whether the run succeeded."""

    success: bool = True


class Exceptional(Input, frozen=True, kw_only=True):
    """Why a run ended without a result."""

    reason: Literal[
        "worker-shutdown",
        "malformed-payload",
        "resource-unavailable",
        "internal-error",
        "intermittent-task",
    ]


class NewArtifact(Input, frozen=True, kw_only=True, tag_field="storageType"):
    """What a run leaves behind."""

    expires: Moment


class NewS3(NewArtifact, frozen=True, kw_only=True, tag="s3"):
    """A file whose bytes are sent to a URL."""

    content_type: Annotated[str, Meta(max_length=255)]
    content_length: Annotated[int, Meta(ge=0)] | UnsetType = UNSET


class NewObject(NewArtifact, frozen=True, kw_only=True, tag="object"):
    """A file that an object service keeps."""

    content_type: Annotated[str, Meta(max_length=255)]
    content_length: Annotated[int, Meta(ge=0)] | UnsetType = UNSET


class NewReference(NewArtifact, frozen=True, kw_only=True, tag="reference"):
    """A URL elsewhere."""

    content_type: Annotated[str, Meta(max_length=255)]
    url: Annotated[str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9+.-]*:\S+\Z")]


class NewLink(NewArtifact, frozen=True, kw_only=True, tag="link"):
    """Another artifact of the same run."""

    content_type: Annotated[str, Meta(max_length=255)] = "application/binary"
    artifact: Annotated[str, Meta(pattern=patterns.ARTIFACT)]


class NewError(NewArtifact, frozen=True, kw_only=True, tag="error"):
    """Why there is none."""

    reason: Literal[
        "file-missing-on-worker",
        "invalid-resource-on-worker",
        "too-large-file-on-worker",
        "file-not-readable-on-worker",
    ]
    message: LongText


AnyArtifact = NewS3 | NewObject | NewReference | NewLink | NewError
"""What createArtifact takes."""


class Finished(Input, frozen=True, kw_only=True):
    """That the bytes of an object artifact are there."""

    upload_id: Slugid


class NewPriority(Input, frozen=True, kw_only=True):
    """What a task's priority becomes."""

    new_priority: Priority


class QuarantineUntil(Input, frozen=True, kw_only=True):
    """Until when a worker gets nothing, and why."""

    quarantine_until: Moment
    quarantine_info: Annotated[str, Meta(max_length=4_000)] = ""


class Declared(Input, frozen=True, kw_only=True):
    """Until when a worker is kept."""

    expires: Moment


def _moment(kind: type[Any], value: Any) -> Any:
    if kind is not Moment:
        raise NotImplementedError
    if not isinstance(value, str):
        raise ValueError(f"Expected a date and time as text, got {type(value).__name__}")
    return Moment(read(value))


class InputDecoder:
    """Decodes bodies of one form."""

    def __init__(self, kind: type[Input]) -> None:
        self._decode = msgspec.json.Decoder(kind, dec_hook=_moment).decode

    def __call__(self, body: bytes) -> Input:
        """The decoded body. Raises `msgspec.ValidationError` where it does not fit the form."""
        given: Input = self._decode(body)
        wrong = given.check()
        if wrong:
            raise msgspec.ValidationError(wrong)
        return given
