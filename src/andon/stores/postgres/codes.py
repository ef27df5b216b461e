"""What workers have code for, as the server knows it (docs/rulings.md, R32): a number for each
list, under which it remembers which kinds the list covers.

A claim names the number. Of kinds that the server has not met with that list it tells, and the rule
(`lifecycle.routing.may_claim`) is asked here, once for each kind and list; the list itself is never
sent.
"""

import time
from collections.abc import Sequence

from andon.lifecycle.routing import may_claim
from andon.model.code import Code
from andon.stores.postgres.clock import PostgresClock
from andon.stores.postgres.names import Run
from andon.stores.postgres.statements import Statements

EVERYTHING = 0
"""The number of those who may claim everything."""

_TOLD_AGAIN_S = 43_200.0
"""The server forgets lists that nobody has told of for a week."""

_MOST_KNOWN = 1_000


class Codes:
    """Numbers of the lists that claims from here go by."""

    def __init__(self, run: Run, calls: Statements, clock: PostgresClock) -> None:
        self._run = run
        self._calls = calls
        self._clock = clock
        self._known: dict[str, tuple[int, float]] = {}  # digest: number, when it is told again

    async def number(self, code: Code | None) -> int:
        """The number to claim by."""
        if code is None:
            return EVERYTHING
        known = self._known.get(code.digest)
        if known is None or known[1] < time.monotonic():
            return await self.decide(code, ())
        return known[0]

    async def decide(self, code: Code, kinds: Sequence[str]) -> int:
        """Have the server remember which of these kinds the list covers; its number."""
        ((number,),) = await self._run(
            self._calls.remember_code,
            self._clock.argument(),
            code.digest,
            list(kinds),
            [may_claim(code, kind) for kind in kinds],
        )
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[code.digest] = number, time.monotonic() + _TOLD_AGAIN_S
        return number
