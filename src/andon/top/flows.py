"""Flows: the newest, and one as a tree."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.binding import Binding, BindingType

from andon.dashboard import acting
from andon.dashboard.patience import within
from andon.dashboard.reading_fleet import MOST_FLOWS, flow
from andon.dashboard.views.tasks import TaskFilter
from andon.dashboard.views.tree import Branch, tree_of
from andon.engine.flows import FlowSummary, list_flows
from andon.lifecycle.flows import FlowDocument
from andon.model.wording import plural
from andon.top import doing, texts
from andon.top.desk import Desk
from andon.top.page import Column, ListPage, Row, TextPage
from andon.top.tasks import TasksPage

_MOST_FAILURES = 3
_BAR = 30


class FlowsPage(ListPage):
    """The newest flows."""

    tab = "flows"
    what = "flow"
    columns: ClassVar[Sequence[Column]] = (
        Column("flow", 28),
        Column("tasks", 8),
        Column("submitted", 12),
        Column("name", None),
    )
    empty = "No flow was submitted lately. Make one in code: with app.flow(name) as flow."

    def heading(self) -> Text:
        """The line that says what is listed."""
        return texts.words(("Flows", "bold"), (f"  the newest {MOST_FLOWS}", "dim"))

    async def read(self) -> tuple[list[FlowSummary], int]:
        """The newest, and now."""
        engine = await self.desk.reader.engine()
        return await within(list_flows(engine, limit=MOST_FLOWS)), engine.now()

    def rows_of(self, view: tuple[list[FlowSummary], int]) -> list[Row]:
        """A flow a row."""
        found, now = view
        unique = {one.id: one for one in found}
        return [
            Row(
                one.id,
                [
                    texts.plain(one.id, most=80),
                    texts.number(one.members),
                    texts.age(one.created_at, now),
                    texts.plain(one.name),
                ],
                texts.words((one.id, "bold"), "  ", one.name),
            )
            for one in unique.values()
        ]

    def open(self, key: str) -> None:
        """One flow."""
        self.go(FlowPage(self.desk, key))


class FlowPage(TextPage):
    """One flow as a tree."""

    tab = "flows"
    what = "flow"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "act(False)", "Run again what failed"),
        Binding("c", "act(True)", "Cancel"),
        Binding("enter", "tasks", "Its tasks"),
    ]

    def __init__(self, desk: Desk, flow_id: str) -> None:
        super().__init__(desk)
        self._flow = flow_id

    def heading(self) -> Text:
        """Its name and id."""
        name = self.view.name if self.view is not None else ""
        return texts.words(
            ("Flow ", "dim"), (name or self._flow, "bold"), (f"  {self._flow}", "dim")
        )

    async def read(self) -> FlowDocument:
        """The flow as it is now."""
        return await flow(self.desk.reader, self._flow)

    def text(self, view: FlowDocument) -> Text:
        """How far it is, and its tree."""
        return texts.joined([_head(view), Text(""), *_tree(view)])

    def action_tasks(self) -> None:
        """Its tasks as a list."""
        self.go(TasksPage(self.desk, TaskFilter(group=self._flow)))

    @work(group="act")
    async def action_act(self, cancels: bool) -> None:
        """Cancel what has not ended, or run again what did not complete."""
        view: FlowDocument | None = self.view
        if view is None:
            return
        progress = view.progress
        if cancels:
            count, title = progress.total - progress.ended, "Cancel {} of the flow?"
        else:
            count, title = progress.failed, "Run {} again, and what follows them?"
        if not count:
            self.say("There is no task to do it to.")
            return
        if await doing.sure(self, title.format(plural(count, "task"))):
            desk = self.desk
            await doing.do(
                self, acting.act_on_flow(desk.reader, desk.visitor, self._flow, cancels=cancels)
            )


def _head(view: FlowDocument) -> Text:
    progress = view.progress
    filled = _BAR * progress.percent // 100
    return texts.words(
        ("━" * filled, "red" if progress.failed else "green"),
        ("━" * (_BAR - filled), "dim"),
        f" {progress.percent} %, {progress.ended:,} of {progress.total:,} ended",
        (f", {progress.failed:,} not completed", "red") if progress.failed else "",
        ("" if view.is_whole else ", it has more tasks than are read here", "dim"),
    )


def _tree(view: FlowDocument) -> Iterator[Text]:
    for branch in tree_of(view.nodes):
        yield _node(branch)
        for failure in branch.node.stuck[:_MOST_FAILURES]:
            yield texts.words(
                (f"{branch.below}   ", "dim"),
                texts.state(failure.state),
                f" {failure.id}: {failure.message or failure.reason}",
            )


def _node(branch: Branch) -> Text:
    node = branch.node
    line = texts.words((branch.before, "dim"), (node.name, "bold"))
    if node.count > 1:
        line.append(f" x {node.count:,}")
    for state, count in node.states.items():
        shown = texts.state(state, state if node.count == 1 else f"{count:,} {state}")
        line.append("  ").append_text(shown)
    if "active" in node.states:
        line.append(f"  {node.progress} %")
    if node.needs is not None:
        line.append(f"  {node.needs[0]:,} of {node.needs[1]:,} needed", "dim")
    if branch.others:
        line.append_text(texts.words((f"  (also after {', '.join(branch.others)})", "dim")))
    return line
