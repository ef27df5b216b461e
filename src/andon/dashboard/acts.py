"""Carries out the board's acts: each is a form that was sent, checked against its sender's
scopes."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote

from andon.dashboard import acting, editing
from andon.dashboard.acting import MOST_CHOSEN, Meant, need
from andon.dashboard.alerting import Alerting
from andon.dashboard.answers import Done, Shown
from andon.dashboard.pages import bulk as bulk_page
from andon.dashboard.pages import trust as trust_page
from andon.dashboard.patience import within
from andon.dashboard.requests import Fields, Refused, path_in
from andon.dashboard.scheduling import Scheduling
from andon.dashboard.views.acts import MANY, OF_SCHEDULES, ONE
from andon.dashboard.views.tasks import filter_of

if TYPE_CHECKING:
    from andon.dashboard.bulk import Counted
    from andon.dashboard.pages.frame import Place
    from andon.dashboard.reading import Reader
    from andon.dashboard.tokens import TokenBook
    from andon.engine.schedule_requests import ScheduleAct


Act = Callable[[Fields, "Place"], Awaitable[Done]]


class Acts:
    """All acts of a board."""

    def __init__(self, reader: "Reader", tokens: "TokenBook | None") -> None:
        self._reader = reader
        self._tokens = tokens
        self._acts: dict[str, Act] = {
            "/acts/pause": partial(self.set_paused, paused=True),
            "/acts/resume": partial(self.set_paused, paused=False),
            "/bulk/chosen": self.ask_about_chosen,
            "/bulk/matching": self.ask_about_matching,
            "/bulk/letters": self.ask_about_letters,
            "/bulk/do": self.do_to_many,
            "/acts/task/edit": self.edit,
            "/acts/task/reschedule": self.reschedule,
            "/acts/task/reprioritise": self.reprioritise,
            "/acts/queue/configure": self.configure,
            "/acts/flow/cancel": partial(self.act_on_flow, cancels=True),
            "/acts/flow/rerun-failed": partial(self.act_on_flow, cancels=False),
            "/acts/token/create": self.create_token,
            "/acts/token/revoke": self.revoke_token,
        }
        alerting = Alerting(reader)
        self._acts |= {
            "/acts/alerts/rule": alerting.save_rule,
            "/acts/alerts/remove-rule": alerting.remove_rule,
            "/acts/alerts/target": alerting.save_target,
            "/acts/alerts/remove-target": alerting.remove_target,
            "/acts/alerts/test": alerting.test,
        }
        scheduling = Scheduling(reader)
        self._acts |= {
            "/acts/schedule/preview": scheduling.preview,
            "/acts/schedule/add": scheduling.add,
            "/acts/schedule/edit": scheduling.edit,
        }
        for act in OF_SCHEDULES:
            self._acts[f"/acts/schedule/{act}"] = partial(self.act_on_schedule, act)
        for name in ONE:
            self._acts[f"/acts/task/{name}"] = partial(self.act_on_task, name)

    async def do(self, path: str, form: Fields, place: "Place") -> Done:
        """Carry out the act of a path. Raises `Refused`."""
        act = self._acts.get(path)
        if act is None:
            raise Refused(404, "Not here", "There is no such act.")
        return await act(form, place)

    # --- one thing ---

    async def set_paused(self, form: Fields, place: "Place", *, paused: bool) -> Done:
        """Pause a queue, or resume it."""
        said = await acting.set_paused(
            self._reader, place.visitor, form.get("queue"), paused=paused
        )
        return Done(said.text)

    async def act_on_task(self, name: str, form: Fields, place: "Place") -> Done:
        """Carry out an act on one task."""
        said = await acting.act_on_task(self._reader, place.visitor, name, form.get("task"))
        return Done(said.text, to="/tasks" if said.is_gone else "")

    async def edit(self, form: Fields, place: "Place") -> Done:
        """Give a task other arguments; then show its successor."""
        said = await editing.edit(
            self._reader,
            place.visitor,
            form.get("task"),
            form.get("arguments"),
            form.get("successor"),
        )
        return Done(said.text, to=f"/tasks/{quote(said.at, safe='')}" if said.at else "")

    async def reschedule(self, form: Fields, place: "Place") -> Done:
        """Give a task another start time."""
        task_id, text = form.get("task"), form.get("run-at")
        return Done((await editing.reschedule(self._reader, place.visitor, task_id, text)).text)

    async def reprioritise(self, form: Fields, place: "Place") -> Done:
        """Give a task another priority."""
        task_id, text = form.get("task"), form.get("priority")
        return Done((await editing.reprioritise(self._reader, place.visitor, task_id, text)).text)

    async def configure(self, form: Fields, place: "Place") -> Done:
        """Change the settings of a queue that differ from those when the form was drawn."""
        texts = {
            name: form.get(name)
            for name in editing.SETTINGS
            if name in form.names() and form.get(name).strip() != form.get(f"was-{name}")
        }
        queue = form.get("queue")
        return Done((await editing.configure(self._reader, place.visitor, queue, texts)).text)

    async def act_on_schedule(self, act: "ScheduleAct", form: Fields, place: "Place") -> Done:
        """Pause, resume or run a schedule."""
        name = form.get("schedule")
        return Done((await acting.act_on_schedule(self._reader, place.visitor, act, name)).text)

    async def act_on_flow(self, form: Fields, place: "Place", *, cancels: bool) -> Done:
        """Cancel the tasks of a flow that have not ended, or rerun those that failed."""
        said = await acting.act_on_flow(
            self._reader, place.visitor, form.get("flow"), cancels=cancels
        )
        return Done(said.text)

    # --- tokens ---

    async def create_token(self, form: Fields, place: "Place") -> Done:
        """Make a token that allows no more than the scopes of its maker."""
        book = self._book(place)
        scopes = form.get("scopes").split()
        for scope in scopes:
            need(place.visitor, scope)
        days = form.get("days").strip()
        try:
            lasts = float(days) if days else None
        except ValueError:
            return Done("⚠ A token lasts for a number of days, or for ever.")
        text, row = await within(book.create(form.get("name").strip(), scopes, days=lasts))
        content = list(trust_page.made(place, text, row))
        return Done(page=Shown("The new token", content))

    async def revoke_token(self, form: Fields, place: "Place") -> Done:
        """Revoke a token."""
        row = await within(self._book(place).revoke(form.get("token")))
        return Done(f"Token {row.id} ({row.name}) is revoked; within a second nobody takes it.")

    def _book(self, place: "Place") -> "TokenBook":
        if self._tokens is None:
            raise Refused(404, "Not here", "This board knows no tokens.")
        need(place.visitor, "admin:tokens")
        return self._tokens

    # --- many tasks ---

    async def ask_about_chosen(self, form: Fields, place: "Place") -> Done:
        """Ask for confirmation of an act on the chosen tasks."""
        ids = tuple(dict.fromkeys(form.all("chosen")))
        if not ids:
            return Done("Choose some tasks first: with their boxes, or with j, k and x.")
        if len(ids) > MOST_CHOSEN:
            raise Refused(413, "Too many", f"Choose {MOST_CHOSEN:,} tasks at the most.")
        return await self._ask(form, place, Meant(chosen=ids))

    async def ask_about_matching(self, form: Fields, place: "Place") -> Done:
        """Count the tasks that a filter finds, and ask for confirmation of an act on all of
        them."""
        return await self._ask(form, place, _meant(form))

    async def ask_about_letters(self, form: Fields, place: "Place") -> Done:
        """The same of one group of dead letters."""
        return await self._ask(form, place, _meant(Fields([*form.pairs, ("letters", "yes")])))

    async def _ask(self, form: Fields, place: "Place", meant: Meant) -> Done:
        act = acting.check_act(form.get("do"))
        counted = await acting.count_meant(
            self._reader,
            place.visitor,
            act,
            meant,
            at=form.get("counted-to"),
            before=_number(form.get("counted")) or 0,
        )
        return self._question(form, place, act, meant, counted)

    def _question(
        self, form: Fields, place: "Place", act: str, meant: Meant, counted: "Counted"
    ) -> Done:
        fields = [("chosen", one) for one in meant.chosen] or meant.asked.pairs
        if meant.letters:
            fields = [*fields, ("letters", "yes"), ("fingerprint", meant.fingerprint)]
        content = bulk_page.question(
            place,
            act=act,
            words=meant.words,
            number=counted.number,
            is_whole=counted.is_whole,
            fields=[*fields, ("words", meant.words)],
            cursor=counted.cursor,
            examples=meant.chosen,
            back=path_in(form.get("back")),
        )
        return Done(page=Shown(f"{MANY[act].label}?", list(content)))

    async def do_to_many(self, form: Fields, place: "Place") -> Done:
        """Carry out the act on the chosen tasks, or on all that a filter finds."""
        chosen = tuple(dict.fromkeys(form.all("chosen")))
        doing = await acting.start(
            self._reader,
            place.visitor,
            acting.check_act(form.get("do")),
            Meant(chosen=chosen) if chosen else _meant(form),
            words=form.get("words")[:300] or "those chosen",
            expected=_number(form.get("counted")) if form.get("whole") else None,
            back=path_in(form.get("back")),
        )
        return Done(to=f"/bulk/{doing.id}")


def _meant(form: Fields) -> Meant:
    """All tasks that the filter of a form finds."""
    return Meant(
        asked=filter_of(form),
        letters=bool(form.get("letters")),
        fingerprint=form.get("fingerprint"),
    )


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 12 else None
