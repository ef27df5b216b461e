"""Alerts over HTTP: one request for each method of the interface."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from andon.engine.alert_requests import AlertPreview, Put
from andon.engine.http import wire
from andon.engine.http.transport import Transport
from andon.model.alerts import AlertsShown, RuleShown, TargetShown

Asks = Literal[
    "shown", "preview", "put-rule", "remove-rule", "put-target", "remove-target", "apply", "test"
]


class AlertCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request about alerts; answered by an `AlertReply` with the part that it asks for."""

    asks: Asks
    name: str = ""  #: of the rule or target
    fields: dict[str, Any] = {}  #: of it; or the document that is to be applied
    how: Put = "set"
    dry_run: bool = False


class AlertReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was asked for."""

    shown: AlertsShown | None = None
    preview: AlertPreview | None = None
    rule: RuleShown | None = None
    target: TargetShown | None = None
    changes: list[str] = []
    done: bool = False
    task: str = ""


_decode = msgspec.json.Decoder(AlertReply).decode


class HttpAlerts:
    """The alert rules and targets of a service's store."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def shown(self) -> AlertsShown:
        """All rules and targets, and how the rules stand."""
        found = (await self._ask(AlertCall("shown"))).shown
        assert found is not None
        return found

    async def preview(self) -> AlertPreview:
        """What a look would find now."""
        found = (await self._ask(AlertCall("preview"))).preview
        assert found is not None
        return found

    async def put_rule(self, name: str, fields: Mapping[str, Any], how: Put = "set") -> RuleShown:
        """Make or change a rule."""
        call = AlertCall("put-rule", name, dict(fields), how)
        found = (await self._ask(call, safe=how != "add")).rule
        assert found is not None
        return found

    async def remove_rule(self, name: str) -> bool:
        """Delete a rule."""
        return (await self._ask(AlertCall("remove-rule", name), safe=False)).done

    async def put_target(self, name: str, fields: Mapping[str, Any]) -> TargetShown:
        """Make or change a target; no command."""
        found = (await self._ask(AlertCall("put-target", name, dict(fields)))).target
        assert found is not None
        return found

    async def remove_target(self, name: str) -> bool:
        """Delete a target."""
        return (await self._ask(AlertCall("remove-target", name), safe=False)).done

    async def apply(self, document: Mapping[str, Any], *, dry_run: bool = False) -> list[str]:
        """Make rules and targets equal to a document."""
        call = AlertCall("apply", fields=dict(document), dry_run=dry_run)
        return (await self._ask(call)).changes

    async def test(self, target: str) -> str:
        """Send a test notice to a target. Returns the id of the task that sends it."""
        return (await self._ask(AlertCall("test", target), safe=False)).task

    async def _ask(self, call: AlertCall, *, safe: bool = True) -> AlertReply:
        return _decode(await self._transport.call("alerts", wire.encode(call), safe=safe))
