"""The messages between a worker and its child processes: JSON, each after its length.

JSON rather than pickle: what a child sends is only data, and a compromised child can do no more
than end its own run.
"""

import struct
from typing import Any

import msgspec

from andon.artifacts.base import Artifact
from andon.engine.base import Submission
from andon.lifecycle.commands import (
    Command,
    Complete,
    Fail,
    Interrupted,
    Reject,
    Snooze,
    Terminate,
    UnknownTask,
)
from andon.model.task import Task
from andon.worker.dependency import Dependency

HEADER = struct.Struct(">I")
"""The length of a frame in bytes."""

END_OF_OUTPUT = "\x1eandon-end:"
"""Followed by the run's id: what a child prints up to here belongs to that run."""

COMMANDS: dict[str, type[Command]] = {
    kind.__name__: kind
    for kind in (Complete, Fail, Interrupted, Reject, Snooze, Terminate, UnknownTask)
}
"""The ends a child may report."""


class Hello(msgspec.Struct, frozen=True, tag=True):
    """First frame to a child: where its handlers are."""

    app: str  #: module:attribute of a registry, or of what has one
    path: list[str]  #: the worker's `sys.path`
    main: str = ""  #: file to run for handlers that live in `__main__`
    log_level: int = 0


class Work(msgspec.Struct, frozen=True, tag=True):
    """A run to carry out."""

    task: Task
    worker: str
    max_payload: int
    dependencies: dict[str, Dependency] = {}


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The child has imported the application."""


class Broken(msgspec.Struct, frozen=True, tag=True):
    """The child could not import the application."""

    message: str


class Begun(msgspec.Struct, frozen=True, tag=True):
    """The child took the run; from here on its handler may have done something."""


class Mark(msgspec.Struct, frozen=True, tag=True):
    """A heartbeat of the handler; `percent` is its newest progress, None before the first."""

    percent: int | None
    message: str


class Log(msgspec.Struct, frozen=True, tag=True):
    """A record that was logged in the child."""

    logger: str
    level: int
    message: str


class Keep(msgspec.Struct, frozen=True, tag=True):
    """The handler wants a file kept as an artifact; it waits for `Kept`."""

    path: str
    name: str
    content_type: str
    expires_in: float | None


class Kept(msgspec.Struct, frozen=True, tag=True):
    """The answer: the artifact, or why not."""

    artifact: Artifact | None = None
    error: str = ""


class Ended(msgspec.Struct, frozen=True, tag=True):
    """The handler has ended; the child is free for the next run."""

    command: str
    fields: msgspec.Raw
    follow_ups: tuple[Submission, ...] = ()

    @classmethod
    def of(cls, command: Command, follow_ups: tuple[Submission, ...] = ()) -> "Ended":
        """The frame that carries a command, and the follow-ups of the run."""
        fields = msgspec.Raw(msgspec.json.encode(command))
        return cls(type(command).__name__, fields, follow_ups)

    def decode(self) -> Command:
        """The command carried."""
        return msgspec.json.decode(self.fields, type=COMMANDS[self.command])


ToChild = Hello | Work | Kept
ToParent = Ready | Broken | Begun | Mark | Log | Keep | Ended

to_child = msgspec.json.Decoder(ToChild)
to_parent = msgspec.json.Decoder(ToParent)


def pack(frame: Any) -> bytes:
    """A frame with its length before it."""
    data = msgspec.json.encode(frame)
    return HEADER.pack(len(data)) + data
