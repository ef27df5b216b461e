"""Edges between a task and its dependents: their records, and the requests that record and settle
them."""

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
    """Notifies `child` of the end of `parent`. Idempotent.

    With `satisfied` the dependency is counted as satisfied, once. Otherwise the edge is marked as
    settled, so that it keeps no record from being deleted, and the dependency is counted among
    those that fail the child, if it can do without some; a rerun of the parent that completes can
    still satisfy it."""

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
