"""Dead letters by what went wrong: those of one fingerprint are one group."""

from collections.abc import Sequence

import msgspec

from andon.dashboard.views.looks import line_of
from andon.lifecycle.error_fingerprint import letter_fingerprint, letter_pattern
from andon.model.task import Task


class LetterGroup(msgspec.Struct, kw_only=True):
    """Dead letters of one cause."""

    fingerprint: str
    pattern: str  #: what all of them say
    number: int = 0
    first_at: int = 0  #: ms UTC, of those that were looked at
    last_at: int = 0
    names: dict[str, int] = {}  #: task types, and how many of each
    queues: dict[str, int] = {}
    newest: str = ""  #: the id of the newest


class Letters(msgspec.Struct, frozen=True, kw_only=True):
    """All groups."""

    groups: list[LetterGroup]  #: the largest first
    looked: int  #: dead letters that were looked at, the newest
    total: int  #: that there are
    now: int
    queue: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether all were looked at."""
        return self.looked >= self.total


def grouped(tasks: Sequence[Task]) -> list[LetterGroup]:
    """Dead letters, the newest first, as groups, the largest first."""
    groups: dict[str, LetterGroup] = {}
    for task in tasks:
        fingerprint = letter_fingerprint(task)
        group = groups.get(fingerprint)
        if group is None:
            pattern = line_of(letter_pattern(task))
            group = groups[fingerprint] = LetterGroup(fingerprint=fingerprint, pattern=pattern)
        at = task.status.finished_at or task.status.created_at
        d = task.definition
        group.number += 1
        group.first_at = min(group.first_at or at, at)
        group.last_at = max(group.last_at, at)
        group.names[d.name] = group.names.get(d.name, 0) + 1
        group.queues[d.queue] = group.queues.get(d.queue, 0) + 1
        group.newest = group.newest or task.id
    return sorted(groups.values(), key=lambda group: (-group.number, -group.last_at))
