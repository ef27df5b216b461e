"""The daily history from sheets: without reading the log, and with it where they have a gap."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

import pytest
from conformance.kit import LEASE_MS, Kit
from conformance.test_daily import Counted, counted

from andon.contract.requests import Renewal
from andon.lifecycle.commands import Complete, Fail, RunNow
from andon.model.errors import StoreUnavailable
from andon.model.fleet import QueueConfig
from andon.model.task import TaskError
from andon.stores.nats import NatsStore, daily_history
from andon.stores.nats.event_log import EventLog
from andon.stores.nats.jetstream import JetStream, Write
from andon.stores.nats.nats_client import Reply
from andon.stores.nats.record_cache import RecordCache
from andon.stores.nats.subjects import Subjects
from andon.stores.nats.write_summaries import (
    BLOCK,
    Block,
    Summary,
    WriteNotes,
    aligned,
    complete_up_to,
)


def told(*blocks: tuple[int, int, int], seq: int) -> tuple[int, Summary]:
    """A sheet at a sequence: of each block how many it saw, and how many were submitted there."""
    return seq, {b: Block(seen, [("q", 1, "submitted", n)]) for b, seen, n in blocks}


def submitted(counts: dict[int, dict[str, dict[str, int]]]) -> int:
    return counts.get(1, {}).get("q", {}).get("submitted", 0)


def test_blocks_that_are_told_of_wholly_are_added_up_and_no_others() -> None:
    # Of block 0 the first message is told by nobody; the sheets are in block 2.
    one = told((0, BLOCK - 4, 5), (1, 100, 7), seq=2 * BLOCK)
    other = told((0, 2, 1), (1, BLOCK - 101, 2), seq=2 * BLOCK + 1)
    assert complete_up_to(0, 2 * BLOCK + 50, [one, other])[0] == BLOCK - 1
    upto, counts = complete_up_to(0, 2 * BLOCK + 50, [one, other])
    assert (upto, submitted(counts)) == (BLOCK - 1, 6)
    last = told((1, 1, 1), seq=2 * BLOCK + 2)
    upto, counts = complete_up_to(0, 2 * BLOCK + 50, [one, other, last])
    assert (upto, submitted(counts)) == (2 * BLOCK - 1, 16)
    # The end, if nothing but these sheets stands behind the block.
    upto, counts = complete_up_to(0, 2 * BLOCK + 2, [one, other, last])
    assert (upto, submitted(counts)) == (2 * BLOCK + 2, 16)
    assert complete_up_to(0, 2 * BLOCK + 2, [one, last])[0] == 0


def test_sheets_before_the_position_are_not_added_up_again() -> None:
    old = told((0, BLOCK - 2, 5), seq=BLOCK + 10)
    new = told((1, 5, 2), seq=BLOCK + 16)
    upto, counts = complete_up_to(BLOCK + 10, BLOCK + 16, [old, new])
    assert (upto, submitted(counts)) == (BLOCK + 16, 2)
    assert aligned(BLOCK - 1) == BLOCK - 1
    assert aligned(BLOCK) == BLOCK - 1


@pytest.fixture
def read() -> Any:
    """How many records of the log were read."""
    looked: list[int] = []
    read_records = EventLog.read_records

    async def reading(self: EventLog, records: RecordCache, start: int, limit: int) -> list[Reply]:
        found = await read_records(self, records, start, limit)
        looked.append(len(found))
        return found

    with patch.object(EventLog, "read_records", reading):
        yield looked


def keep_at_once(stores: Sequence[NatsStore]) -> None:
    """Let the next housekeeping add up, whenever that was done last."""
    for store in stores:
        store._daily._next = 0.0  # pyright: ignore[reportPrivateUsage]


async def live(kit: Kit, count: int) -> None:
    """Tasks that are stored, run, fail and complete."""
    await kit.submit_many(count)
    claimed = await kit.claim(count)
    assert len(claimed) == count
    failing = [kit.change(t, Fail(error=TaskError("no"), retryable=False)) for t in claimed[:2]]
    ending = [kit.change(t, Complete(result=b"1")) for t in claimed[2:]]
    await kit.store.commit([*failing, *ending])


@pytest.mark.parametrize("partitions", [1, 3])
async def test_what_all_have_told_is_known_without_reading_the_log(
    kit: Kit, read: list[int]
) -> None:
    for _ in range(3):
        await live(kit, 20)
    long = await kit.active("long")
    await kit.renew(long)
    run = long.status.run
    assert run is not None
    renewal = Renewal(task=long.id, run=run, lease_ms=LEASE_MS)
    await asyncio.to_thread(kit.store.renew_blocking, [renewal])
    scheduled = await kit.submit(run_at=kit.store.now() + 3_600_000)
    await kit.move(scheduled, RunNow())
    assert await counted(kit) == Counted(submitted=62, processed=60, failed=6)
    assert sum(read) == 0, "the log was read"


async def test_what_others_have_not_told_is_read_in_the_log(kit: Kit, read: list[int]) -> None:
    other = await kit.again()
    await live(kit, 10)
    await other.create([kit.record() for _ in range(5)])  # and it tells nothing
    expected = Counted(submitted=15, processed=10, failed=2)
    assert await counted(kit) == expected
    assert sum(read)
    assert await counted(kit) == expected
    del read[:]
    assert isinstance(other, NatsStore)
    await other._daily.write_summaries()  # pyright: ignore[reportPrivateUsage]
    assert await counted(kit) == expected
    assert sum(read) == 0


@pytest.mark.slow
async def test_counts_are_folded_once_whoever_dies_before_telling(
    kit: Kit, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daily_history, "EVERY_MS", 0)
    dies, lives = await kit.again(), await kit.again()
    assert isinstance(kit.store, NatsStore)
    assert isinstance(dies, NatsStore)
    assert isinstance(lives, NatsStore)
    submits = 0

    async def write(store: NatsStore, count: int) -> None:
        nonlocal submits
        for _ in range(count // 200):
            await store.create([kit.record() for _ in range(200)])
            submits += 200

    async def keep() -> None:
        keep_at_once([kit.store])  # pyright: ignore[reportArgumentType]
        await kit.store.trim(10)

    await write(kit.store, 2 * BLOCK)
    await write(dies, 600)
    dies._daily.close()  # pyright: ignore[reportPrivateUsage]
    dies._open.records[0].notes.take_summaries()  # what it would have told is gone  # pyright: ignore[reportPrivateUsage]
    await write(lives, BLOCK)
    await lives._daily.write_summaries()  # pyright: ignore[reportPrivateUsage]
    await keep()
    assert sum(read) == 0, "what may yet be told was read"
    await write(lives, 2 * BLOCK)
    await lives._daily.write_summaries()  # pyright: ignore[reportPrivateUsage]
    await keep()
    assert sum(read), "a gap that stays was not read"
    assert await counted(kit) == Counted(submitted=submits)
    await write(lives, BLOCK)
    await asyncio.gather(*(counted(kit) for _ in range(4)))
    await keep()
    assert await counted(kit) == Counted(submitted=submits)


async def test_a_queue_with_limits_is_told_of_too(kit: Kit, read: list[int]) -> None:
    limited = QueueConfig(name="default", max_concurrent=50, max_size=100)
    assert await kit.store.put_queue(limited, expect=QueueConfig(name="default"))
    await live(kit, 10)
    assert await counted(kit) == Counted(submitted=10, processed=10, failed=2)
    assert sum(read) == 0


async def test_timers_that_fire_leave_no_gap(kit: Kit, read: list[int]) -> None:
    await kit.submit("soon", run_at=kit.store.now() + 300)
    task = await kit.due("soon")
    await kit.move(task, RunNow())
    assert await counted(kit) == Counted(submitted=1)
    assert sum(read) == 0


class _SwapsInBetween(dict[int, int]):
    """What was seen, of notes whose sheet is taken just when a count is read from it."""

    def __init__(self, notes: WriteNotes) -> None:
        super().__init__({7: 1000})
        self._notes = notes
        self.summaries: list[Summary] = []

    def get(self, key: int, default: Any = None) -> Any:
        found = super().get(key, default)
        if not self.summaries:
            self.summaries = self._notes.take_summaries()
        return found


@pytest.mark.parametrize("note", [WriteNotes.note_write, WriteNotes.note_quietly])
def test_a_note_made_while_a_sheet_is_taken_is_never_told_twice(
    note: Callable[[WriteNotes, int], None],
) -> None:
    notes = WriteNotes(Subjects("ns", 0))
    notes.note_write(1)
    notes._seen = seen = _SwapsInBetween(notes)  # pyright: ignore[reportPrivateUsage]
    note(notes, 7 * BLOCK)
    notes.note_write(8 * BLOCK)
    told = [*seen.summaries, *notes.take_summaries()]
    assert sum(summary[7].seen for summary in told if 7 in summary) <= 1001


class _FailingWrites:
    """Fails one write of a sheet, before or after it is stored."""

    def __init__(self, js: JetStream, patch: pytest.MonkeyPatch, failing: int, *, stored: bool):
        self._write = js.write
        self._left = failing
        self._is_stored = stored
        self.failures = 0
        patch.setattr(js, "write", self.write)

    async def write(self, stream: str, writes: Sequence[Write], *, each: bool = False) -> list[int]:
        is_sheet = any(".n.w." in subject for subject, _, _ in writes)
        fails = is_sheet and self._left == 0
        self._left -= is_sheet
        if fails:
            self.failures += 1
            if self._is_stored:
                await self._write(stream, writes, each=each)
            raise StoreUnavailable("no answer")
        return await self._write(stream, writes, each=each)


@pytest.mark.parametrize("stored", [False, True], ids=["lost", "stored"])
@pytest.mark.parametrize("failing", [0, 1, 2], ids=["first", "middle", "last"])
@pytest.mark.parametrize("partitions", [3])
async def test_a_sheet_that_cannot_be_written_fails_alone_and_is_written_later(
    kit: Kit, read: list[int], monkeypatch: pytest.MonkeyPatch, failing: int, stored: bool
) -> None:
    store = kit.store
    assert isinstance(store, NatsStore)
    context, history = store._open, store._daily  # pyright: ignore[reportPrivateUsage]
    await kit.submit_many(60)
    faults = _FailingWrites(context.js, monkeypatch, failing, stored=stored)
    await history.write_summaries()
    assert faults.failures == 1
    written = [bool(await h.read_all([h.subjects.of("n", "w", ">")])) for h in context.records]
    assert written == [stored or number != failing for number in range(3)]
    await kit.submit_many(60)  # each partition tells of what comes after, too
    assert await counted(kit) == Counted(submitted=120)
    assert faults.failures == 1
    # An answer that was lost leaves the sequence of its sheet untold, no more.
    assert stored or sum(read) == 0, "the log was read"


async def test_a_sheet_whose_answer_was_lost_is_not_counted_again_once_it_was_added_up(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daily_history, "EVERY_MS", 0)
    store, other = kit.store, await kit.again()
    assert isinstance(store, NatsStore)
    assert isinstance(other, NatsStore)
    await kit.submit_many(20)
    faults = _FailingWrites(
        store._open.js,  # pyright: ignore[reportPrivateUsage]
        monkeypatch,
        0,
        stored=True,
    )
    await store._daily.write_summaries()  # pyright: ignore[reportPrivateUsage]
    assert faults.failures == 1
    keep_at_once([other])
    await other.trim(10)  # adds up what was stored, and drops it
    await store._daily.write_summaries()  # pyright: ignore[reportPrivateUsage]
    assert await counted(kit) == Counted(submitted=20)
    keep_at_once([other])
    await other.trim(10)
    assert await counted(kit) == Counted(submitted=20)
