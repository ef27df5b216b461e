"""The lists of task types that workers have code for, as the server knows them (docs/rulings.md,
R32): a number for each list, under which the server stores which kinds the list covers.

A claim names the number. If there are kinds that the server has not seen with that list, it answers
with them, and the rule (`lifecycle.routing.may_claim`) is applied here, once for each kind and
list; the list itself is never sent.
"""

import time
from collections.abc import Sequence

from andon.lifecycle.routing import may_claim
from andon.model.code import Code
from andon.stores.postgres.clock import PostgresClock
from andon.stores.postgres.names import Run
from andon.stores.postgres.statements import Statements

EVERYTHING = 0
"""The list number of claims that may take every kind."""

_TOLD_AGAIN_S = 43_200.0
"""Seconds after which a list is sent again: the server drops lists that no process has sent for a
week."""

_MOST_KNOWN = 1_000


class Codes:
    """The list numbers for the claims of this process."""

    def __init__(self, run: Run, calls: Statements, clock: PostgresClock) -> None:
        self._run = run
        self._calls = calls
        self._clock = clock
        self._known: dict[str, tuple[int, float]] = {}  # digest: number, when it is sent again

    async def number(self, code: Code | None) -> int:
        """The number to claim by."""
        if code is None:
            return EVERYTHING
        known = self._known.get(code.digest)
        if known is None or known[1] < time.monotonic():
            return await self.decide(code, ())
        return known[0]

    async def decide(self, code: Code, kinds: Sequence[str]) -> int:
        """Have the server store which of these kinds the list covers. Returns the list's number."""
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
