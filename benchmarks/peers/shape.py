"""What every driver tells and does. Uses nothing but Python itself."""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

QUEUE = "bench"


class Peer:
    """One peer in one variant, on one server.

    A peer without coroutines has plain functions in place of `submit` and `bulk`; its singles are
    then submitted at once from threads.
    """

    requires: ClassVar[tuple[str, ...]]  #: what its environment is made of
    python: ClassVar[tuple[int, int]] = (3, 11)  #: oldest Python that its current release runs on
    shown: ClassVar[tuple[str, ...]]  #: distributions whose versions are printed
    imports: ClassVar[str]  #: what a program that uses it imports
    variants: ClassVar[dict[str, str]]  #: name to its settings, in words
    stores: ClassVar[dict[str, tuple[str, ...]]]  #: kind of store to the variants measured there
    drained: ClassVar[dict[str, int]]  #: variant to about two seconds' worth of its worker
    has_bulk: ClassVar[bool] = False
    uvloop: ClassVar[bool] = False  #: its worker runs on uvloop, so its producer does too
    forks: ClassVar[frozenset[str]] = frozenset()  #: variants with a process for each task

    def __init__(self, variant: str, url: str) -> None:
        self.variant = variant
        self.url = url

    async def prepare(self) -> None:
        """Make its schema on an empty server."""

    async def open(self) -> None:
        """Connect as a producer."""

    async def close(self) -> None:
        """Let go."""

    def submit(self, number: int) -> Any:
        """Enqueue one task, and return when the server has it."""
        raise NotImplementedError

    def bulk(self, numbers: Sequence[int]) -> Any:
        """Enqueue many with its own call for that."""
        raise NotImplementedError

    def worker(self) -> list[str]:
        """The command that runs one worker process."""
        raise NotImplementedError

    async def unfinished(self) -> int:
        """Tasks that its own records have as waiting or in hand."""
        raise NotImplementedError


def variant() -> str:
    """The variant that this process runs (BENCH_VARIANT)."""
    return os.environ["BENCH_VARIANT"]


def url() -> str:
    """The server (BENCH_URL)."""
    return os.environ["BENCH_URL"]


def program(name: str) -> str:
    """A command of this environment."""
    return str(Path(sys.executable).with_name(name))


def chunks(numbers: Sequence[int], size: int = 1_000) -> list[Sequence[int]]:
    """Parts of at most `size`."""
    return [numbers[start : start + size] for start in range(0, len(numbers), size)]


def made_when_asked(**makers: Callable[[], Any]) -> Callable[[str], Any]:
    """A module's `__getattr__`: what a peer's command line looks up in it is made then."""
    made: dict[str, Any] = {}

    def attribute(name: str) -> Any:
        if name not in makers:
            raise AttributeError(name)
        if name not in made:
            made[name] = makers[name]()
        return made[name]

    return attribute
