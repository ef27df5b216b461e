"""Scopes: what a caller may do, as strings, and whether one satisfies another. Pure.

A scope is a word such as `tasks:create:mail`. A pattern that ends in `*` allows every scope that
begins with what stands before the star. A star anywhere else is an ordinary character, so a scope
that itself ends in `*` is satisfied by the same pattern or a wider one only.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from andon.model.errors import PermissionRefused

EVERYTHING = "*"
"""The pattern that allows every scope."""


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


class Submitted(Protocol):
    """The fields of a submission that decide which scopes it needs."""

    @property
    def scopes(self) -> tuple[str, ...]:
        """What the task may do in the name of its submitter."""
        ...

    @property
    def on_held(self) -> object:
        """What is done to the holder of its unique key; None or `refuse`: nothing."""
        ...


def needed_to_submit(task: Submitted, queue: str) -> list[str]:
    """The scopes needed to submit such a task to that queue, in any way: by itself or in bulk, as a
    schedule's, a follow-up, or what takes an edited task's place.

    A caller that gives a task scopes must have them (docs/rulings.md, R29). One that supersedes or
    delays the holder of its unique key changes a task of the same queue.
    """
    needed = [f"tasks:create:{queue}", *task.scopes]
    if task.on_held not in (None, "refuse"):
        needed.append(f"tasks:change:{queue}")
    return needed
