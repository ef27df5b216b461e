"""The interface for alert rules and targets: its methods and their answers."""

from collections.abc import Mapping
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from andon.model.alerts import AlertsShown, Notice, RuleShown, TargetShown

Put = Literal["add", "edit", "set"]
"""`add` refuses a name that is taken, `edit` changes the given fields of one that exists, `set`
replaces it."""


class AlertPreview(msgspec.Struct, frozen=True, kw_only=True):
    """What a look at the rules would find now. Nothing is written or sent."""

    shown: AlertsShown  #: how the rules would stand
    notices: tuple[Notice, ...]  #: the notices that would be sent, and to which targets


class AlertKeeper(Protocol):
    """The alert rules and targets of a store or service. Secrets can be set, and are never
    shown."""

    async def shown(self) -> AlertsShown:
        """All rules and targets, and how the rules stand."""
        ...

    async def put_rule(self, name: str, fields: Mapping[str, Any], how: Put = "set") -> RuleShown:
        """Make or change a rule. Raises `ConfigurationError` naming the field at fault."""
        ...

    async def remove_rule(self, name: str) -> bool:
        """Delete a rule; False if there is none. If it was firing, no notice says that it has
        cleared."""
        ...

    async def put_target(self, name: str, fields: Mapping[str, Any]) -> TargetShown:
        """Make or change a target; fields that are not given keep their values. Raises
        `ConfigurationError`; behind a service also for commands."""
        ...

    async def remove_target(self, name: str) -> bool:
        """Delete a target; False if there is none. Raises `ConfigurationError` for one that a rule
        names."""
        ...

    async def apply(self, document: Mapping[str, Any], *, dry_run: bool = False) -> list[str]:
        """Make rules and targets equal to a document (`rules` and `targets`, by name), and delete
        all others; secrets that it leaves out stay. Returns the changes in words. Raises
        `ConfigurationError`, and then nothing has changed."""
        ...

    async def preview(self) -> AlertPreview:
        """What a look would find now."""
        ...

    async def test(self, target: str) -> str:
        """Send a test notice to a target. Returns the id of the task that sends it. Raises
        `ConfigurationError` for a target that does not exist."""
        ...


@runtime_checkable
class HasAlerts(Protocol):
    """An engine that has alerts."""

    @property
    def alerts(self) -> AlertKeeper:
        """The alerts of its store."""
        ...
