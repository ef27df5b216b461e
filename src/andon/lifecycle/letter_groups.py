"""Dead letters put into groups by the fingerprint of their errors. Pure."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from msgspec.structs import asdict, replace

from andon.lifecycle.error_fingerprint import fingerprint_of_pattern, letter_pattern
from andon.lifecycle.faces.fields import iso
from andon.model.letters import LetterGroup, LetterGroups
from andon.model.task import Task

MOST_NAMES = 5


class _Group:
    def __init__(self, pattern: str, task: Task) -> None:
        self.pattern = pattern
        self.count = 0
        self.newest = task.id
        self.newest_at = self.oldest_at = _ended(task)
        self.names: Counter[str] = Counter()
        self.queues: Counter[str] = Counter()

    def add(self, task: Task) -> None:
        self.count += 1
        self.names[task.definition.name] += 1
        self.queues[task.definition.queue] += 1
        at = _ended(task)
        if at > self.newest_at:
            self.newest, self.newest_at = task.id, at
        self.oldest_at = min(self.oldest_at, at)


class Grouping:
    """Groups that grow as dead letters are looked at."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        self.looked = 0

    def add(self, task: Task) -> None:
        """Put one into its group."""
        pattern = letter_pattern(task)
        group = self._groups.get(pattern)
        if group is None:
            group = self._groups[pattern] = _Group(pattern, task)
        group.add(task)
        self.looked += 1

    def groups(self, cursor: str) -> LetterGroups:
        """The groups so far, with the cursor where the look ended, empty at the end."""
        return LetterGroups(
            groups=_sorted(
                LetterGroup(
                    fingerprint=fingerprint_of_pattern(one.pattern),
                    pattern=one.pattern,
                    count=one.count,
                    newest=one.newest,
                    newest_at=one.newest_at,
                    oldest_at=one.oldest_at,
                    names=tuple(name for name, _ in one.names.most_common(MOST_NAMES)),
                    queues=tuple(name for name, _ in one.queues.most_common(MOST_NAMES)),
                )
                for one in self._groups.values()
            ),
            looked=self.looked,
            whole=not cursor,
            cursor=cursor,
        )


def merged(before: LetterGroups, more: LetterGroups) -> LetterGroups:
    """One look and the one that went on from its cursor, as one."""
    found = {one.fingerprint: one for one in before.groups}
    for one in more.groups:
        known = found.get(one.fingerprint)
        found[one.fingerprint] = one if known is None else _both(known, one)
    return LetterGroups(
        groups=_sorted(found.values()),
        looked=before.looked + more.looked,
        whole=more.whole,
        cursor=more.cursor,
    )


def groups_document(found: LetterGroups) -> dict[str, Any]:
    """The groups as JSON has them: times as ISO 8601 in UTC."""
    return {
        "groups": [
            {**asdict(one), "newest_at": iso(one.newest_at), "oldest_at": iso(one.oldest_at)}
            for one in found.groups
        ],
        "looked": found.looked,
        "whole": found.whole,
        "cursor": found.cursor,
    }


def _both(one: LetterGroup, other: LetterGroup) -> LetterGroup:
    newer = one if one.newest_at >= other.newest_at else other
    return replace(
        newer,
        count=one.count + other.count,
        oldest_at=min(one.oldest_at, other.oldest_at),
        names=tuple(dict.fromkeys((*one.names, *other.names)))[:MOST_NAMES],
        queues=tuple(dict.fromkeys((*one.queues, *other.queues)))[:MOST_NAMES],
    )


def _sorted(groups: Iterable[LetterGroup]) -> tuple[LetterGroup, ...]:
    return tuple(sorted(groups, key=lambda one: (-one.count, -one.newest_at, one.fingerprint)))


def _ended(task: Task) -> int:
    status = task.status
    return status.created_at if status.finished_at is None else status.finished_at
