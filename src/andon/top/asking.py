"""Dialogs of `andon top`: questions before an act, input lines, progress, and the help."""

import asyncio
from collections.abc import Callable
from typing import ClassVar, Literal

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from andon.dashboard.bulk import Doing
from andon.dashboard.patience import EVERY
from andon.top import texts

Answer = Literal["yes", "no", "more"]


class Question(ModalScreen[Answer]):
    """Asks whether to act. `counts_on`: the count of tasks may go on, with `g`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer('yes')", "Yes"),
        Binding("n,escape,q", "answer('no')", "No"),
        Binding("g", "answer('more')", "Go on counting"),
    ]

    def __init__(self, title: str, explains: Text | str = "", *, counts_on: bool = False) -> None:
        super().__init__()
        self._title = title
        self._explains = explains
        self._counts_on = counts_on

    def compose(self) -> ComposeResult:
        """The question, and the keys that answer it."""
        keys = [("y", "bold"), " yes   ", ("n", "bold"), " no"]
        if self._counts_on:
            keys += ["   ", ("g", "bold"), " go on counting"]
        yield Vertical(
            Static(texts.plain(self._title, "bold"), id="question"),
            VerticalScroll(Static(texts.words(self._explains)), id="explains"),
            Static(texts.words(*keys), id="keys"),
            id="dialog",
        )

    def action_answer(self, answer: Answer) -> None:
        """Answer the question."""
        if answer != "more" or self._counts_on:
            self.dismiss(answer)


class Form(ModalScreen[str | None]):
    """One line of text that is asked for. `check` raises `ValueError` for what cannot be."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Leave it")]

    def __init__(
        self, title: str, hint: str, value: str = "", check: Callable[[str], object] | None = None
    ) -> None:
        super().__init__()
        self._title = title
        self._hint = hint
        self._value = value
        self._check = check

    def compose(self) -> ComposeResult:
        """The line, and what may be written there."""
        yield Vertical(
            Static(texts.plain(self._title, "bold"), id="question"),
            Input(self._value, id="line", max_length=100_000, select_on_focus=False),
            Static(texts.lines(self._hint, "dim"), id="hint"),
            Static(id="wrong"),
            Static(
                texts.words(("Enter", "bold"), " do it   ", ("Esc", "bold"), " leave it"),
                id="keys",
            ),
            id="dialog",
        )

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take it, if it can be."""
        try:
            if self._check is not None:
                self._check(event.value)
        except ValueError as error:
            self.query_one("#wrong", Static).update(texts.words(("⚠ ", "red"), str(error)))
            return
        self.dismiss(event.value)

    def action_leave(self) -> None:
        """Close without an answer."""
        self.dismiss(None)


class Progress(ModalScreen[None]):
    """The progress of an act on many tasks, which goes on when this is closed."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,q", "leave", "Back")]

    def __init__(self, doing: Doing) -> None:
        super().__init__()
        self._doing = doing

    def compose(self) -> ComposeResult:
        """The numbers, and the refused tasks."""
        yield Vertical(
            Static(id="question"),
            VerticalScroll(Static(id="explains-text"), id="explains"),
            Static(texts.words(("Esc", "bold"), " back, and it goes on"), id="keys"),
            id="dialog",
        )

    def on_mount(self) -> None:
        """Show the progress."""
        self.run_worker(self._follow)

    async def _follow(self) -> None:
        while True:
            self._show()
            if self._doing.is_over:
                return
            await asyncio.sleep(EVERY["bulk"])

    def _show(self) -> None:
        doing, tally = self._doing, self._doing.tally
        heading = {
            "waits": "waits for another act to end",
            "runs": "goes on",
            "done": "✓ done",
            "failed": "✗ ended early",
        }[doing.state]
        of = "" if doing.expected is None else f" of {doing.expected:,}"
        told = [
            texts.words("Those meant: ", (doing.words, "bold")),
            texts.words(
                f"{tally.found:,}{of} tasks: {tally.changed:,} changed, {tally.unchanged:,} had "
                f"nothing to do, {tally.refused:,} refused."
            ),
        ]
        if doing.error:
            told.append(
                texts.words(
                    ("⚠ ", "red"),
                    f"{doing.error} What was done stays done; doing it again is safe.",
                )
            )
        told += [texts.words((task_id, "bold"), ": ", why) for task_id, why in doing.refused]
        self.query_one("#question", Static).update(texts.plain(f"{doing.label}: {heading}", "bold"))
        self.query_one("#explains-text", Static).update(texts.joined(told))

    def action_leave(self) -> None:
        """Back to the page."""
        self.dismiss(None)


class Help(ModalScreen[None]):
    """The keys of a page."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter", "leave", "Back")
    ]

    def __init__(self, keys: list[tuple[str, str]]) -> None:
        super().__init__()
        self._keys = keys

    def compose(self) -> ComposeResult:
        """Key and what it does, one a line."""
        yield Vertical(
            Static(texts.plain("Keys", "bold"), id="question"),
            VerticalScroll(Static(texts.listed(self._keys)), id="explains"),
            Static(texts.words(("Esc", "bold"), " back"), id="keys"),
            id="dialog",
        )

    def on_mount(self) -> None:
        """Keys that scroll are the list's."""
        self.query_one("#explains").focus()

    def action_leave(self) -> None:
        """Back to the page."""
        self.dismiss(None)
