"""Lets a process that is counted, which makes it fifty times slower, do as much as at full speed.

Tasks that are submitted one after another within a millisecond share what they begin with, and so
stores derive and encode it once. While steps are counted no two would come within one.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any
from urllib.parse import urlsplit

from andon.contract.store import Store

IN_A_MS = {"memory": 30, "sqlite": 2, "redis": 7, "postgresql": 2, "nats": 3}
"""Lone submits of one process in a millisecond, by the scheme of the store's URL: see
docs/benchmarks.md."""


@contextmanager
def lone_submits(store: Store, url: str) -> Iterator[None]:
    """Let the time of stores of that kind go on by so many lone submits. Each asks for it once."""
    kind: Any = type(store)
    now: Callable[[Any], int] = kind.now
    asked, at, every = count(), 0, IN_A_MS[urlsplit(url).scheme]

    def in_step(of: Store) -> int:
        nonlocal at
        if next(asked) % every == 0:
            at = now(of)
        return at

    kind.now = in_step
    try:
        yield
    finally:
        kind.now = now
