"""Lines: the pending tasks of one queue, kind and level, as far as a process has read them.

What was read is believed for a moment; others may have claimed it since. That a line is empty is
believed for longer, until a hint says that its queue has something ready: who claims follows those
hints. A hint may be lost, so before long it is asked whether anything pending was written at all,
and, if so, each line is looked at again.
"""

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from andon.contract.limits import MAX_BATCH
from andon.contract.topics import ready_topic
from andon.lifecycle.constants import SLOW_POLL_S
from andon.stores.nats.bodies import Head
from andon.stores.nats.core import Core
from andon.stores.nats.library import Reply
from andon.stores.nats.names import LineName
from andon.stores.nats.news import close_together
from andon.stores.nats.wire import seq_of

if TYPE_CHECKING:
    from andon.stores.nats.heads import Heads

_LONG = 20_000
"""So many messages later a line is read from its beginning: a few blocks of the server's files."""

_DEEP = 100_000
"""With so many in a line it costs the server more to count them, as it does for a page, than to
be asked for them one by one."""

_FRESH_S = 0.5
"""How long what was read of a line is believed."""

_EMPTY_S = 0.8 * SLOW_POLL_S
"""How long it is believed that a line is empty; so the next slow poll looks again."""

_DOUBT_S, _LOOK_S = 0.75 * _EMPTY_S, 0.25 * _EMPTY_S
"""After how long it is doubted, so that the truth is known before it is believed no more; and how
often it is seen whether there is such a line."""

_TOGETHER = 256
"""Lines asked about in one go."""

Mark = tuple[int, int]
"""What had been hinted of a queue at some moment."""

Rank = tuple[int, int]
"""A task's place in its line: its order, then the sequence of the message that took the place."""

_BEFORE_ALL: Rank = (-1, -1)


class Line:
    """One line."""

    def __init__(self, name: LineName, subject: str) -> None:
        self.name = name
        self.subject = subject
        self.heads: list[Head] = []
        self.next = 1
        self.read_at = 0.0
        self.more = 0  #: about so many stand behind what was read
        self.ended = False  #: nothing stood at `next` or behind it when it was last read
        self.upto = 0  #: the stream reached so far then, at least
        self.mark: Mark | None = None  #: of its queue, when it was last read
        self.read_to = _BEFORE_ALL  #: rank of the last that was read

    def again(self, end: int) -> None:
        """Believe nothing that was read; the stream reaches to `end`, at least. A line that nobody
        has joined for long is read from its beginning: the server finds that in its index, while
        from elsewhere it walks through all that it has stored since."""
        if self.heads:
            self.next = min(self.next, *(head.seq for head in self.heads))
            self.heads = []
        elif self.ended and end - self.next > _LONG:
            self.next = 1
        self.ended = False
        self.read_to = _BEFORE_ALL

    def put_back(self, heads: Iterable[Head]) -> None:
        """Heads that were taken out and not claimed."""
        self.heads = sorted([*heads, *self.heads], key=rank)


class Lines:
    """The lines of one partition that this process reads."""

    def __init__(self, core: Core, partition: int) -> None:
        self._core = core
        self._heads: Heads = core.heads[partition]
        self._lines: dict[LineName, Line] = {}
        self._quiet: dict[str, dict[str, Mark]] = {}
        self._quiet_since = 0.0
        self._believed_at = 0.0

    def __len__(self) -> int:
        return sum(len(line.heads) for line in self._lines.values())

    def line(self, name: LineName) -> Line:
        """The line of this name."""
        line = self._lines.get(name)
        if line is None:
            line = self._lines[name] = Line(name, self._heads.names.line(name))
        return line

    # --- what is known to be empty ---

    def is_empty(self, line: Line, now: float) -> bool:
        """Whether nothing is in it, as far as this process can know without asking; `now` in
        monotonic seconds."""
        return (
            line.ended
            and not line.heads
            and now - line.read_at < _EMPTY_S
            and line.mark is not None
            and line.mark == self._mark(line.name.queue)
        )

    def quiet(self, digest: str, now: float) -> dict[str, Mark]:
        """The queues in which nothing is for workers with this code, with the mark as of which
        that was found. Forgotten before long."""
        if now - self._quiet_since > _EMPTY_S:
            self._quiet.clear()
            self._quiet_since = now
        return self._quiet.setdefault(digest, {})

    def is_quiet(self, quiet: dict[str, Mark], queue: str) -> bool:
        """Whether the queue is one of those, and nothing was hinted since."""
        mark = quiet.get(queue)
        return mark is not None and mark == self._mark(queue)

    def set_quiet(self, quiet: dict[str, Mark], queue: str) -> None:
        """All its lines for that code are known to be empty."""
        mark = self._mark(queue)
        if mark is not None:
            quiet[queue] = mark

    def _mark(self, queue: str) -> Mark | None:
        """None while nobody tells this process what becomes ready."""
        return self._core.hints.heard(ready_topic(queue))

    async def believe(self, now: float) -> None:
        """Go on believing that empty lines are empty, if nothing pending was written since."""
        if now - self._believed_at < _LOOK_S:
            return
        self._believed_at = now
        doubted = [
            line
            for line in self._lines.values()
            if line.ended and not line.heads and now - line.read_at >= _DOUBT_S
        ]
        if len(doubted) < 2:
            return  # one is asked about as cheaply
        after = min(line.upto for line in doubted)
        upto = self._end()
        request = {"seq": after + 1, "next_by_subj": self._heads.names.any_pending()}
        (answer,) = await self._heads.wire.several(self._heads.names.stream, [request])
        if answer is not None and answer.status == _NOTHING:
            for line in doubted:
                line.read_at, line.upto = now, max(line.upto, upto)

    def _end(self) -> int:
        heads = self._heads
        return max(heads.upto, heads.wire.acked.get(heads.names.stream, 0))

    # --- reading ---

    def freshen(self, line: Line) -> None:
        """Believe nothing of it that was read too long ago, or before its queue was hinted."""
        if time.monotonic() - line.read_at > _FRESH_S:
            line.again(self._end())
        elif line.mark is None or line.mark != self._mark(line.name.queue):
            line.ended = False

    async def look(self, lines: Sequence[Line]) -> None:
        """Read the next of each line, all at once."""
        for start in range(0, len(lines), _TOGETHER):
            chunk = lines[start : start + _TOGETHER]
            marks = [self._mark(line.name.queue) for line in chunk]
            end = self._end()
            requests = [{"seq": line.next, "next_by_subj": line.subject} for line in chunk]
            answers = await self._heads.wire.several(self._heads.names.stream, requests)
            for line, mark, answer in zip(chunk, marks, answers, strict=True):
                if answer is None or answer.status not in ("", _NOTHING):
                    # By a way that asks again, and says so when nobody answers.
                    page, line.more = await self._heads.page(line.subject, line.next, 1)
                    self._took(line, page, mark, end)
                else:
                    self._took(line, [] if answer.status else [answer], mark, end)

    async def read_on(self, line: Line, count: int) -> int:
        """Read what stands at the line's `next` and behind it; how many those are."""
        mark, end = self._mark(line.name.queue), self._end()
        page = await self._page(line, min(count, MAX_BATCH * 2))
        self._took(line, page, mark, end)
        line.ended = line.ended or line.more == 0
        return len(page)

    async def _page(self, line: Line, count: int) -> list[Reply]:
        if line.more > _DEEP:
            found = await close_together(self._heads, line.subject, line.next, count)
            # With holes between them, or with others at work, it is time to count again.
            if found:
                line.more = line.more - len(found) if len(found) * 2 > count else 1
                return found
        page, line.more = await self._heads.page(line.subject, line.next, count)
        return page

    def _took(self, line: Line, page: Sequence[Reply], mark: Mark | None, end: int) -> None:
        line.read_at, line.mark, line.upto = time.monotonic(), mark, end
        line.ended = not page
        if not page:
            return
        found: dict[str, Head] = {}
        self._heads.tell(page)
        for msg in page:
            self._heads.keep(found, msg)
        line.next = seq_of(page[-1]) + 1
        stay = [head for head in line.heads if head.body.id not in found]
        line.heads = sorted([*stay, *found.values()], key=rank)
        line.read_to = max(line.read_to, rank(line.heads[-1]))


_NOTHING = "404"


def rank(head: Head) -> Rank:
    """By what lines, and those that are served together, are sorted."""
    status = head.task.status if head.task is not None else None
    return (status.order if status else 0, head.body.place or head.seq)
