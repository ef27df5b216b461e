"""Decides which code runs a task, and which workers may claim it (docs/rulings.md, R32). Pure.

A pending task has a *kind*: its name, its version, and whether it goes only to workers that have
code for it. A store keeps its ready tasks by queue and kind, and asks `may_claim` once for each
kind and each worker's `Code`; it knows no rule of its own.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from andon.model.code import Code
from andon.model.policy import Policy
from andon.model.task import Definition
from andon.model.words import DEFAULT_QUEUE

SEPARATORS = ".:/"

_OPEN = "?"
_VERSION = "@"


class Kind(NamedTuple):
    """The part of a pending task that decides which workers may claim it."""

    name: str
    version: int = 0
    is_open: bool = False  #: its policy says what happens without code, so any worker may claim it

    def __str__(self) -> str:
        """The text under which stores keep it: `name`, `name@2`, `name?`, `name@2?`. Neither sign
        may stand in a name (docs/rulings.md, R27)."""
        version = f"{_VERSION}{self.version}" if self.version else ""
        return f"{self.name}{version}{_OPEN if self.is_open else ''}"


def kind_of(definition: Definition, policy: Policy) -> str:
    """The kind of a pending task under the policy that is in force, as text."""
    d, is_open = definition, policy.on_unknown != "wait"
    return str(Kind(d.name, d.version, is_open)) if is_open or d.version else d.name


def parse_kind(text: str) -> Kind:
    """The kind that `str` gave this text for."""
    is_open = text.endswith(_OPEN)
    name, _, version = text.removesuffix(_OPEN).partition(_VERSION)
    return Kind(name, int(version or 0), is_open)


def name_of_kind(text: str) -> str:
    """The task name of a kind, by which a worker counts what it has room for (docs/rulings.md,
    R14)."""
    return text.removesuffix(_OPEN).partition(_VERSION)[0]


def may_claim(code: Code | None, kind: str) -> bool:
    """Whether a worker with this code may claim tasks of a kind; None names no types, and may claim
    everything."""
    if code is None:
        return True
    name, version, is_open = parse_kind(kind)
    return is_open or route(code.types, name, version) is not None


def route(types: Iterable[tuple[str, int]], name: str, version: int) -> tuple[str, int] | None:
    """The type, of those given by name and version, that runs a task of this name and version.

    The exact name and version win. Else the longest prefix: a name that ends where a part of the
    task's name ends (`email` for `email:send`, not for `emailer`), in the same version; or a
    pattern (`email:*`, `*` for everything), preferably in the same version, else in its newest.
    """
    best: tuple[str, int] | None = None
    rank = (-1, False, -1, False)
    for candidate, of in types:
        prefix = candidate.removesuffix("*")
        is_pattern, exact = candidate != prefix, of == version
        if not name.startswith(prefix):
            continue
        if not is_pattern and not (
            exact
            and (
                len(prefix) == len(name)
                or prefix[-1] in SEPARATORS
                or name[len(prefix)] in SEPARATORS
            )
        ):
            continue
        this = (len(prefix), exact, of, not is_pattern)
        if this > rank:
            best, rank = (candidate, of), this
    return best


def queue_of_type(queues: Mapping[tuple[str, int], str], name: str, version: int) -> str:
    """The queue of a task that names none: that of the type that runs it, of those given by name
    and version; `default` where no type runs it, or its type names no queue (docs/rulings.md,
    R5)."""
    found = route(queues, name, version)
    return (queues[found] if found is not None else "") or DEFAULT_QUEUE
