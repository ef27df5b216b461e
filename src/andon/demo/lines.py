"""The board in plain lines, for a pipe, a log, or a terminal without Rich."""

import time
from typing import TYPE_CHECKING, TextIO

from andon.demo.view import View
from andon.model.words import TERMINAL, UNFINISHED, in_order

if TYPE_CHECKING:
    from andon.demo.tally import Failure

_EVERY_S = 1.0
_SHOWN = (*in_order(UNFINISHED), *in_order(TERMINAL))


class Lines:
    """Writes a line about every second, and one for each task that failed for good."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._said = 0.0
        self._last = ""
        self._failed: Failure | None = None

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *exc: object) -> None:
        self._out.flush()

    def show(self, view: View, *, last: bool = False) -> None:
        """Print what is new, if it is time."""
        now = time.monotonic()
        if now - self._said < _EVERY_S and not last:
            return
        self._said = now
        self._failures(view)
        line = _line(view)
        if line != self._last:
            self._last = line
            print(f"{now - view.started:6.1f} s  {line}", file=self._out, flush=True)

    def say(self, text: str) -> None:
        """Print a line in between."""
        print(text, file=self._out, flush=True)

    def _failures(self, view: View) -> None:
        recent = list(view.tally.failures)
        if self._failed in recent:
            recent = recent[recent.index(self._failed) + 1 :]
        for failure in recent:
            self._failed = failure
            name, why = failure.shown(view.paths)
            print(f"{'':10}{failure.state.value} {name}: {why}", file=self._out)


def _line(view: View) -> str:
    number = view.newest
    if not number:
        return f"waiting for the first look at {view.place.folder}"
    counts = view.counts(view.place.names.flow(number))
    parts = [f"flow {number}: {view.ended(number)}/{view.total(number)} done"]
    parts += [f"{state.value} {counts[state]}" for state in _SHOWN if counts[state]]
    if view.tally.lost:
        parts.append(f"lost {len(view.tally.lost)}, recovered {view.tally.recovered}")
    parts.append(f"{view.tally.rate(view.now):.0f}/s")
    return "  ".join(parts)
