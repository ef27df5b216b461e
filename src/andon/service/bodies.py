"""What requests carry. Every struct refuses fields that it does not have.

Times are ISO 8601 with a zone, or whole milliseconds since 1970 UTC; durations are seconds.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

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


class NewTask(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, gc=False):
    """A task to submit. With an `id` of your own the same request may be repeated safely."""

    name: Annotated[Name, Meta(examples=["resize"])]
    args: Annotated[
        msgspec.Raw,
        Meta(
            description="Named arguments (an object), positional ones (an array), or one value.",
            examples=[{"path": "/in/4711.png", "width": 640}],
        ),
    ] = msgspec.Raw(b"{}")
    id: TaskId | None = None
    version: int = 0
    queue: Name | None = None
    priority: Priority = 0
    delay: float | None = None
    run_at: Moment | None = None
    deadline_in: float | None = None
    deadline: Moment | None = None
    expires_at: Moment | None = None
    depends_on: list[TaskId] = []
    requires: Literal["all-completed", "all-resolved"] = "all-completed"
    load_dependencies: bool = False
    unique: Annotated[
        bool, Meta(description="Derive the unique key from the name and the arguments.")
    ] = False
    unique_key: str | None = None
    key: Annotated[str | None, Meta(description="Concurrency key.")] = None
    group: str | None = None
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
