"""Remembers timers that several tasks share, and deletes them when no task needs them any more.

The runs of one claim have one timer, which names a revision of each record; so have blocked tasks
that will ask again about their dependencies, and tasks whose timers were taken together (their
hold). Once each of these revisions was written over by a
write that the server acknowledged, the timer would only fire in vain. So it is deleted: by a header
of a write that is made anyway, or, if none comes, with the next read of due timers. The process
that set it remembers this in memory: the timer of a process that died, or of a task that another
process moved, fires.
"""

from collections import deque
from collections.abc import Iterable, Sequence

_REMEMBERED = 10_000
"""How many tasks are remembered; the timers of those forgotten fire."""


class _Shared:
    """One timer, and the tasks whose version may still need it."""

    __slots__ = ("ids", "subject")

    def __init__(self, subject: str, ids: set[str]) -> None:
        self.subject = subject
        self.ids = ids


class SharedTimers:
    """The shared timers that this process has set and that have not fired in vain yet."""

    def __init__(self) -> None:
        self._of: dict[str, tuple[_Shared, int]] = {}
        self._spent: deque[str] = deque()
        self._seen = 0  # of the spent, those that a sweep has left to others once

    def __len__(self) -> int:
        return len(self._of) + len(self._spent)

    def add(self, subject: str, versions: Sequence[tuple[str, int]]) -> None:
        """Note a timer for these versions (task id, revision), which are written after it."""
        shared = _Shared(subject, {task_id for task_id, _ in versions})
        for task_id, revision in versions:
            self._of.pop(task_id, None)
            self._of[task_id] = (shared, revision)
        while len(self._of) > _REMEMBERED:
            del self._of[next(iter(self._of))]

    def purge(self, task_id: str, revision: int) -> str | None:
        """The timer that the write over this version must delete ("" for none); None if the timer
        of this version is not a shared one."""
        shared, of_revision = self._of.get(task_id, (None, 0))
        if shared is None or of_revision != revision:
            return None
        if len(shared.ids) == 1 and task_id in shared.ids:
            return shared.subject  # it is the last: if its write is refused, the timer stays
        if self._spent:
            self._seen = max(self._seen - 1, 0)
            return self._spent.popleft()
        return ""

    def written(self, task_id: str, revision: int, purged: str) -> None:
        """Note that the write was acknowledged. Or the version was never written: another process
        was faster."""
        shared, of_revision = self._of.get(task_id, (None, 0))
        if shared is None or of_revision != revision:
            return
        del self._of[task_id]
        shared.ids.discard(task_id)
        if not shared.ids and shared.subject != purged:
            self._spent.append(shared.subject)

    def leave(self, task_ids: Iterable[str]) -> list[str]:
        """Note that tasks get other timers. Returns the timers that no task needs then."""
        done: list[str] = []
        for task_id in task_ids:
            shared, _ = self._of.pop(task_id, (None, 0))
            if shared is not None:
                shared.ids.discard(task_id)
                if not shared.ids:
                    done.append(shared.subject)
        return done

    def refused(self, task_id: str, purged: str) -> None:
        """Note that the write was not made, or that its outcome is not known."""
        shared, _ = self._of.get(task_id, (None, 0))
        if purged and (shared is None or shared.subject != purged):
            self._spent.append(purged)

    def sweep(self) -> list[str]:
        """The unneeded timers that no write has deleted since the last sweep."""
        found = [self._spent.popleft() for _ in range(min(self._seen, len(self._spent)))]
        self._seen = len(self._spent)
        return found
