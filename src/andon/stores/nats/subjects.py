"""The subjects of one partition, and what stands under each.

    t.LANE.ID.QUEUE.KIND.LEVEL  the record while the task is pending: a schedule that never fires,
                           so that the write which follows can delete it in the same step
    t.r.ID.r             the record in every other state, or what a deleted one leaves
    h.ID.SLOT            eight moves that no longer fit into the record
    s.BUCKET.A.B         a timer (ID and revision) or a group of timers: a schedule
    d.A.B                a timer that has fired
    k.TOKEN              the tasks of a claim
    u.KEY                the task that reserved a unique key
    e.PARENT.CHILD       an edge
    f.CHILD.PARENT, f.CHILD.g.TOKEN  a counted dependency, or several
    x.PARENT, x.g.TOKEN  the mark of an end, or of several
    z.ID.REVISION        the mark of a dead letter
    n.day.DAY, n.at      the daily history, and up to where the log was added up in it
    n.w.PROCESS.NUMBER   a write summary, to be added up in the daily history
    g.QUEUE              the limiter lock of a limited queue
    o.KIND.SCOPE.KEY       a note
    q.QUEUE, v.QUEUE.KIND.LEVEL, c.SETTING, y.TYPE, w.WORKER, l.mark, m.meta, m.fleet

The last two lines of these live in partition 0 only, but for l.mark and m.meta.

The lane, a number, stands in front of the ID because the server, whenever it is asked for the next
messages of a sub-queue, visits every subject that the filter may lead to. With the ID in front it
would visit all tasks ever stored; now it visits those pending in the same lane. The lane is that of
the sub-queue, so tasks of a kind that no worker runs do not stand where the server looks for
others.
"""

import re
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple
from zlib import crc32

from andon.contract.isolation import Unwritable

_TOKEN = re.compile(r"[!-)+-\-/-=?-~]{1,512}")
"""Printable ASCII but for space, dot and the wildcards."""

BUCKET_MS = 8_192
"""Timers are kept in buckets of this length, so that the next ones are found without a scan."""

LANES = 32
"""Over how many lanes sub-queues are spread. Every guard of a task looks for its ID in all lanes
where anything is pending, so they are few."""

_PENDING_TOKENS = 5

SLOTS = 126
ARCHIVED = 8
"""A record carries 16 moves; each time eight more were made, the eight oldest are archived."""


def hashed(text: str) -> str:
    """A token for a text that may hold any character."""
    return sha256(text.encode()).hexdigest()[:32]


def is_token(text: str) -> bool:
    """Whether it can be a token of a subject; nothing is stored under a text that cannot."""
    return (text.isalnum() and text.isascii()) or _TOKEN.fullmatch(text) is not None


def dotless(name: str) -> str:
    """The name of a queue or a kind as one token; `~` cannot be in either."""
    return name.replace(".", "~")


def dotted(token: str) -> str:
    """The name that was made a token."""
    return token.replace("~", ".")


class SubqueueName(NamedTuple):
    """The name of a sub-queue: it holds the pending tasks of one queue, kind and level."""

    queue: str
    kind: str  #: as `lifecycle.routing.kind_of` writes it
    level: str


def level_of(priority: int, *, back: bool) -> str:
    """The level of a task: one for each priority, and one beside it for tasks that came back to
    their old place, which would stand at the end of the other."""
    return f"{priority}b" if back else str(priority)


def rank_of(level: str) -> tuple[int, bool]:
    """Sorts sub-queues: the highest priority first, tasks that came back before the rest."""
    return -int(level.rstrip("b")), not level.endswith("b")


def lane_of(subqueue: SubqueueName) -> int:
    """In which lane it stands. The levels of one queue and kind, ten priorities at the most, are in
    lanes of their own."""
    number = 2 * int(subqueue.level.rstrip("b")) + subqueue.level.endswith("b")
    return (crc32(f"{subqueue.queue} {subqueue.kind}".encode()) + number) % LANES


@lru_cache(1_024)
def _tokens(subqueue: SubqueueName) -> tuple[int, str]:
    """The lane, and what stands behind the ID."""
    if not is_token(dotless(subqueue.queue)) or not is_token(dotless(subqueue.kind)):
        raise Unwritable(
            f"no subject can hold the queue {subqueue.queue!r} and kind {subqueue.kind!r}"
        )
    return lane_of(subqueue), f"{dotless(subqueue.queue)}.{dotless(subqueue.kind)}.{subqueue.level}"


class Subjects:
    """The subjects of one partition of one namespace."""

    def __init__(self, namespace: str, partition: int) -> None:
        self.stream = f"ANDON_{namespace}_{partition}"
        self.root = f"andon.{namespace}.{partition}."
        self.never = f"{self.root}d.never.0"
        self.mark = f"{self.root}l.mark"
        self.meta = f"{self.root}m.meta"

    def task(self, task_id: str) -> str:
        """All that a guard of the task covers."""
        return f"{self.root}t.*.{task_id}.>"

    def rest(self, task_id: str) -> str:
        return f"{self.root}t.r.{task_id}.r"

    def pending(self, task_id: str, subqueue: SubqueueName) -> str:
        lane, tokens = _tokens(subqueue)
        return f"{self.root}t.{lane}.{task_id}.{tokens}"

    def pending_id(self, subject: str) -> str | None:
        """The ID in the subject of a pending record; None if it is not one."""
        kind, *tokens = subject[len(self.root) :].split(".")
        return tokens[1] if kind == "t" and len(tokens) == _PENDING_TOKENS else None

    def subqueue(self, subqueue: SubqueueName) -> str:
        """Every pending record of a sub-queue."""
        return self.pending("*", subqueue)

    def lane(self, lane: int) -> str:
        """Every pending record of a lane."""
        return f"{self.root}t.{lane}.*.*.*.*"

    def any_pending(self) -> str:
        """Every pending record of every sub-queue."""
        return f"{self.root}t.*.*.*.*.*"

    def known_subqueue(self, subqueue: SubqueueName) -> str:
        """The message that says that there is such a sub-queue."""
        return self.of("v", dotless(subqueue.queue), dotless(subqueue.kind), subqueue.level)

    def timer(self, at: int, first: str, second: str | int) -> str:
        return f"{self.root}s.{at // BUCKET_MS}.{first}.{second}"

    def due(self, first: str, second: str | int) -> str:
        return f"{self.root}d.{first}.{second}"

    def dead(self, task_id: str, revision: int) -> str:
        return f"{self.root}z.{task_id}.{revision}"

    def archive(self, task_id: str, revision: int) -> str:
        return f"{self.root}h.{task_id}.{(revision - 1) // ARCHIVED % SLOTS}"

    def of(self, kind: str, *tokens: str) -> str:
        return ".".join((self.root + kind, *tokens))
