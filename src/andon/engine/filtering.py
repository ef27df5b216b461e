"""A user's filter of tasks: by state, queue, name and so on."""

import contextlib
from collections.abc import Callable
from typing import Any

import msgspec

from andon.contract.queries import Query
from andon.contract.query_filter import has_due_order
from andon.engine.base import Engine
from andon.engine.fleet import known_queues
from andon.lifecycle.error_fingerprint import letter_fingerprint
from andon.lifecycle.profiles import Profile
from andon.lifecycle.rendering import names_of, native_states, state_name
from andon.model.errors import ConfigurationError
from andon.model.task import Task
from andon.model.words import State


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """What a user asked for. States may be native names or, under a profile, foreign ones."""

    states: tuple[str, ...] = ()
    queue: str | None = None
    name: str | None = None
    tag: str | None = None
    key: str | None = None
    group: str | None = None
    worker: str | None = None
    fingerprint: str | None = None  #: of the last error (`lifecycle.error_fingerprint`)

    @property
    def any(self) -> bool:
        """Whether anything was asked for."""
        return self != Filters()

    def query(self, profile: Profile, **more: Any) -> Query:
        """The query that finds at least what is asked for; `keep` does the rest.

        Raises `ConfigurationError` for a state that does not exist.
        """
        states: set[State] = set()
        for name in self.states:
            states |= _native(profile, name)
        fields = {
            name: getattr(self, name) for name in ("queue", "name", "tag", "key", "group", "worker")
        }
        ordered = tuple(state for state in State if state in states)
        return Query(states=ordered, **fields, **more)

    def listed(
        self, profile: Profile, *, newest_first: bool | None, otherwise: bool = False, **more: Any
    ) -> Query:
        """The same query in the order of a list: the newest first or not, as asked for. Where
        nothing was (None), what waits for a time comes by due time, and all else the newest first
        if `otherwise`."""
        query = self.query(profile, **more)
        if newest_first is None:
            if has_due_order(query):
                return msgspec.structs.replace(query, due_first=True)
            newest_first = otherwise
        return msgspec.structs.replace(query, newest_first=newest_first)

    def keep(self, profile: Profile) -> Callable[[Task], bool] | None:
        """Whether a task found is shown under one of the names asked for; None: all are. Where no
        state is asked for, schedules are not meant (docs/rulings.md, R39)."""
        keep = self._shown_under(profile)
        fingerprint = self.fingerprint
        if fingerprint is None:
            return keep
        return lambda task: (keep is None or keep(task)) and letter_fingerprint(task) == fingerprint

    def _shown_under(self, profile: Profile) -> Callable[[Task], bool] | None:
        if not self.states:
            return _is_no_schedule
        if profile.name == "native":
            return None
        shown = {name for name in self.states if _shows(profile, name)}
        native = set(self.states) - shown
        return lambda task: task.state.value in native or state_name(profile, task) in shown

    def __str__(self) -> str:
        """In words, for a question."""
        parts = [f"{','.join(self.states)}"] if self.states else []
        parts += [
            f"{name} {getattr(self, name)}"
            for name in ("queue", "name", "tag", "key", "group", "worker", "fingerprint")
            if getattr(self, name) is not None
        ]
        return ", ".join(parts) or "all"

    async def check(self, engine: Engine) -> None:
        """Refuse a queue that was never used. Raises `ConfigurationError`."""
        if self.queue is not None:
            await check_queue(engine, self.queue)


def _is_no_schedule(task: Task) -> bool:
    return task.state is not State.RECURRING


async def check_queue(engine: Engine, name: str) -> None:
    """Refuse a queue that is not known, naming those that are. Raises `ConfigurationError`."""
    known = [config.name for config, _ in await known_queues(engine)]
    if name not in known:
        these = f"There are: {', '.join(known[:20])}." if known else "There is none yet."
        raise ConfigurationError(
            f"There is no queue {name!r}. {these} "
            f"A queue is made by its first task, or with: andon queues configure {name}."
        )


def _native(profile: Profile, name: str) -> frozenset[State]:
    """The states behind a name: the profile's own, else Andon's."""
    if not _shows(profile, name):
        with contextlib.suppress(ValueError):
            return frozenset({State(name)})
    return native_states(profile, name)


def _shows(profile: Profile, name: str) -> bool:
    return any(name in names_of(profile, state) for state in State)
