"""Finds the handler of a task: by name and version, else by the longest prefix of the name.

Several versions of one name can be registered, so that tasks submitted before a deploy are still
run by the code they were meant for.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from andon.lifecycle.admission import check_given, check_name
from andon.lifecycle.policies import check_options
from andon.lifecycle.routing import route
from andon.model.errors import ConfigurationError, InvalidSubmission
from andon.model.fleet import TypeInfo
from andon.model.policy import PolicyOptions
from andon.worker.calls import Call
from andon.worker.environment import check_patterns, check_variables

Kind = Literal["async", "thread", "process", "command"]
"""Where a handler runs: on the worker's loop, in a thread, in a child process, as a program."""

_MOST_REMEMBERED = 4_096


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaskType:
    """A kind of task and how it is run. `name` may end in `*`, the pattern of a prefix."""

    name: str
    codec: Call  #: arguments and result to JSON and back
    version: int = 0
    kind: Kind = "async"
    handler: Callable[..., Any] | None = None  #: None for commands only
    argv: tuple[str, ...] = ()  #: program and arguments, for commands only
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Environment variables of its own, for commands only."""
    pass_env: tuple[str, ...] = ()
    """Variables of the worker's environment that it gets besides, for commands only."""
    queue: str = "default"
    is_elsewhere: bool = False
    """Only its name is known here: its queue is the one that workers have published for it."""
    options: PolicyOptions = field(default_factory=PolicyOptions)
    """The type's layer (docs/rulings.md, R5)."""
    retry_on_types: tuple[type[BaseException], ...] = ()  #: when not empty, only these
    no_retry_on_types: tuple[type[BaseException], ...] = ()  #: never retried; wins
    backoff: Callable[[int, BaseException | None], float] | None = None
    """Seconds before retry n (from 1) after the exception; replaces the policy's formula."""
    wants_context: bool = False
    max_concurrent: int | None = None  #: runs at once in one worker

    def __post_init__(self) -> None:
        try:
            if self.name != "*":
                check_name(self.name.removesuffix("*"), field="task")
            check_given(self.queue, field="queue")
            check_options(self.options)
        except InvalidSubmission as error:
            raise ConfigurationError(f"Task type {self.name!r}: {error}") from error
        if self.kind == "command":
            if not self.argv or self.handler is not None:
                raise ConfigurationError(f"Command {self.name!r} needs argv and takes no handler.")
            check_patterns(self.pass_env, where=f"Command {self.name!r}")
            check_variables(self.env, where=f"Command {self.name!r}")
        elif self.handler is None or self.argv:
            raise ConfigurationError(f"Task type {self.name!r} needs a handler and no argv.")
        elif self.env or self.pass_env:
            raise ConfigurationError(f"Task type {self.name!r}: env and pass_env are for commands.")
        if self.max_concurrent is not None and self.max_concurrent < 1:
            raise ConfigurationError(f"Task type {self.name!r}: max_concurrent is at least 1.")

    @property
    def is_pattern(self) -> bool:
        """Whether the name stands for every name that begins like it."""
        return self.name.endswith("*")

    @property
    def info(self) -> TypeInfo:
        """What is published of the type (docs/rulings.md, R5)."""
        return TypeInfo(
            name=self.name, version=self.version, policy=dict(self.options), queue=self.queue
        )


def _same(one: TaskType, other: TaskType) -> bool:
    # Each decoration makes another codec, and the handler determines it.
    return all(
        getattr(one, f.name) == getattr(other, f.name)
        for f in dataclasses.fields(TaskType)
        if f.name != "codec"
    )


class Registry:
    """The task types of one application."""

    def __init__(self) -> None:
        self._types: dict[tuple[str, int], TaskType] = {}
        self._routes: dict[tuple[str, int], TaskType | None] = {}
        self._watchers: list[Callable[[], None]] = []

    def __iter__(self) -> Iterator[TaskType]:
        return iter(list(self._types.values()))

    def __len__(self) -> int:
        return len(self._types)

    def get(self, name: str, version: int = 0) -> TaskType | None:
        """The type registered under exactly this name and version."""
        return self._types.get((name, version))

    def add(self, task_type: TaskType) -> TaskType:
        """Register a type; the same one again is fine.

        Raises `ConfigurationError` when another function or other settings are there already.
        """
        key = (task_type.name, task_type.version)
        there = self._types.get(key)
        if there is not None and not _same(there, task_type):
            raise ConfigurationError(
                f"Task {task_type.name!r} version {task_type.version} is registered already, for "
                f"{_origin(there)}; now {_origin(task_type)} claims it. Give one of them another "
                "name or version."
            )
        if there is not None:
            return there
        self._types[key] = task_type
        self._routes.clear()
        for act in list(self._watchers):
            act()
        return task_type

    def watch(self, act: Callable[[], None]) -> Callable[[], None]:
        """Call `act`, in whatever thread, after each type that is new; what is returned ends it."""
        self._watchers.append(act)
        return lambda: self._watchers.remove(act)

    def route(self, name: str, version: int) -> TaskType | None:
        """The type that runs a task of this name and version; None if there is none.

        The rule is `andon.lifecycle.routing.route`.
        """
        found = self._types.get((name, version))
        if found is not None:
            return found
        key = (name, version)
        if key not in self._routes:
            if len(self._routes) >= _MOST_REMEMBERED:  # names come from outside
                self._routes.clear()
            self._routes[key] = self._search(name, version)
        return self._routes[key]

    def _search(self, name: str, version: int) -> TaskType | None:
        found = route(self._types, name, version)
        return None if found is None else self._types[found]


def _origin(task_type: TaskType) -> str:
    handler = task_type.handler
    if handler is None:
        return f"the command {' '.join(task_type.argv)!r}"
    where = getattr(handler, "__module__", "?")
    return f"{where}.{getattr(handler, '__qualname__', repr(handler))}"
