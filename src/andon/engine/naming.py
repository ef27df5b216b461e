"""Named retry policies: read, set and deleted, each by compare and set of the one setting."""

from collections.abc import Callable, Mapping
from typing import Any

from andon.contract.store import Store
from andon.engine.audit import Audit
from andon.engine.control import MOST_ATTEMPTS
from andon.engine.policy_resolver import PolicyResolver
from andon.lifecycle.named import MOST_NAMES, OPTION, check_policy_name, read, written
from andon.lifecycle.policies import check_retry_policy
from andon.model.errors import ConfigurationError, StoreUnavailable
from andon.model.policy import PolicyOptions
from andon.model.settings import POLICIES_SETTING

_Named = dict[str, PolicyOptions]


class RetryPolicies:
    """The named retry policies of one store."""

    def __init__(self, store: Store, resolver: PolicyResolver, audit: Audit) -> None:
        self._store = store
        self._audit = audit
        self._resolver = resolver

    async def all(self) -> _Named:
        """Every policy by its name."""
        return (await self._read())[0]

    async def put(self, name: str, options: Mapping[str, Any]) -> PolicyOptions:
        """Set one, in place of what it was."""
        check_policy_name(name, field="name")
        checked = check_retry_policy(options)
        if (await self._read())[0].get(name) != checked:
            await self._audit.asked("put-policy", name, set=options)

        def change(named: _Named) -> bool:
            if len(named) >= MOST_NAMES and name not in named:
                raise ConfigurationError(f"There are {MOST_NAMES:,} retry policies; delete some.")
            named[name] = checked
            return True

        await self._change(change)
        return checked

    async def delete(self, name: str) -> bool:
        """Delete one; False if there is none."""

        def change(named: _Named) -> bool:
            return named.pop(name, None) is not None

        await self._resolver.refresh()
        users = self._resolver.queues_naming(name)
        if users:
            raise ConfigurationError(
                f"Retry policy {name!r} is used by queue {users[0]!r}. Configure that first: "
                f"andon queues configure {users[0]} --policy {OPTION}=unset."
            )
        if name in (await self._read())[0]:
            await self._audit.asked("delete-policy", name)
        return await self._change(change)

    async def _change(self, change: Callable[[_Named], bool]) -> bool:
        for _ in range(MOST_ATTEMPTS):
            named, stored = await self._read()
            if not change(named):
                return False
            if await self._store.put_setting(POLICIES_SETTING, written(named), expect=stored):
                await self._resolver.refresh()
                return True
        raise StoreUnavailable("The retry policies are being set by many at once; try again.")

    async def _read(self) -> tuple[_Named, bytes | None]:
        stored = await self._store.setting(POLICIES_SETTING)
        try:
            return (read(stored) if stored else {}), stored
        except ValueError as error:
            raise ConfigurationError(
                f"The store's setting {POLICIES_SETTING!r} is damaged: {error}."
            ) from error
