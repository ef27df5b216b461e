"""What is known of policies: profile, queues and task types, and the policies they give together.

Kept in memory and followed by hint, so that a submit needs no look-up. A policy is resolved once
per (queue, type, options) and shared by every task that has the same (R5).
"""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from andon.lifecycle.policies import resolve
from andon.lifecycle.profiles import profile as profile_named
from andon.model.fleet import QueueConfig, TypeInfo
from andon.model.policy import Policy
from andon.model.settings import RETENTION_SETTING
from andon.stores.base import Store

_MOST_CACHED = 2_000


class PolicyBook:
    """Resolves policies from their layers; `refresh` reads queues, types and settings anew."""

    def __init__(self, store: Store, profile: str) -> None:
        self.profile = profile_named(profile)
        self._store = store
        self._store_layer: dict[str, Any] = {}
        self._queues: dict[str, QueueConfig] = {}
        self._published: dict[tuple[str, int], dict[str, Any]] = {}
        self._own: dict[tuple[str, int], dict[str, Any]] = {}
        self._cache: dict[object, tuple[Policy, bool]] = {}

    async def refresh(self) -> None:
        """Read the configuration from the store: all at once, which a store may answer as one."""
        known, published, retention = await asyncio.gather(
            self._store.queues(), self._store.types(), self._store.setting(RETENTION_SETTING)
        )
        queues = {queue.name: queue for queue in known}
        types = {(t.name, t.version): t.policy for t in published}
        layer = {} if not retention else {"retention": float(retention)}
        if (queues, types, layer) != (self._queues, self._published, self._store_layer):
            self._queues, self._published, self._store_layer = queues, types, layer
            self._cache.clear()

    def add_types(self, types: Sequence[TypeInfo]) -> None:
        """Take this process's own task types; they win over what was published."""
        self._own.update({(t.name, t.version): t.policy for t in types})
        self._cache.clear()

    def queue(self, name: str) -> QueueConfig:
        """The queue's configuration, defaults if it has none."""
        return self._queues.get(name) or QueueConfig(name=name)

    def policy(
        self, queue: str, name: str, version: int, options: dict[str, Any]
    ) -> tuple[Policy, bool]:
        """The policy these layers give, and whether the task type's layer was known."""
        key = (queue, name, version, _frozen(options) if options else ())
        found = self._cache.get(key)
        if found is None:
            of_type = self.type_layer(name, version)
            known = of_type is not None
            queue_layer = self.queue(queue).policy
            policy = resolve(
                self.profile.defaults, self._store_layer, queue_layer, of_type or {}, options
            )
            if len(self._cache) >= _MOST_CACHED:
                self._cache.clear()
            found = self._cache[key] = (policy, known)
        return found

    def type_layer(self, name: str, version: int) -> dict[str, Any] | None:
        """What the task type sets; None where nobody has told of it."""
        own = self._own.get((name, version))
        return own if own is not None else self._published.get((name, version))


def _frozen(value: Any) -> object:
    """The value as something that can be a key."""
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return tuple((name, _frozen(item)) for name, item in items)
    if isinstance(value, list | tuple):
        return tuple(_frozen(item) for item in cast("list[Any]", value))
    return value
