"""Ids of intended writes: unique, and cheap enough for one per move.

A repeat of a write is recognised by its id (docs/rulings.md, R31), so an id must never come twice;
it need not be secret, for guessing one gains nothing. Random bits once a process and a count after
them cost a third of asking the system for random bits each time (0.2 us instead of 0.6).
"""

import itertools
import os
import secrets


class WriteIds:
    """Makes ids; safe to call from many threads."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Begin anew: a forked child must not count on from where its parent stands."""
        self._prefix = secrets.token_hex(8)
        self._count = itertools.count()

    def __call__(self) -> str:
        """The next id."""
        return f"{self._prefix}{next(self._count):x}"


class LoneWrites:
    """Write ids of tasks that are submitted one by one. Those of one millisecond share theirs, as
    those of one call do: what they begin with is the same then, and is made and packed once."""

    def __init__(self) -> None:
        self._at = -1
        self._newest = ""
        self._write_id = ""

    def __call__(self, task_id: str, now: int) -> str:
        """The write id of that task's submit. No id comes twice with it: those that share grow."""
        if now != self._at or task_id <= self._newest:
            self._at, self._write_id = now, new_write_id()
        self._newest = task_id
        return self._write_id


new_write_id = WriteIds()
"""The write ids of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=new_write_id.renew)
