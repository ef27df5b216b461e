"""Settings of queues: changed and deleted, each by compare and set of a queue's configuration."""

from typing import Any

import msgspec

from andon.contract.store import Store
from andon.engine.audit import Audit
from andon.engine.control import MOST_ATTEMPTS
from andon.engine.fleet import counts_in, settings_of
from andon.engine.policy_resolver import PolicyResolver
from andon.lifecycle.admission import check_name
from andon.lifecycle.bounds import check_queue
from andon.lifecycle.named import OPTION, expanded
from andon.lifecycle.policies import check_options
from andon.model.errors import ConfigurationError, QueueNotEmpty, StoreUnavailable
from andon.model.fleet import QueueConfig


class QueueSettings:
    """The configuration of the queues of one store."""

    def __init__(self, store: Store, resolver: PolicyResolver, audit: Audit) -> None:
        self._store = store
        self._resolver = resolver
        self._audit = audit

    async def change(self, name: str, changes: dict[str, Any]) -> QueueConfig:
        """Change settings of a queue. Raises `ConfigurationError` naming the setting at fault."""
        check_name(name, field="queue")
        policy = check_options(changes.get("policy", {}))
        if OPTION in policy:
            await self._resolver.refresh()
            expanded(policy, self._resolver.named)
        is_listed = False
        for _ in range(MOST_ATTEMPTS):
            there = await self._read(name)
            config = msgspec.structs.replace(_changed(there, changes), deleted=False)
            if config != there and not is_listed:
                await self._audit.asked("configure-queue", name, **_told(there, config))
                is_listed = True
            if await self._store.put_queue(config, expect=there):
                await self._resolver.refresh()
                return config
        raise _crowded(name)

    async def delete(self, name: str) -> None:
        """Forget a queue. A task that enters it meanwhile makes it a queue again."""
        check_name(name, field="queue")
        counts = counts_in(await self._store.stats(), name)
        if counts:
            raise QueueNotEmpty(name, counts, "Remove them first.")
        await self._audit.asked("delete-queue", name)
        for _ in range(MOST_ATTEMPTS):
            there = await self._read(name)
            if there.deleted or await self._store.put_queue(
                QueueConfig(name=name, deleted=True), expect=there
            ):
                await self._resolver.refresh()
                return
        raise _crowded(name)

    async def _read(self, name: str) -> QueueConfig:
        known = {queue.name: queue for queue in await self._store.queues()}
        return known.get(name) or QueueConfig(name=name)


def _crowded(name: str) -> StoreUnavailable:
    return StoreUnavailable(f"Queue {name!r} is being configured by many at once; try again.")


def _told(there: QueueConfig, config: QueueConfig) -> dict[str, Any]:
    """What is set anew, as the audit list has it."""
    before = settings_of(there)
    return {name: value for name, value in settings_of(config).items() if value != before[name]}


def _changed(there: QueueConfig, changes: dict[str, Any]) -> QueueConfig:
    """The configuration with some settings changed. Raises `ConfigurationError`."""
    now = settings_of(there)
    unknown = set(changes) - set(now) | {"name"} & set(changes)
    if unknown:
        settings = ", ".join(sorted(set(now) - {"name"}))
        raise ConfigurationError(
            f"A queue has no setting {min(unknown)!r}. Its settings: {settings}."
        )
    try:
        config = msgspec.convert({**now, **changes}, QueueConfig)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"Queue {there.name!r}: {error}") from error
    check_queue(config)
    return config
