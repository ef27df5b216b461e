"""One task: its record, its history, its log."""

import asyncio
from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec
from rich.text import Text
from textual import work
from textual.binding import Binding, BindingType

from andon.dashboard.patience import EVERY
from andon.dashboard.reading_tasks import LogTail, task_page
from andon.dashboard.views.acts import ONE
from andon.dashboard.views.bodies import Body
from andon.dashboard.views.looks import line_of
from andon.dashboard.views.runs import RunBar
from andon.dashboard.views.task import EdgeView, LogView, TaskView
from andon.lifecycle.faces.fields import iso
from andon.model.wording import ago, plural, size_of
from andon.top import changing, doing, texts
from andon.top.desk import Desk
from andon.top.page import TextPage

PROFILES = ("native", "jobbers", "asynq", "cbintel", "choria", "taskcluster")
_BAR = 24
_TAIL = 12
"""Lines of the log that stand below a task; the key l shows all."""

_CHANGES = {
    "reschedule": "other start",
    "reprioritise": "other priority",
    "edit": "other arguments",
}

_KEYS = {
    "c": ("cancel", "cancel-by-force"),
    "r": ("run-now", "rerun"),
    "a": ("archive",),
    "d": ("delete",),
}
"""The acts of each key: the one that the task's state allows is meant."""


class TaskPage(TextPage):
    """One task."""

    tab = "tasks"
    what = "task"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "act('r')", "Run"),
        Binding("c", "act('c')", "Cancel"),
        Binding("a", "act('a')", "Archive"),
        Binding("d", "act('d')", "Delete"),
        Binding("l", "log", "Log"),
        Binding("s", "change('reschedule')", "Start at another time", show=False),
        Binding("i", "change('reprioritise')", "Priority", show=False),
        Binding("e", "change('edit')", "Edit the arguments", show=False),
        Binding("v", "dialect", "Moves as another system shows them"),
    ]

    def __init__(self, desk: Desk, task_id: str) -> None:
        super().__init__(desk)
        self.task_id = task_id
        self.seen_as = desk.seen_as
        self._tail = LogTail(task_id, None)
        self._log: LogView | None = None
        self._log_at = 0.0

    def heading(self) -> Text:
        """Its name and id."""
        if self.view is None:
            return texts.plain(self.task_id)
        return texts.words((self.view.name, "bold"), "  ", (self.view.id, "dim"))

    async def read(self) -> TaskView:
        """The task as it is now, and its log as often as a log is read."""
        now = asyncio.get_running_loop().time()
        if self._log is None or now - self._log_at >= EVERY["log"]:
            self._log = await self._tail.read(self.desk.reader)
            self._log_at = now
        return await task_page(self.desk.reader, self.task_id, self.seen_as)

    def text(self, view: TaskView) -> Text:
        """The widgets of the page."""
        parts = [*_head(view), *_error(view), *_bodies(view), *_runs(view), *_edges(view)]
        parts += _moves(view)
        if self._log is not None:
            parts += _log(self._log)
        return texts.joined(parts)

    @work(group="act")
    async def action_act(self, key: str) -> None:
        """Do what a key stands for."""
        view: TaskView | None = self.view
        if view is None:
            return
        act = next((name for name in _KEYS[key] if name in view.can), "")
        if not act:
            label = ONE[_KEYS[key][0]].label.lower()
            self.say(f"⚠ A task that is {view.state} cannot be: {label}.")
            return
        said = await doing.to_one(self, act, self.task_id)
        if said is not None and said.is_gone:
            self.action_back()

    @work(group="act")
    async def action_change(self, change: str) -> None:
        """Give it another start, another priority or other arguments."""
        view: TaskView | None = self.view
        if view is None:
            return
        if change not in view.changes:
            self.say(f"⚠ A task that is {view.state} takes no {_CHANGES[change]}.")
        elif change == "reschedule":
            await changing.reschedule(self, view)
        elif change == "reprioritise":
            await changing.reprioritise(self, view)
        else:
            successor = await changing.edit(self, view)
            if successor:
                self.go(TaskPage(self.desk, successor))

    def action_log(self) -> None:
        """Its whole log, followed."""
        self.go(LogPage(self.desk, self.task_id))

    def action_dialect(self) -> None:
        """Its moves as the next of the systems lists them."""
        self.seen_as = PROFILES[(PROFILES.index(self.seen_as) + 1) % len(PROFILES)]
        self.action_read_again()


class LogPage(TextPage):
    """The newest lines of a run's log. It stays at the end unless the user has scrolled up."""

    tab = "tasks"
    what = "log"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "run(-1)", "The run before"),
        Binding("n", "run(1)", "The run after"),
    ]

    def __init__(self, desk: Desk, task_id: str) -> None:
        super().__init__(desk)
        self._task_id = task_id
        self._tail = LogTail(task_id, None)

    def heading(self) -> Text:
        """The line that names the task and the run of the log."""
        run = "" if self.view is None or self.view.run is None else f"  run {self.view.run}"
        return texts.words(("Log", "bold"), " of ", self._task_id, (run, "dim"))

    async def read(self) -> LogView:
        """The log as it is now."""
        return await self._tail.read(self.desk.reader)

    def text(self, view: LogView) -> Text:
        """Its lines."""
        return texts.joined(_lines(view, len(view.lines)))

    def show(self, view: LogView) -> None:
        """Show it, and go along with its end."""
        body = self.query_one("#body")
        was_at_end = body.scroll_offset.y >= body.max_scroll_y
        super().show(view)
        if was_at_end:
            self.call_after_refresh(body.scroll_end, animate=False)

    def action_run(self, by: int) -> None:
        """The log of another run."""
        view: LogView | None = self.view
        if view is None or view.run not in view.runs:
            return
        place = view.runs.index(view.run) + by
        if 0 <= place < len(view.runs):
            self._tail = LogTail(self._task_id, view.runs[place])
            self.action_read_again()


def _section(title: str, note: str = "") -> Text:
    return texts.words(Text("\n"), (title, "bold underline"), (f"  {note}" if note else "", "dim"))


def _head(view: TaskView) -> Iterator[Text]:
    yield texts.words(
        texts.state(view.state, view.shown_as),
        (f"  {view.note}" if view.note else "", "dim"),
    )
    if view.waits:
        yield texts.words(("⚠ ", "red"), view.waits)
    if view.not_retried:
        yield texts.words((view.not_retried, "dim"))
    progress = f"{view.progress or 0} % {view.progress_message}"
    yield texts.listed(
        [
            ("queue", view.queue),
            ("type", view.name + (f" v{view.version}" if view.version else "")),
            ("priority", str(view.priority)),
            ("tries", f"{view.tries:,} of {view.max_tries:,}"),
            ("fence", str(view.fence) if view.fence else ""),
            ("worker", view.worker),
            ("progress", progress if view.progress or view.progress_message else ""),
            *(
                (name, texts.words(ago(at, view.now), (f"  {iso(at)}", "dim")))
                for name, at in view.times
                if at is not None
            ),
            ("key", view.key),
            ("unique key", view.unique_key),
            ("group", view.group),
            ("tags", ", ".join(view.tags) + _more(view.more_tags)),
            *((f"header {name}", value) for name, value in view.headers[:50]),
            ("predecessor", view.predecessor),
            ("successor", view.successor),
            ("follows up", view.bearer),
            ("owes", ", ".join(view.owes[:20])),
        ]
    )


def _more(count: int) -> str:
    return f" and {count:,} more" if count > 0 else ""


def _error(view: TaskView) -> Iterator[Text]:
    if view.error is None:
        return
    yield _section("Error", view.error.type or view.error.code)
    yield texts.lines(view.error.message, "red")
    if view.error.traceback.text:
        yield texts.lines(view.error.traceback)


def _bodies(view: TaskView) -> Iterator[Text]:
    for title, body in (("Arguments", view.args), ("Result", view.result)):
        if body is None:
            continue
        yield _section(title, _about(body))
        if body.text:
            yield texts.lines(body.text)


def _about(body: Body) -> str:
    notes = [size_of(body.size)]
    if body.hidden:
        notes.append(f"{plural(body.hidden, 'value')} hidden")
    if not body.is_json:
        notes.append("not shown: too large" if not body.text else "not JSON")
    if body.more:
        notes.append(f"{body.more:,} more characters")
    return ", ".join(notes)


def _runs(view: TaskView) -> Iterator[Text]:
    axis = view.runs
    yield _section("Runs", f"in {texts.duration(axis.ends_at - axis.begins_at)}")
    if axis.dropped:
        yield texts.words((f"{plural(axis.dropped, 'older run')} not kept.", "dim"))
    if not axis.bars:
        yield texts.words(("It has not been ready to run yet.", "dim"))
    for bar in axis.bars:
        yield texts.words(_bar(bar), " ", _said(bar))


def _bar(bar: RunBar) -> Text:
    """A run on the axis: a thin line while it waits, a thick one while it runs."""
    left, start, end = (min(_BAR - 1, int(part * _BAR)) for part in (bar.left, bar.start, bar.end))
    line = Text(" " * left)
    line.append("─" * (start - left), "dim")
    runs = bar.claimed_at is not None
    line.append("█" * max(1, end - start) if runs else "·", texts.STYLES[bar.tone])
    line.append(" " * max(0, _BAR - len(line)))
    return line


def _said(bar: RunBar) -> str:
    ended = bar.ended or ("runs" if bar.claimed_at is not None else "waits")
    took = f", {texts.duration(bar.took_ms)}" if bar.took_ms is not None else ""
    worker = f", {line_of(bar.worker, 40)}" if bar.worker else ""
    return f"#{bar.number} {bar.opened} → {ended}{took}{worker}"


def _edges(view: TaskView) -> Iterator[Text]:
    for title, edges, note in (
        ("Waits for", view.depends_on, f"needs {view.needs}" if view.needs else ""),
        ("Waited for by", view.needed_by or [], ""),
    ):
        if edges:
            yield _section(title, note)
            yield texts.table(["task", "name", "state"], [_edge(one) for one in edges])
    if view.more_depends_on > 0:
        yield texts.words((f"{view.more_depends_on:,} more", "dim"))


def _edge(one: EdgeView) -> list[Text]:
    return [texts.plain(one.id), texts.plain(one.name), texts.state(one.state)]


def _moves(view: TaskView) -> Iterator[Text]:
    yield _section("Moves", "" if view.profile == "native" else f"as {view.profile} shows them")
    if view.dropped_moves > 0:
        yield texts.words((f"{plural(view.dropped_moves, 'older move')} not shown.", "dim"))
    if view.profile != "native":
        names = list(dict.fromkeys(name for move in view.foreign for name in move))
        rows = [[texts.plain(_value(move.get(name))) for name in names] for move in view.foreign]
        yield texts.table(names, rows, most=26)
        return
    yield texts.table(
        ["at (UTC)", "event", "to", "run", "why, by whom"],
        [
            [
                texts.plain(iso(one.at)[5:19].replace("T", " ")),
                texts.plain(one.event),
                texts.state(one.target),
                texts.plain("" if one.run is None else f"#{one.run}"),
                texts.words(
                    one.reason,
                    (f" {one.error}" if one.error else "", "red"),
                    (f" {one.actor or line_of(one.worker, 60)}", "dim"),
                ),
            ]
            for one in view.moves
        ],
    )


def _value(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(value).decode()


def _log(view: LogView) -> Iterator[Text]:
    yield _section("Log", "" if view.run is None else f"of run {view.run}; l shows all")
    yield from _lines(view, _TAIL)


def _lines(view: LogView, most: int) -> Iterator[Text]:
    if view.missing:
        yield texts.words((f"Logs are not kept: {view.missing}", "dim"))
        return
    if view.run is None or not view.lines:
        yield texts.words(("Nothing is logged yet.", "dim"))
        return
    if view.more or len(view.lines) > most:
        yield texts.words(("Only the newest lines; all of them: andon logs ", "dim"), view.task)
    for at, level, text in view.lines[-most:]:
        bad = level in ("error", "critical")
        yield texts.words(
            (iso(at)[11:19], "dim"), " ", (level, "bold red" if bad else "dim"), " "
        ).append_text(texts.lines(text[:4_000]))
