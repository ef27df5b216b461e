"""The policy cache: profile, queues and task types, and the policies that result from them.

It is kept in memory and refreshed by hints, so that a submit reads nothing. A policy is resolved
once per (queue, type, options) and shared by every task that has the same (docs/rulings.md, R5).
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from andon.contract.store import Store
from andon.contract.topics import CONFIG_TOPIC
from andon.engine.base import Submission
from andon.lifecycle.admission import check_type
from andon.lifecycle.named import OPTION, read
from andon.lifecycle.policies import check_retry_policy, resolve
from andon.lifecycle.profiles import Profile
from andon.lifecycle.profiles import profile as profile_named
from andon.lifecycle.routing import queue_of_type
from andon.model.errors import AndonError, InvalidSubmission
from andon.model.fleet import QueueConfig, TypeInfo
from andon.model.headers import SIGNATURE_HEADER
from andon.model.policy import Policy, PolicyOptions
from andon.model.settings import POLICIES_SETTING, RETENTION_SETTING
from andon.model.words import DEFAULT_QUEUE

log = logging.getLogger("andon.engine")

_MOST_CACHED = 2_000

_PAUSE_S = 1.0
"""Seconds before the configuration is read again after a failed read."""


class Resolved(NamedTuple):
    """The merged layers of one submission."""

    policy: Policy
    type_known: bool  #: whether the task type's layer was among them
    profile: Profile  #: whose defaults were the weakest of them


class PolicyResolver:
    """Resolves policies from their layers; `refresh` reads queues, types and settings anew."""

    def __init__(self, store: Store, profile: str) -> None:
        self.profile = profile_named(profile)
        self._store = store
        self._store_layer: dict[str, Any] = {}
        self._queues: dict[str, QueueConfig] = {}
        self._published: dict[tuple[str, int], dict[str, Any]] = {}
        self._own: dict[tuple[str, int], dict[str, Any]] = {}
        self._published_queues: dict[tuple[str, int], str] = {}
        self._own_queues: dict[tuple[str, int], str] = {}
        self._queue_of: dict[tuple[str, int], str] = {}  # found before
        self._cache: dict[object, Resolved] = {}
        self._said: dict[str, bytes] = {}  # of settings that cannot be used
        self.named: dict[str, PolicyOptions] = {}  #: retry policies by name

    async def refresh(self) -> None:
        """Read the configuration from the store: all parts at once, which a store may answer with
        one round trip."""
        known, published, retention, policies = await asyncio.gather(
            self._store.queues(),
            self._store.types(),
            self._store.setting(RETENTION_SETTING),
            self._store.setting(POLICIES_SETTING),
        )
        queues = {queue.name: queue for queue in known}
        types = {(t.name, t.version): t.policy for t in published}
        type_queues = {(t.name, t.version): t.queue for t in published}
        if type_queues != self._published_queues:
            self._published_queues = type_queues
            self._queue_of.clear()
        layer, named = self._retention(retention), self._policies(policies)
        found = (queues, types, layer, named)
        if found != (self._queues, self._published, self._store_layer, self.named):
            self._queues, self._published, self._store_layer, self.named = found
            self._cache.clear()

    async def follow(self, poll_s: float) -> None:
        """Read it again after each hint and each slow poll. A failed read does not end the loop;
        until the next one succeeds, the configuration read last is used."""
        with self._store.listen([CONFIG_TOPIC]) as hints:
            while True:
                try:
                    await hints.wait(poll_s)
                    await self.refresh()
                    continue
                except AndonError as error:
                    log.warning("The configuration waits for the store: %s", error)
                except Exception as error:
                    log.error("The configuration could not be read.", exc_info=error)
                await asyncio.sleep(_PAUSE_S)
                hints.notify()

    def _retention(self, stored: bytes | None) -> dict[str, Any]:
        """The store's default retention as a layer. A setting that is invalid is logged and left
        out; the rest of the configuration is used."""
        if not stored:
            return {}
        try:
            layer = {"retention": float(stored)}
            resolve(layer)
        except (ValueError, InvalidSubmission) as error:
            self._say(RETENTION_SETTING, stored, error)
            return {}
        return layer

    def _policies(self, stored: bytes | None) -> dict[str, PolicyOptions]:
        """The named retry policies; an invalid one is logged and left out."""
        named: dict[str, PolicyOptions] = {}
        try:
            found = read(stored) if stored else {}
        except ValueError as error:
            self._say(POLICIES_SETTING, stored or b"", error)
            return named
        for name, options in found.items():
            try:
                named[name] = check_retry_policy(options)
            except InvalidSubmission as error:
                self._say(f"{POLICIES_SETTING}: {name}", stored or b"", error)
        return named

    def _say(self, setting: str, stored: bytes, error: Exception) -> None:
        """Log once for each stored value, not at each read."""
        if self._said.get(setting) != stored:
            self._said[setting] = stored
            log.error(
                "The setting %s of the store cannot be used and is left out, the rest of the "
                "configuration goes on: %s (%.200r)",
                setting,
                error,
                stored,
            )

    def add_types(self, types: Sequence[TypeInfo]) -> None:
        """Use this process's own task types; they take precedence over the published ones."""
        self._own.update({(t.name, t.version): t.policy for t in types})
        self._own_queues.update({(t.name, t.version): t.queue for t in types})
        self._cache.clear()
        self._queue_of.clear()

    def queue(self, name: str) -> QueueConfig:
        """The queue's configuration, defaults if it has none."""
        return self._queues.get(name) or QueueConfig(name=name)

    def queue_of(self, submission: Submission) -> str:
        """The queue that a submission goes to: the one it names, else that of its type
        (docs/rulings.md, R5). One that was signed without a queue goes to `default`, as the signed
        bytes say."""
        if submission.queue is not None:
            return submission.queue
        if SIGNATURE_HEADER in submission.headers:
            return DEFAULT_QUEUE
        key = (submission.name, submission.version)
        found = self._queue_of.get(key)
        if found is None:
            if len(self._queue_of) >= _MOST_CACHED:  # names come from outside
                self._queue_of.clear()
            queues = self._published_queues | self._own_queues
            found = self._queue_of[key] = queue_of_type(queues, *key)
        return found

    def queues_naming(self, policy: str) -> list[str]:
        """The queues whose tasks are retried by that named policy."""
        named = (q.name for q in self._queues.values() if q.policy.get(OPTION) == policy)
        return sorted(named)

    def profile_of(self, name: str | None) -> Profile:
        """The profile of that name; None: the application's. Raises `ConfigurationError`."""
        return self.profile if name is None else profile_named(name)

    def policy(
        self,
        queue: str,
        name: str,
        version: int,
        options: dict[str, Any],
        profile: str | None = None,
    ) -> Resolved:
        """What these layers give. `profile`: whose defaults are the weakest of them, if not the
        application's. Raises `InvalidSubmission` also for a type or queue that no task can have, so
        that the holder of a policy need not check them again."""
        key = (queue, name, version, _key_of(options) if options else (), profile)
        found = self._cache.get(key)
        if found is None:
            check_type(name, version, queue)
            of_type = self.type_layer(name, version)
            queue_layer = self.queue(queue).policy
            whose = self.profile_of(profile)
            policy = resolve(
                whose.defaults,
                self._store_layer,
                queue_layer,
                of_type or {},
                options,
                named=self.named,
            )
            if len(self._cache) >= _MOST_CACHED:
                self._cache.clear()
            found = self._cache[key] = Resolved(policy, of_type is not None, whose)
        return found

    def type_layer(self, name: str, version: int) -> dict[str, Any] | None:
        """What the task type sets; None if the type is not known."""
        own = self._own.get((name, version))
        return own if own is not None else self._published.get((name, version))


def _key_of(options: dict[str, Any]) -> object:
    """Options as something that can be a key."""
    given = tuple(options.items())
    try:
        hash(given)
    except TypeError:  # there are lists in it
        return _frozen(options)
    return given


def _frozen(value: Any) -> object:
    """The value as something that can be a key."""
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return tuple((name, _frozen(item)) for name, item in items)
    if isinstance(value, list | tuple):
        return tuple(_frozen(item) for item in cast("list[Any]", value))
    return value
