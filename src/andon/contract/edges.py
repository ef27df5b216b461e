"""Edges between a task and its dependents: how they are recorded, settled and told."""

import msgspec

from andon.model.words import State


class Link(msgspec.Struct, frozen=True):
    """A blocked child names its dependencies. Idempotent."""

    child: str
    parents: tuple[str, ...]
    loads: bool = False  #: the child loads results: parents are kept until it has ended
    any_end: bool = False  #: `requires="all-resolved"`: any end of a parent satisfies it


class Ended(msgspec.Struct, frozen=True):
    """A dependency that has ended (or, state None, does not exist)."""

    child: str
    parent: str
    state: State | None
    any_end: bool


class Settlement(msgspec.Struct, frozen=True):
    """The end of `parent`, told to `child`. Idempotent.

    `satisfied` counts the dependency off, once. Otherwise the edge is marked as told, so that it
    holds nothing up, and the dependency is counted among those that fail the child, if it can do
    without some; a rerun of the parent that completes can still satisfy it.
    """

    child: str
    parent: str
    satisfied: bool


class Edge(msgspec.Struct, frozen=True):
    """One edge of a parent. A settled one stays until it is unlinked, or either task is deleted."""

    parent: str
    child: str
    loads: bool
    any_end: bool
    settled: bool
