"""Scopes: what a token allows, as strings, and whether one satisfies another. Pure.

A scope is a word such as `tasks:create:mail`. A pattern that ends in `*` allows every scope that
begins with what stands before the star. A star anywhere else is an ordinary character, so a scope
that itself ends in `*` is satisfied by the same pattern or a wider one only.
"""

import re
from collections.abc import Iterable, Sequence

from andon.engine.base import Submission
from andon.model.errors import ConfigurationError, PermissionRefused
from andon.model.task import Definition
from andon.model.words import DEFAULT_QUEUE

EVERYTHING = "*"

KINDS = {
    "tasks:create:": "submit tasks to the queue",
    "tasks:read:": "read tasks of the queue, their history and results",
    "tasks:cancel:": "cancel tasks of the queue",
    "tasks:change:": "retry, rerun, schedule, reprioritise, archive, edit and delete its tasks",
    "queues:claim:": "run tasks of the queue",
    "queues:read:": "read the counts and the configuration of the queue",
    "queues:manage:": "make, pause, configure and delete the queue",
    "workers:read": "list workers",
    "metrics:read": "read the metrics",
    "types:publish": "publish task types and their policies, as Python workers do",
    "admin:": "administer: `admin:tokens`, `admin:storage`, `admin:workers`",
}
"""What the service itself asks for; a kind that ends in a colon is followed by a name."""

_SCOPE = re.compile(r"[\x20-\x7e]{1,4096}\Z")


def satisfies(held: Iterable[str], wanted: str) -> bool:
    """Whether one of the patterns held allows the scope wanted."""
    for pattern in held:
        if pattern in (EVERYTHING, wanted):
            return True
        if pattern.endswith("*") and wanted.startswith(pattern[:-1]):
            return True
    return False


def require(held: Sequence[str], wanted: str) -> None:
    """Raise `PermissionRefused` unless the patterns held allow the scope wanted."""
    if not satisfies(held, wanted):
        raise PermissionRefused(wanted)


def holds_some(held: Iterable[str], kind: str) -> bool:
    """Whether anything of a kind is allowed, such as claiming from whatever queue."""
    return any(
        pattern.startswith(kind) or (pattern.endswith("*") and kind.startswith(pattern[:-1]))
        for pattern in held
    )


def needed_to_submit(task: Submission | Definition) -> list[str]:
    """The scopes that it takes to submit such a task, whichever way it comes: by itself or in bulk,
    as a schedule's, a follow-up, or what takes an edited task's place.

    Whoever gives a task scopes must have them (docs/rulings.md, R29). One that supersedes or delays
    the holder of its unique key changes a task of the same queue.
    """
    queue = DEFAULT_QUEUE if task.queue is None else task.queue
    needed = [f"tasks:create:{queue}", *task.scopes]
    if task.on_held not in (None, "refuse"):
        needed.append(f"tasks:change:{queue}")
    return needed


def check(scope: str) -> str:
    """The scope, if it can be one. Raises `ConfigurationError`."""
    if not _SCOPE.match(scope):
        raise ConfigurationError(
            f"{scope[:80]!r} is no scope: 1 to 4096 printable ASCII characters."
        )
    if scope.endswith("**"):
        raise ConfigurationError(f"The scope {scope[:80]!r} ends in two stars; one is enough.")
    return scope
