"""The exchanges, what a message is, and its routing key. Pure."""

from collections.abc import Sequence
from enum import StrEnum
from hashlib import blake2b
from typing import Any

import msgspec

PREFIX = "exchange/taskcluster-queue/v1/"
"""The names of all exchanges begin so."""

_MOST_BYTES = 255
"""Of a routing key: AMQP takes no longer one."""

_encode = msgspec.json.Encoder().encode


class Exchange(StrEnum):
    """The exchanges, by the last part of their names."""

    TASK_DEFINED = "task-defined"
    TASK_PENDING = "task-pending"
    TASK_RUNNING = "task-running"
    ARTIFACT_CREATED = "artifact-created"
    TASK_COMPLETED = "task-completed"
    TASK_FAILED = "task-failed"
    TASK_EXCEPTION = "task-exception"
    TASK_PRIORITY_CHANGED = "task-priority-changed"
    TASK_GROUP_RESOLVED = "task-group-resolved"
    TASK_GROUP_SEALED = "task-group-sealed"
    TASK_GROUP_PRIORITY_CHANGED = "task-group-priority-changed"

    @property
    def full_name(self) -> str:
        """The name by which clients bind to it."""
        return PREFIX + self.value


ALL = frozenset(Exchange)
"""Every exchange."""


def exchange_named(name: str) -> Exchange:
    """The exchange of a full name, or of its last part alone. Raises `ValueError`."""
    return Exchange(name.removeprefix(PREFIX))


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message, as every sink delivers it."""

    exchange: Exchange
    id: str  #: the same whenever this message is delivered again
    at: int  #: when the event that it is about happened, ms UTC
    lane: str  #: messages of one lane are delivered in order; others beside one another
    routing_key: str
    routes: tuple[str, ...] = ()  #: further routing keys, those that the task asks for
    document: dict[str, Any]

    @property
    def keys(self) -> tuple[str, ...]:
        """Every routing key."""
        return (self.routing_key, *self.routes)

    @property
    def body(self) -> bytes:
        """The document as JSON."""
        return _encode(self.document)

    @property
    def envelope(self) -> bytes:
        """The document with its exchange and key, as JSON: for receivers that do not get these
        beside it."""
        return _encode(
            {
                "id": self.id,
                "exchange": self.exchange.full_name,
                "routingKey": self.routing_key,
                "routes": [key.removeprefix("route.") for key in self.routes],
                "redelivered": False,
                "payload": self.document,
            }
        )


def id_of(*parts: object) -> str:
    """An id for what is named by these parts."""
    return blake2b("\n".join(map(str, parts)).encode(), digest_size=16).hexdigest()


def task_key(
    *,
    task_id: str,
    run: int | None,
    worker: tuple[str, str] | None,
    queue: tuple[str, str],
    scheduler_id: str,
    group: str,
) -> str:
    """The routing key of a message about a task. `worker` and `queue` in their two parts."""
    return _key(
        [
            task_id,
            "_" if run is None else str(run),
            *(worker or ("_", "_")),
            *queue,
            scheduler_id,
            group,
            "_",
        ]
    )


def group_key(group: str, scheduler_id: str) -> str:
    """The routing key of a message about a group."""
    return _key([group, scheduler_id, "_"])


def route_key(route: str) -> str:
    """The routing key that a route of a task asks for."""
    return f"route.{route}"


def _key(words: Sequence[str]) -> str:
    """A key of these words after the first. A dot in one of them, which only a worker's name can
    have that came by another way than the face, would shift those behind it."""
    key = ".".join(["primary", *(word.replace(".", "-") for word in words)])
    return key.encode()[:_MOST_BYTES].decode(errors="ignore")
