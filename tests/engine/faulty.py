"""A store at which chosen items of batched calls go wrong, as a defect or a bad value would."""

import asyncio
import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from andon.contract.optional import CreatesTogether
from andon.contract.outcomes import Changed, ChangeKind, Created, CreateKind
from andon.contract.requests import Change
from andon.contract.store import Store


def _is_awaited(protocol: type, name: str) -> bool:
    return inspect.iscoroutinefunction(getattr(protocol, name, None))


class Faulty:
    """Does what the store does; a call of `fails[method]` that has a bad item in it raises, as one
    of `refuses[method]` answers INVALID for it. Counts its calls and keeps their order."""

    def __init__(self, store: Store) -> None:
        self.real = store
        self.bad: set[str] = set()  #: ids of tasks
        self.fails: dict[str, Exception] = {}
        self.broken: dict[str, Exception] = {}  #: methods that fail whatever they are called with
        self.refuses: set[str] = set()
        self._gates: dict[str, asyncio.Event] = {}  #: methods that wait until theirs is set
        self.calls: Counter[str] = Counter()
        self.order: list[tuple[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        real = getattr(self.real, name)
        if not _is_awaited(Store, name) and not _is_awaited(CreatesTogether, name):
            return real  # a store may give another kind of function that is awaited

        async def call(*args: Any, **options: Any) -> Any:
            self.calls[name] += 1
            self.order.append((name, args[0] if args else None))
            if name in self._gates:
                await self._gates[name].wait()
            if name in self.broken:
                raise self.broken[name]
            if name in self.fails and self._is_bad(args):
                raise self.fails[name]
            if name in self.refuses:
                return await self._without(name, real, args[0])
            return await real(*args, **options)

        return call

    @contextmanager
    def held(self, method: str) -> Iterator[asyncio.Event]:
        """Calls of the method wait until the event is set. A test that fails opens the gate, too:
        the engine is not closed before they are answered."""
        gate = self._gates[method] = asyncio.Event()
        try:
            yield gate
        finally:
            gate.set()

    def _is_bad(self, args: Sequence[Any]) -> bool:
        if not args:
            return False
        items = args[0] if isinstance(args[0], Sequence) and not isinstance(args[0], str) else args
        return any(not self.bad.isdisjoint(names(item)) for item in items)

    async def _without(self, name: str, real: Callable[..., Any], items: Sequence[Any]) -> Any:
        good = [item for item in items if self.bad.isdisjoint(names(item))]
        outcomes = iter(await real(good)) if good else iter(())
        invalid: Any = Created(CreateKind.INVALID, why="it does not encode")
        if name == "commit":
            invalid = Changed(ChangeKind.INVALID, why="it does not encode")
        return [next(outcomes) if self.bad.isdisjoint(names(item)) else invalid for item in items]


def names(item: Any) -> set[str]:
    """The ids of tasks that an item of a call is about, but for its parents."""
    if isinstance(item, str):
        return {item}
    if isinstance(item, Change):
        return {item.before.id}
    if isinstance(item, tuple):  # a timer, or an edge
        return {part for part in item if isinstance(part, str)}
    if isinstance(item, msgspec.Struct):
        if hasattr(item, "snapshot") or hasattr(item, "history"):
            return {item.task.id}  # type: ignore[attr-defined]
        return {getattr(item, field) for field in ("id", "child") if hasattr(item, field)}
    return set()
