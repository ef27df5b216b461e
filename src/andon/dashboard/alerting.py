"""Alerts on the board: reads for its pages, and carries out its forms.

A form with invalid fields is shown again with what was written, except secrets, and with what is
wrong. A target that runs a command cannot be made here: it would run on the machine of the service.
"""

from typing import TYPE_CHECKING

from andon.dashboard.acting import need
from andon.dashboard.answers import Done, Shown
from andon.dashboard.pages import alerts as page
from andon.dashboard.patience import within
from andon.dashboard.requests import Fields, Refused
from andon.dashboard.views.alerts import (
    RULE_FIELDS,
    TARGET_FIELDS,
    AlertForm,
    form_of_rule,
    form_of_target,
    given,
)
from andon.engine.alert_requests import HasAlerts
from andon.model.alerts import ALERTS_QUEUE
from andon.model.errors import ConfigurationError

if TYPE_CHECKING:
    from andon.dashboard.pages.frame import Place
    from andon.dashboard.reading import Reader
    from andon.engine.alert_requests import AlertKeeper
    from andon.model.alerts import AlertsShown

SCOPE = "admin:alerts"


class Alerting:
    """The alerts of a board."""

    def __init__(self, reader: "Reader") -> None:
        self._reader = reader

    async def _keeper(self, place: "Place") -> "AlertKeeper":
        need(place.visitor, SCOPE)
        engine = await self._reader.engine()
        if not isinstance(engine, HasAlerts):
            raise Refused(404, "Not here", "There are no alerts here.")
        return engine.alerts

    async def _shown(self, place: "Place") -> "AlertsShown":
        return await within((await self._keeper(place)).shown())

    async def _now(self) -> int:
        return (await self._reader.engine()).now()

    # --- pages ---

    async def everything(self, place: "Place") -> Shown:
        """All rules and targets."""
        shown = await self._shown(place)
        content = list(page.content(place, shown, await self._now()))
        return Shown("Alerts", content, topics=("alerts",))

    async def rule(self, place: "Place", form: AlertForm) -> Shown:
        """The form of a rule: of a new one, or of the named one as it is."""
        shown = await self._shown(place)
        found = None
        if not form.is_new:
            found = next((one for one in shown.rules if one.name == form.name), None)
            if found is None:
                raise Refused(404, "Not here", "There is no such alert rule.")
            if not form.wrong:
                form = form_of_rule(found)
        targets = [one.name for one in shown.targets]
        drawn = page.rule(place, form, found, targets, await self._now())
        return Shown(f"Alert {form.name or 'rule'}", list(drawn))

    async def target(self, place: "Place", form: AlertForm) -> Shown:
        """The form of a target: of a new one, or of the named one as it is."""
        found = None
        if not form.is_new:
            shown = await self._shown(place)
            found = next((one for one in shown.targets if one.name == form.name), None)
            if found is None:
                raise Refused(404, "Not here", "There is no such alert target.")
            if not form.wrong:
                form = form_of_target(found)
        else:
            need(place.visitor, SCOPE)
        return Shown(f"Target {form.name or 'new'}", list(page.target(place, form, found)))

    # --- acts ---

    async def save_rule(self, fields: Fields, place: "Place") -> Done:
        """Make a rule, or change it to what its form says."""
        keeper, form = await self._keeper(place), _form(fields, RULE_FIELDS)
        try:
            how = "add" if form.is_new else "set"
            await within(keeper.put_rule(form.name, given(form.values), how))
        except ConfigurationError as error:
            return Done(page=await self.rule(place, _wrong(form, error)))
        return Done(f"The rule {form.name} is saved: it is looked at within a minute.", "/alerts")

    async def save_target(self, fields: Fields, place: "Place") -> Done:
        """Make a target, or change the fields that its form gives."""
        keeper, form = await self._keeper(place), _form(fields, TARGET_FIELDS)
        if form.values["how"] not in ("webhook", "chat"):
            raise Refused(403, "Not here", "A command is set by the command line, not by a page.")
        try:
            if form.is_new and any(one.name == form.name for one in (await keeper.shown()).targets):
                raise ConfigurationError(f"There is a target {form.name!r}; change that one.")
            await within(keeper.put_target(form.name, given(form.values)))
        except ConfigurationError as error:
            return Done(page=await self.target(place, _wrong(form, error)))
        return Done(f"The target {form.name} is saved. Test it.", "/alerts")

    async def remove_rule(self, fields: Fields, place: "Place") -> Done:
        """Delete a rule."""
        name = fields.get("name")
        if not await within((await self._keeper(place)).remove_rule(name)):
            raise Refused(404, "Not here", "There is no such alert rule.")
        return Done(f"The rule {name} is removed.", "/alerts")

    async def remove_target(self, fields: Fields, place: "Place") -> Done:
        """Delete a target that no rule notifies."""
        name = fields.get("target")
        try:
            if not await within((await self._keeper(place)).remove_target(name)):
                raise Refused(404, "Not here", "There is no such alert target.")
        except ConfigurationError as error:
            return Done(f"⚠ {error}")
        return Done(f"The target {name} is removed.", "/alerts")

    async def test(self, fields: Fields, place: "Place") -> Done:
        """Send a test notice to a target."""
        name = fields.get("target")
        try:
            task = await within((await self._keeper(place)).test(name))
        except ConfigurationError as error:
            return Done(f"⚠ {error}")
        to = f"/tasks/{task}" if place.may(f"tasks:read:{ALERTS_QUEUE}") else ""
        return Done(f"The target {name} is told that this is a test, by this task.", to)


def _form(fields: Fields, names: tuple[str, ...]) -> AlertForm:
    return AlertForm(
        name=fields.get("name").strip(),
        is_new=bool(fields.get("is-new")),
        values={name: fields.get(name) for name in names},
    )


def _wrong(form: AlertForm, error: ConfigurationError) -> AlertForm:
    return AlertForm(name=form.name, is_new=form.is_new, values=form.values, wrong=str(error))
