"""Reads, counts and deletes messages of the stream of one partition.

Any replica answers reads, except reads from the leader. What a process reads is never older than
what it wrote itself.
"""

import asyncio
import time
from collections.abc import Sequence

from andon.stores.nats.jetstream import PATIENCE_S, JetStream, seq_of, subject_of
from andon.stores.nats.nats_client import Reply
from andon.stores.nats.subjects import Subjects


class PartitionStream:
    """Reads and deletes messages of one partition."""

    def __init__(self, js: JetStream, subjects: Subjects) -> None:
        self.js = js
        self.subjects = subjects
        self.upto = 0  #: the stream is known to reach this position, at least

    @property
    def known_upto(self) -> int:
        """Note that the stream reaches this position: a message was read or written there."""
        return max(self.upto, self.js.acked.get(self.subjects.stream, 0))

    # --- the newest message of each subject ---

    async def last(self, subjects: Sequence[str]) -> list[Reply]:
        """The newest message of each subject that matches, in the order of the stream. Never older
        than what this process wrote, whichever replica answers."""
        found, _ = await self.last_as_of(subjects)
        return found

    async def last_as_of(self, subjects: Sequence[str]) -> tuple[list[Reply], int]:
        """The same, and a position in the stream up to which nothing is missing in it."""
        known = self.known_upto
        found = await self._last(subjects, 1)
        if found is not None:
            return found
        if len(subjects) == 1:
            return sorted(await self.read_all(subjects), key=seq_of), known
        middle = len(subjects) // 2
        first, upto = await self.last_as_of(subjects[:middle])
        second, _ = await self.last_as_of(subjects[middle:])
        return sorted([*first, *second], key=seq_of), min(upto, known)

    async def snapshot(self, subjects: Sequence[str]) -> tuple[list[Reply], int] | None:
        """The newest message of each subject that matches, all as of one moment, and where the
        stream ended then; None if they are too many for one answer."""
        return await self._last(subjects, 1)

    async def last_since(self, subjects: Sequence[str], after: int) -> list[Reply]:
        """Those that were written after a sequence. If there are none it costs two messages, so
        that polling what hardly ever changes is cheap."""
        looked = await self._last(subjects, after)
        found = looked[0] if looked else await self.read_all(subjects, start=after + 1)
        # Also for messages of other processes: later reads must not be older.
        acked, stream = self.js.acked, self.subjects.stream
        acked[stream] = max([acked.get(stream, 0), *map(seq_of, found)])
        return found

    async def _last(self, subjects: Sequence[str], after: int) -> tuple[list[Reply], int] | None:
        """The newest messages; None: they are too many for one answer."""
        # `meta` is always there, so something matches: "nothing" comes from a server that is
        # closing its stores, and would make everything look deleted. `meta` was the first message
        # written: a request that begins after it does not get it.
        meta = self.subjects.meta
        request = {"multi_last": [*subjects, meta], "seq": after + 1}
        deadline = time.monotonic() + PATIENCE_S
        while True:
            messages, end = await self.js.read(self.subjects.stream, request)
            status = end.status
            if status == "413":
                return None
            upto = int(end.header(b"Nats-UpTo-Sequence") or 0)
            if status != "404" and upto >= self.js.acked.get(self.subjects.stream, 0):
                self.upto = max(self.upto, upto)
                return [m for m in messages if subject_of(m) != meta], upto
            if self.js.leaving or time.monotonic() > deadline:
                raise self.js.unavailable("the stream lacks what was written to it")
            await asyncio.sleep(0.01)

    async def sample(self, subjects: Sequence[str], most: int) -> tuple[list[Reply], int]:
        """A few of the messages that stand under any of the subjects, and how many more there
        are."""
        request = {"multi_last": [*subjects], "batch": most}
        messages, end = await self.js.read(self.subjects.stream, request)
        if end.status == "413":
            return messages, 1
        return messages, int(end.header(b"Nats-Num-Pending") or 0)

    # --- messages in order ---

    async def read_all(
        self, subjects: Sequence[str], most: int = 1_000_000, *, start: int = 1
    ) -> list[Reply]:
        """Messages of the subjects in the order of the stream, if they may be many."""
        found: list[Reply] = []
        for subject in subjects:
            seq = start
            while len(found) < most:
                page = await self.confirmed_page(subject, seq, min(500, most - len(found)))
                found += page
                if not page:
                    break
                seq = seq_of(page[-1]) + 1
        return found

    async def page(self, subject: str, seq: int, limit: int) -> tuple[list[Reply], int]:
        """Messages from a sequence on, and how many more there are. An empty answer may also mean
        that the server is shutting down."""
        request = {"batch": limit, "seq": max(seq, 1), "next_by_subj": subject}
        messages, end = await self.js.read(self.subjects.stream, request)
        return messages, int(end.header(b"Nats-Num-Pending") or 0)

    async def confirmed_page(self, subject: str, seq: int, limit: int) -> list[Reply]:
        """The same, but an empty answer means that there are none; costs one more request."""
        while True:
            losses = self.js.losses
            messages, _ = await self.page(subject, seq, limit)
            if messages:
                return messages
            await self.last([])
            if self.js.losses == losses:
                return []

    # --- what the leader says ---

    async def leader_newest(self, subject: str) -> int:
        """The position of the newest message of a subject, from the stream's leader; 0 if it has
        none, which may also mean that the server is shutting down."""
        request = {"last_by_subj": subject}
        found = await self.js.api(f"STREAM.MSG.GET.{self.subjects.stream}", request)
        return int(found.get("message", {}).get("seq", 0))

    async def leader_first(self, subject: str, seq: int) -> int:
        """The position of the first message of a subject from a sequence on, from the stream's
        leader; 0 means that there is none."""
        request = {"seq": max(seq, 1), "next_by_subj": subject}
        while True:
            losses = self.js.losses
            found = await self.js.api(f"STREAM.MSG.GET.{self.subjects.stream}", request)
            there = int(found.get("message", {}).get("seq", 0))
            if there:
                return there
            await self.last([])
            if self.js.losses == losses:
                return 0

    # --- deleting ---

    async def delete(self, seq: int) -> None:
        """Delete one message."""
        await self.js.api(f"STREAM.MSG.DELETE.{self.subjects.stream}", {"seq": seq})

    async def purge(self, subject: str, *, before: int | None = None) -> None:
        """Delete what stands under a subject, all or only before a sequence."""
        request: dict[str, str | int] = {"filter": subject}
        if before is not None:
            request["seq"] = before
        await self.js.api(f"STREAM.PURGE.{self.subjects.stream}", request)
