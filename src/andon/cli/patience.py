"""Prints that a search goes on, so that it is not taken for a command that hangs."""

import time
from typing import TYPE_CHECKING

from andon.model.wording import plural

if TYPE_CHECKING:
    from collections.abc import Callable

    from andon.cli.output import Output

FIRST_S = 2.0
"""Seconds of searching after which the first line is printed."""

AGAIN_S = 10.0
"""Seconds until the next time."""


class Patience:
    """Called each time that the store has to be asked again: prints so on stderr, and always goes
    on.

    Ctrl-C ends the command.
    """

    def __init__(
        self, out: "Output", noun: str, *, clock: "Callable[[], float]" = time.monotonic
    ) -> None:
        self._out = out
        self._noun = noun
        self._clock = clock
        self._says_at = clock() + FIRST_S

    def __call__(self, found: int) -> bool:
        """Whether to go on: yes."""
        if self._clock() >= self._says_at:
            self._says_at = self._clock() + AGAIN_S
            self._out.note(f"Still looking: {plural(found, self._noun)} found so far.")
        return True
