"""The pages for administrators: alerts, tokens, acts by hand, the doctor."""

import asyncio
from typing import TYPE_CHECKING

from andon.dashboard.alerting import Alerting
from andon.dashboard.answers import Shown
from andon.dashboard.asking import Asked, Route
from andon.dashboard.pages import doctor as doctor_page
from andon.dashboard.pages import trust as trust_page
from andon.dashboard.patience import within
from andon.dashboard.requests import Refused
from andon.dashboard.views.alerts import AlertForm
from andon.engine import checks
from andon.engine.audit import MOST_RECORDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from andon.dashboard.reading import Reader
    from andon.dashboard.tokens import TokenBook

_ACTS = 100
"""How many acts by hand are shown at first."""

_DOCTOR_S = 30.0
"""How long the doctor may read: it reads a lot."""


class CarePages:
    """The pages about the store and its users. `tokens` None: there are none to show."""

    def __init__(self, reader: "Reader", tokens: "TokenBook | None") -> None:
        self._reader = reader
        self._tokens = tokens
        self._alerting = Alerting(reader)

    @property
    def routes(self) -> "Sequence[Route]":
        """The pages of this module."""
        return (
            ("/alerts", self.alerts),
            ("/alerts/rule", self.alert_rule),
            ("/alerts/target", self.alert_target),
            ("/alerts/rules/([^/]+)", self.alert_rule),
            ("/alerts/targets/([^/]+)", self.alert_target),
            ("/tokens", self.tokens),
            ("/audit", self.audit),
            ("/doctor", self.doctor),
        )

    async def alerts(self, asked: Asked) -> Shown:
        """Alert rules and targets."""
        return await self._alerting.everything(asked.place)

    async def alert_rule(self, asked: Asked) -> Shown:
        """One rule, or the form of a new one."""
        form = AlertForm(name=asked.name, is_new=not asked.names)
        return await self._alerting.rule(asked.place, form)

    async def alert_target(self, asked: Asked) -> Shown:
        """One target, or the form of a new one."""
        form = AlertForm(name=asked.name, is_new=not asked.names)
        return await self._alerting.target(asked.place, form)

    async def tokens(self, asked: Asked) -> Shown:
        """Tokens."""
        if self._tokens is None:
            raise Refused(404, "Not here", "This board knows no tokens: andon serve has them.")
        asked.need("admin:tokens")
        rows = await within(self._tokens.rows())
        now = (await self._reader.engine()).now()
        return Shown("Tokens", list(trust_page.tokens(asked.place, rows, now)))

    async def audit(self, asked: Asked) -> Shown:
        """The acts by hand."""
        asked.need("admin:audit")
        actor = asked.query.get("actor")
        engine = await self._reader.engine()
        most = MOST_RECORDS if asked.query.get("all") else _ACTS
        records = await within(engine.acts(actor or None, MOST_RECORDS))
        content = trust_page.audit(
            asked.place, records[:most], engine.now(), actor, in_all=len(records)
        )
        return Shown("Audit", list(content))

    async def doctor(self, asked: Asked) -> Shown:
        """The findings of the doctor."""
        asked.need("admin:storage")
        engine = await self._reader.engine()
        facts = await within(checks.read(engine), _DOCTOR_S)
        found = await asyncio.to_thread(lambda: list(checks.store_checks(facts)))
        return Shown("Doctor", list(doctor_page.content(found)))
