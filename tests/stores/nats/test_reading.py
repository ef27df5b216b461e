"""What is asked of the server costs it what it finds, not what it stores."""

import random
from typing import Any

import pytest
from conformance.kit import Kit

from andon.contract.queries import Query
from andon.lifecycle.commands import Complete, Release
from andon.model.words import State
from andon.stores.nats import NatsStore, changes, index, subqueues
from andon.stores.nats.changes import changes_since, read_dense
from andon.stores.nats.context import StoreContext
from andon.stores.nats.jetstream import JetStream, seq_of, subject_of
from andon.stores.nats.nats_client import Reply
from andon.stores.nats.record_cache import RecordCache
from andon.stores.nats.subjects import Subjects, SubqueueName, level_of
from stores.nats.counting import Traffic

_NOT_FOUND = Reply(b"", b"NATS/1.0 404 Message Not Found\r\n\r\n")


def context_of(store: Any) -> StoreContext:
    assert isinstance(store, NatsStore)
    context = store._context
    assert context is not None
    return context


class Asked:
    """Pages that were asked for: subject and first sequence."""

    def __init__(self, js: JetStream, patch: pytest.MonkeyPatch) -> None:
        self._plain = js.read
        self.pages: list[tuple[str, int]] = []
        patch.setattr(js, "read", self.read)

    async def read(self, stream: str, request: dict[str, Any]) -> tuple[list[Reply], Reply]:
        if "next_by_subj" in request:
            self.pages.append((request["next_by_subj"], request["seq"]))
        return await self._plain(stream, request)


async def some_history(kit: Kit) -> RecordCache:
    """Tasks in all kinds of states, with gaps between their messages."""
    await kit.submit_many(40)
    for task in (await kit.claim(25))[::2]:
        await kit.moved(task, Complete())
    await kit.submit_many(5)
    return context_of(kit.store).records[0]


def seqs(messages: list[Reply]) -> list[int]:
    return [seq_of(message) for message in messages]


async def test_only_what_is_pending_stands_in_the_lanes(kit: Kit) -> None:
    records = await some_history(kit)
    page, _ = await records.page(records.subjects.of("t", ">"), 1, 1_000)
    lanes = [subject_of(message).split(".")[4] for message in page]
    assert lanes.count("r") == 25
    (subqueue,) = {lane for lane in lanes if lane != "r"}
    assert lanes.count(subqueue) == 20
    assert records.subjects.subqueue(SubqueueName("default", "job", "0")).split(".")[4] == subqueue


async def test_news_are_what_a_page_of_them_holds(kit: Kit) -> None:
    records = await some_history(kit)
    subject = records.subjects.of("t", ">")
    whole, _ = await records.page(subject, 1, 1_000)
    for start in range(1, records.upto + 5):
        expected = [seq for seq in seqs(whole) if seq >= start]
        assert seqs(await changes_since(records, subject, start, 1_000)) == expected
        assert seqs(await changes_since(records, subject, start, 7)) == expected[:7]


async def test_changes_end_before_what_a_replica_that_lags_has_not_heard_of(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = await some_history(kit)
    subject = records.subjects.of("t", ">")
    whole = seqs((await records.page(subject, 1, 1_000))[0])
    plain, rng = records.js.read_each, random.Random(7)

    async def read_each(stream: str, requests: list[dict[str, Any]]) -> list[Reply | None]:
        """Each from one of two replicas; one of them lags."""
        upto = rng.choice(whole)
        answers = await plain(stream, requests)
        return [
            _NOT_FOUND if a is None or a.status or (seq_of(a) > upto and rng.random() < 0.5) else a
            for a in answers
        ]

    monkeypatch.setattr(records.js, "read_each", read_each)
    lengths: set[int] = set()
    for _ in range(30):
        found = seqs(await changes_since(records, subject, 1, 1_000))
        assert found == whole[: len(found)]
        lengths.add(len(found))
    assert len(lengths) > 3


async def test_an_index_that_is_followed_asks_for_no_page_of_all_records(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    await some_history(kit)
    await kit.stats()
    asked = Asked(context_of(kit.store).js, monkeypatch)
    monkeypatch.setattr(changes, "_STORED_TO_ONE", 0.01)  # as if a great deal were stored
    await kit.submit_many(30)
    claimed = await kit.claim(30)
    for task in claimed:
        await kit.moved(task, Complete())
    before = (await kit.stats()).counts
    assert sum(before.values()) == 75
    assert [subject for subject, _ in asked.pages if subject.endswith(".t.>")] == []


async def test_an_index_of_little_is_followed_by_pages(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    await some_history(kit)
    await kit.stats()
    traffic = Traffic(monkeypatch)
    await kit.submit_many(100)
    traffic.taken()
    assert (await kit.stats()).counts["pending"] == 120
    _, read, requests = traffic.taken()
    assert (read, requests <= 6) == (100, True)


async def test_a_bare_list_reads_no_record_again(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = await kit.submit_many(100, group="g")
    whole = await kit.store.find(Query(group="g", limit=200))
    traffic = Traffic(monkeypatch)
    bare = await kit.store.find(Query(group="g", limit=200, bare=True))
    assert [task.id for task in bare.tasks] == [task.id for task in whole.tasks]
    assert len(bare.tasks) == len(tasks)
    assert traffic.taken()[1] == 0


async def test_the_further_pages_of_a_bare_list_do_not_read_what_is_written_meanwhile(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "_PAGES_S", 3600.0)
    tasks = await kit.submit_many(30, group="g")
    first = await kit.store.find(Query(group="g", limit=10, bare=True))
    await kit.claim(30)
    traffic = Traffic(monkeypatch)
    second = await kit.store.find(Query(group="g", limit=10, bare=True, cursor=first.cursor))
    assert traffic.taken()[2] == 0
    whole = await kit.store.find(Query(group="g", limit=10, cursor=second.cursor))
    found = [*first.tasks, *second.tasks, *whole.tasks]
    assert {task.id for task in found} == {task.id for task in tasks}
    assert [t.state for t in whole.tasks] == [State.ACTIVE] * 10
    again = await kit.store.find(Query(group="g", limit=10, bare=True))
    assert [t.state for t in again.tasks] == [State.ACTIVE] * 10


async def test_the_further_pages_of_a_bare_list_are_read_anew_a_second_later(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "_PAGES_S", 0.0)
    await kit.submit_many(20, group="g")
    first = await kit.store.find(Query(group="g", limit=10, bare=True))
    await kit.claim(20)
    second = await kit.store.find(Query(group="g", limit=10, bare=True, cursor=first.cursor))
    assert [t.state for t in second.tasks] == [State.ACTIVE] * 10


async def test_a_line_nobody_joined_for_long_is_read_from_its_beginning_and_loses_nothing(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subqueues, "_LONG", 20)
    monkeypatch.setattr(subqueues, "_FRESH_S", 0.0)
    other = await kit.again()
    asked = Asked(context_of(kit.store).js, monkeypatch)
    for round_ in range(4):
        assert await kit.claim(5) == []
        await kit.submit_many(10)
        ours = await kit.claim(3)
        theirs = await kit.claim_from(other, 3)
        await kit.moved(ours[0], Release())
        rest = [*await kit.claim(20), *await kit.claim_from(other, 20)]
        found = [task.id for task in (*ours[1:], *theirs, *rest)]
        assert sorted(found) == sorted(set(found))
        assert len(found) == 10, round_
        for task in (*ours[1:], *theirs, *rest):
            await kit.moved(task, Complete())
    subqueue = (
        context_of(kit.store).records[0].subjects.subqueue(SubqueueName("default", "job", "0"))
    )
    starts = [seq for subject, seq in asked.pages if subject == subqueue]
    assert starts.count(1) > 2


async def test_what_stands_close_together_is_what_a_page_of_it_holds(kit: Kit) -> None:
    records = await some_history(kit)
    subqueue = records.subjects.subqueue(SubqueueName("default", "job", "0"))
    whole = seqs((await records.page(subqueue, 1, 1_000))[0])
    assert len(whole) == 20
    for start in range(1, whole[-1] + 3):
        expected = [seq for seq in whole if seq >= start]
        for limit in (1, 16, 40):
            found = seqs(await read_dense(records, subqueue, start, limit))
            assert found == expected[: len(found)]
            assert bool(found) == bool(expected)


async def test_a_deep_line_is_claimed_to_its_end_in_order_without_being_counted_for_each_page(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subqueues, "_DEEP", 30)
    submitted = [task.id for task in await kit.submit_many(300)]
    asked = Asked(context_of(kit.store).js, monkeypatch)
    found: list[str] = []
    while claimed := await kit.claim(8):
        found += [task.id for task in claimed]
    assert found == submitted
    subqueue = (
        context_of(kit.store).records[0].subjects.subqueue(SubqueueName("default", "job", "0"))
    )
    counted = [seq for subject, seq in asked.pages if subject == subqueue and seq > 1]
    assert len(counted) < 5  # of the ten pages there are


async def test_two_processes_empty_a_deep_line_between_them(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subqueues, "_DEEP", 30)
    other = await kit.again()
    submitted = {task.id for task in await kit.submit_many(200)}
    found: list[str] = []
    released = 0
    while True:
        claimed = [*await kit.claim(8), *await kit.claim_from(other, 8)]
        if not claimed:
            break
        if released < 5:
            released += 1
            await kit.moved(claimed.pop(), Release())
        found += [task.id for task in claimed]
    assert set(found) == submitted
    assert len(found) == 200


def test_no_two_lines_of_a_queue_share_a_lane() -> None:
    subjects = Subjects("n", 0)
    for queue in ("default", "a.b", "q" * 60):
        levels = [level_of(priority, back=back) for priority in range(10) for back in (False, True)]
        lanes = {
            subjects.subqueue(SubqueueName(queue, "job", level)).split(".")[4] for level in levels
        }
        assert len(lanes) == 20
