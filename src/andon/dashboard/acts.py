"""What the board does: each act is a form that was sent, checked against what its sender may."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from andon.contract.limits import in_batches
from andon.dashboard import reading_letters
from andon.dashboard.alerting import Alerting
from andon.dashboard.answers import Done, Shown, need
from andon.dashboard.bulk import MOST_NAMED, Counted, Doing, act_named, count, new_id
from andon.dashboard.pages import bulk as bulk_page
from andon.dashboard.pages import trust as trust_page
from andon.dashboard.patience import within
from andon.dashboard.requests import Fields, Refused, path_in
from andon.dashboard.views.tasks import TaskFilter, filter_of, total_of
from andon.engine.flows import cancel_flow, read_flow, rerun_flow
from andon.engine.schedule_requests import HasSchedules
from andon.engine.schedule_views import queues_of
from andon.lifecycle.commands import Archive, Delete
from andon.model.errors import TaskNotFound
from andon.model.words import State

if TYPE_CHECKING:
    from andon.contract.queries import Query
    from andon.dashboard.bulk import Bulk, Keep
    from andon.dashboard.pages.frame import Place
    from andon.dashboard.reading import Reader
    from andon.dashboard.tokens import TokenBook
    from andon.engine.base import Acted, Engine
    from andon.engine.schedule_requests import ScheduleAct
    from andon.model.task import Task

MOST_CHOSEN = 1_000
"""Tasks that are chosen one by one."""

ONE = {
    "cancel": ("tasks:cancel:", "is cancelled, or asked to stop if it runs"),
    "cancel-by-force": ("tasks:cancel:", "is cancelled; its run changes nothing any more"),
    "rerun": ("tasks:change:", "runs again"),
    "run-now": ("tasks:change:", "may run now"),
    "archive": ("tasks:change:", "is a dead letter"),
    "delete": ("tasks:change:", "is deleted"),
}
"""What may be done to one task: the scope that it needs, and what is said afterwards."""

_SCHEDULE_ACTS: "dict[ScheduleAct, str]" = {
    "pause": "is paused",
    "resume": "goes on",
    "run": "has borne one task now",
}
"""What may be done to a schedule, and what is said afterwards."""

SCOPES = {
    "cancel": "tasks:cancel:",
    "retry": "tasks:change:",
    "archive": "tasks:change:",
    "delete": "tasks:change:",
}
"""What may be done to many, and the scope that it needs."""


Act = Callable[[Fields, "Place"], Awaitable[Done]]


class Acts:
    """All acts of a board."""

    def __init__(self, reader: "Reader", bulk: "Bulk", tokens: "TokenBook | None") -> None:
        self._reader = reader
        self._bulk = bulk
        self._tokens = tokens
        self._acts: dict[str, Act] = {
            "/acts/pause": self.pause,
            "/acts/resume": self.resume,
            "/bulk/chosen": self.ask_about_chosen,
            "/bulk/matching": self.ask_about_matching,
            "/bulk/letters": self.ask_about_letters,
            "/bulk/do": self.do_to_many,
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
        for act in _SCHEDULE_ACTS:
            self._acts[f"/acts/schedule/{act}"] = partial(self.act_on_schedule, act)
        for name in ONE:
            self._acts[f"/acts/task/{name}"] = partial(self.act_on_task, name)

    async def do(self, path: str, form: Fields, place: "Place") -> Done:
        """Do what a path says. Raises `Refused`."""
        act = self._acts.get(path)
        if act is None:
            raise Refused(404, "Not here", "There is no such act.")
        return await act(form, place)

    # --- queues ---

    async def pause(self, form: Fields, place: "Place") -> Done:
        """Pull the cord of a queue."""
        return await self._set_paused(form, place, paused=True)

    async def resume(self, form: Fields, place: "Place") -> Done:
        """Let a queue go on."""
        return await self._set_paused(form, place, paused=False)

    async def _set_paused(self, form: Fields, place: "Place", *, paused: bool) -> Done:
        name = form.get("queue")
        need(place, f"queues:manage:{name}")
        engine = await self._reader.engine()
        known = {config.name for config, _ in await self._reader.queues()}
        if name not in known:
            raise Refused(404, "Not here", "There is no such queue.")
        await engine.configure_queue(name, {"paused": paused})
        self._reader.forget()
        said = "paused: nothing is claimed from it, what runs goes on" if paused else "goes on"
        return Done(f"Queue {name} {said}.")

    # --- one task ---

    async def act_on_task(self, name: str, form: Fields, place: "Place") -> Done:
        """Do something to one task."""
        scope, past = ONE[name]
        engine = await self._reader.engine()
        task_id = form.get("task")
        [task] = await within(engine.get([task_id]))
        if task is None:
            raise TaskNotFound(task_id[:100])
        need(place, f"{scope}{task.definition.queue}")
        [acted] = await _one(engine, name, task_id)
        if acted.error is not None:
            return Done(f"⚠ {acted.error}")
        self._reader.forget()
        if not acted.changed:
            return Done("There was nothing to do.")
        gone = acted.state is None
        return Done(f"Task {task_id} {past}.", to="/tasks" if gone else "")

    # --- schedules and flows ---

    async def act_on_schedule(self, act: "ScheduleAct", form: Fields, place: "Place") -> Done:
        """Pause, resume or run a schedule."""
        engine, name = await self._reader.engine(), form.get("schedule")
        if not isinstance(engine, HasSchedules):
            raise Refused(404, "Not here", "There are no schedules here.")
        [task] = await within(engine.get([name]))
        if task is None or task.status.schedule is None:
            raise Refused(404, "Not here", "There is no such schedule.")
        for queue in sorted(queues_of(task)):
            need(place, f"tasks:change:{queue}")
        [acted] = await within(engine.schedules.act([name], act))
        if acted.error is not None:
            return Done(f"⚠ {acted.error}")
        return Done(f"Schedule {name} {_SCHEDULE_ACTS[act]}.")

    async def act_on_flow(self, form: Fields, place: "Place", *, cancels: bool) -> Done:
        """Cancel what of a flow has not ended, or run again what failed."""
        need(place, "tasks:cancel:*" if cancels else "tasks:change:*")
        engine = await self._reader.engine()
        flow = await within(read_flow(engine, form.get("flow")))
        tally = await (cancel_flow(engine, flow) if cancels else rerun_flow(engine, flow))
        refused = f", {tally.refused:,} refused" if tally.refused else ""
        what = "cancelled, or asked to stop" if cancels else "started again"
        return Done(f"{tally.changed:,} of {tally.found:,} tasks {what}{refused}.")

    # --- tokens ---

    async def create_token(self, form: Fields, place: "Place") -> Done:
        """Make a token that allows no more than its maker's."""
        book = self._book(place)
        scopes = form.get("scopes").split()
        for scope in scopes:
            need(place, scope)
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
        need(place, "admin:tokens")
        return self._tokens

    # --- many tasks ---

    async def ask_about_chosen(self, form: Fields, place: "Place") -> Done:
        """Ask whether it is to be done to the tasks that were chosen."""
        ids = list(dict.fromkeys(form.all("chosen")))
        if not ids:
            return Done("Choose some tasks first: with their boxes, or with j, k and x.")
        if len(ids) > MOST_CHOSEN:
            raise Refused(413, "Too many", f"Choose {MOST_CHOSEN:,} tasks at the most.")
        act = _known(form)
        return self._question(
            form,
            place,
            act=act,
            words=f"the {len(ids):,} chosen",
            counted=Counted(len(ids)),
            fields=[("chosen", one) for one in ids],
            examples=ids,
        )

    async def ask_about_matching(self, form: Fields, place: "Place") -> Done:
        """Count what a filter finds, and ask whether it is to be done to all of them."""
        act, asked = _known(form), filter_of(form)
        need(place, f"{SCOPES[act]}{asked.queue or '*'}")
        need(place, f"tasks:read:{asked.queue or '*'}")
        letters = bool(form.get("letters"))
        fingerprint = form.get("fingerprint")
        fields = [*asked.pairs]
        words = asked.words
        if letters:
            fields += [("letters", "yes"), ("fingerprint", fingerprint)]
            words = f"dead letters{_of_queue(asked.queue)}"
            words += f" of the cause {fingerprint}" if fingerprint else ""
        counted = await self._count(form, asked, letters=letters, fingerprint=fingerprint)
        return self._question(
            form, place, act=act, words=words, counted=counted, fields=fields, examples=()
        )

    async def ask_about_letters(self, form: Fields, place: "Place") -> Done:
        """The same of one group of dead letters."""
        form = Fields([*form.pairs, ("letters", "yes")])
        return await self.ask_about_matching(form, place)

    async def _count(
        self, form: Fields, asked: TaskFilter, *, letters: bool, fingerprint: str
    ) -> Counted:
        self._reader.forget()
        queues = await self._reader.queues()
        if letters and not fingerprint:
            return Counted(await reading_letters.total(self._reader, asked.queue))
        by_counters = None if letters else total_of(asked, queues)
        if by_counters is not None:
            return Counted(by_counters)
        query, keep = _meant(asked, letters=letters, fingerprint=fingerprint)
        before = form.get("counted")
        at = form.get("counted-to")
        if at:
            query = msgspec.structs.replace(query, cursor=at)
        number = int(before) if at and before.isdecimal() and len(before) < 12 else 0
        return await count(await self._reader.engine(), query, keep, number)

    def _question(
        self,
        form: Fields,
        place: "Place",
        *,
        act: str,
        words: str,
        counted: Counted,
        fields: Sequence[tuple[str, str]],
        examples: Sequence[str],
    ) -> Done:
        content = bulk_page.question(
            place,
            act=act,
            words=words,
            number=counted.number,
            is_whole=counted.is_whole,
            fields=[*fields, ("words", words)],
            cursor=counted.cursor,
            examples=examples,
            back=path_in(form.get("back")),
        )
        return Done(page=Shown(f"{bulk_page.DOES[act][0]}?", list(content)))

    async def do_to_many(self, form: Fields, place: "Place") -> Done:
        """Do it to those that were chosen, or to all that a filter finds."""
        act = _known(form)
        engine = await self._reader.engine()
        ids = list(dict.fromkeys(form.all("chosen")))
        number = form.get("counted")
        doing = Doing(
            id=new_id(),
            label=bulk_page.DOES[act][0],
            words=form.get("words")[:300] or "those chosen",
            expected=int(number)
            if form.get("whole") and number.isdecimal() and len(number) < 12
            else None,
            back=path_in(form.get("back")),
        )
        if ids:
            allowed, refused = await self._allowed(engine, ids[:MOST_CHOSEN], act, place)
            doing.refused = refused[:MOST_NAMED]
            doing.tally.found = doing.tally.refused = len(refused)
            self._bulk.start(doing, engine, act_named(engine, act), allowed, _any)
        else:
            asked = filter_of(form)
            need(place, f"{SCOPES[act]}{asked.queue or '*'}")
            query, keep = _meant(
                asked, letters=bool(form.get("letters")), fingerprint=form.get("fingerprint")
            )
            self._bulk.start(doing, engine, act_named(engine, act), query, keep)
        self._reader.forget()
        return Done(to=f"/bulk/{doing.id}")

    async def _allowed(
        self, engine: "Engine", ids: Sequence[str], act: str, place: "Place"
    ) -> tuple[list[str], list[tuple[str, str]]]:
        """Those of the tasks that the visitor may act on; the others, and what is missing."""
        if place.may(f"{SCOPES[act]}*"):
            return list(ids), []
        allowed: list[str] = []
        refused: list[tuple[str, str]] = []
        for some in in_batches(ids):
            for task_id, task in zip(some, await within(engine.get(some)), strict=True):
                scope = "" if task is None else f"{SCOPES[act]}{task.definition.queue}"
                if scope and not place.may(scope):
                    refused.append((task_id, f"it needs the scope {scope}"))
                else:
                    allowed.append(task_id)
        return allowed, refused


def _meant(asked: TaskFilter, *, letters: bool, fingerprint: str) -> "tuple[Query, Keep]":
    """The query of all that is meant, in order of creation, and which of what it finds."""
    query = msgspec.structs.replace(asked.query(), newest_first=False, due_first=False, cursor="")
    if letters:
        query = msgspec.structs.replace(query, dead_letters=True)
        return query, lambda task: reading_letters.is_of(fingerprint, task)
    if asked.states:
        return query, _any
    return query, lambda task: task.state is not State.RECURRING


def _any(task: "Task") -> bool:
    return True


def _known(form: Fields) -> str:
    act = form.get("do")
    if act not in SCOPES:
        raise Refused(404, "Not here", "There is no such act.")
    return act


def _of_queue(queue: str) -> str:
    return f" of queue {queue}" if queue else ""


async def _one(engine: "Engine", name: str, task_id: str) -> "list[Acted]":
    match name:
        case "cancel":
            return await engine.cancel([task_id])
        case "cancel-by-force":
            return await engine.cancel([task_id], force=True)
        case "rerun" | "run-now":
            return await engine.retry([task_id])
        case "archive":
            return await engine.act([task_id], Archive())
        case _:
            return await engine.act([task_id], Delete())
