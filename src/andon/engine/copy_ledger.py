"""The ledger of a copy between stores: what it read, wrote, skipped and failed to copy."""

import msgspec

MOST_NAMED = 20
"""How many ids the ledger names of each kind; the others are counted."""


class Tally(msgspec.Struct):
    """What became of things of one kind."""

    read: int = 0
    written: int = 0
    there: int = 0  #: in the target already, and the same
    differing: int = 0  #: in the target already, and not the same: left as it is there
    failed: int = 0  #: could not be read or written

    @property
    def balanced(self) -> bool:
        """Whether everything read is accounted for."""
        return self.read == self.written + self.there + self.differing + self.failed


class Ledger(msgspec.Struct):
    """What a copy read, and what became of it."""

    tasks: dict[str, Tally] = msgspec.field(default_factory=dict[str, Tally])  #: by state
    beside: dict[str, Tally] = msgspec.field(
        default_factory=lambda: {name: Tally() for name in ("queues", "types", "settings", "notes")}
    )
    differing: list[str] = msgspec.field(default_factory=list[str])
    """Names of what differs, the first few: task ids, and what stands beside the tasks."""
    failed: list[str] = msgspec.field(default_factory=list[str])
    """Ids of tasks that could not be read or written, the first few; the log says why."""
    unreadable: list[str] = msgspec.field(default_factory=list[str])
    """Ids of tasks in state unknown (docs/rulings.md, R28), the first few: read, but not copied."""
    miscounted: list[str] = msgspec.field(default_factory=list[str])
    """Where the stores' own counts do not agree with this ledger, a sentence each."""
    paused: list[str] = msgspec.field(default_factory=list[str])
    """Names of schedules that are copied paused, the first few."""
    clock_ahead_ms: int = 0  #: by how much the target's clock is ahead; all times are kept

    @property
    def balanced(self) -> bool:
        """Whether all that was read is in the target, the same, and both stores count so."""
        tallies = [*self.tasks.values(), *self.beside.values()]
        complete = all(
            tally.balanced and not tally.differing and not tally.failed for tally in tallies
        )
        return complete and not self.miscounted


def note(names: list[str], name: str) -> None:
    """Note a name of a kind, while there are not too many of it."""
    if len(names) < MOST_NAMED:
        names.append(name)
