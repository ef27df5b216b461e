"""What may be asked about alerts, and what is answered."""

from collections.abc import Mapping
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from andon.model.alerts import AlertsShown, Notice, RuleShown, TargetShown

Put = Literal["add", "edit", "set"]
"""`add` refuses a name that is taken, `edit` changes what is given of one that is there, `set` has
it be what is given."""


class AlertPreview(msgspec.Struct, frozen=True, kw_only=True):
    """What a look at the rules would find now. Nothing is written or told."""

    shown: AlertsShown  #: how the rules would stand
    notices: tuple[Notice, ...]  #: what would be told, and to whom


class AlertKeeper(Protocol):
    """The alert rules and targets of a store or service. Secrets go in, and never come out."""

    async def shown(self) -> AlertsShown:
        """All rules and targets, and how the rules stand."""
        ...

    async def put_rule(self, name: str, fields: Mapping[str, Any], how: Put = "set") -> RuleShown:
        """Make or change a rule. Raises `ConfigurationError` naming the field at fault."""
        ...

    async def remove_rule(self, name: str) -> bool:
        """Forget a rule; False if there is none. What fired is not told to be cleared."""
        ...

    async def put_target(self, name: str, fields: Mapping[str, Any]) -> TargetShown:
        """Make or change a target; what is not given of one that is there stays. Raises
        `ConfigurationError`; behind a service also for commands."""
        ...

    async def remove_target(self, name: str) -> bool:
        """Forget a target; False if there is none. Raises `ConfigurationError` for one that a rule
        tells."""
        ...

    async def apply(self, document: Mapping[str, Any], *, dry_run: bool = False) -> list[str]:
        """Have rules and targets be what a document says (`rules` and `targets`, by name), and
        forget all others; secrets that it leaves out stay. What changes, in words. Raises
        `ConfigurationError`, and then nothing has changed."""
        ...

    async def preview(self) -> AlertPreview:
        """What a look would find now."""
        ...

    async def test(self, target: str) -> str:
        """Tell a target that this is a test; the id of the task that does. Raises
        `ConfigurationError` for a target that is not there."""
        ...


@runtime_checkable
class HasAlerts(Protocol):
    """An engine that knows alerts."""

    @property
    def alerts(self) -> AlertKeeper:
        """The alerts of its store."""
        ...
