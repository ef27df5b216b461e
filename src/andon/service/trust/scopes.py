"""Scopes: which there are, which a submit needs, and which texts are none. Pure.

Whether one satisfies another is decided in `andon.model.scopes`.
"""

import re

from andon.engine.base import Submission
from andon.model.errors import ConfigurationError
from andon.model.task import Definition

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
    "admin:": "administer: `admin:tokens`, `admin:storage`, `admin:workers`, `admin:audit`, "
    "`admin:alerts`",
}
"""What the service itself asks for; a kind that ends in a colon is followed by a name."""

_SCOPE = re.compile(r"[\x20-\x7e]{1,4096}\Z")


def needed_to_submit(task: Submission | Definition, queue: str) -> list[str]:
    """The scopes that it takes to submit such a task to that queue, whichever way it comes: by
    itself or in bulk, as a schedule's, a follow-up, or what takes an edited task's place.

    Whoever gives a task scopes must have them (docs/rulings.md, R29). One that supersedes or delays
    the holder of its unique key changes a task of the same queue.
    """
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
