"""The list of scopes, and the check of a scope's text. Pure.

Whether one satisfies another, and which a submit needs, is decided in `andon.model.scopes`.
"""

import re

from andon.model.errors import ConfigurationError

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
"""The scopes that the service itself checks; a kind that ends in a colon is followed by a name."""

_SCOPE = re.compile(r"[\x20-\x7e]{1,4096}\Z")


def check(scope: str) -> str:
    """The scope, if it can be one. Raises `ConfigurationError`."""
    if not _SCOPE.match(scope):
        raise ConfigurationError(
            f"{scope[:80]!r} is no scope: 1 to 4096 printable ASCII characters."
        )
    if scope.endswith("**"):
        raise ConfigurationError(f"The scope {scope[:80]!r} ends in two stars; one is enough.")
    return scope
