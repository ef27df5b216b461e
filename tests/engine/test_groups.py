"""Groups of which a record is kept: members let in, sealed, resolved, gone (docs/rulings.md,
R41)."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from andon.contract.notes import NotePut, PutNote
from andon.contract.optional import CreatesWithNotes
from andon.contract.outcomes import Created
from andon.contract.queries import Query
from andon.contract.requests import NotedTask
from andon.engine.base import Submission, Submitted
from andon.engine.groups import SCOPES, GroupEnds, note_of
from andon.engine.local import LocalEngine
from andon.lifecycle.commands import Complete, Delete, Rerun
from andon.lifecycle.groups import KEPT_MORE_MS, LET_IN_MS
from andon.model.errors import (
    GroupNotFound,
    GroupRefused,
    InvalidSubmission,
    StoreError,
    TaskConflict,
)
from andon.model.words import State

from .conftest import START, Shop


async def member(shop: Shop, task_id: str, **fields: Any) -> Submitted:
    return await shop.try_submit(task_id, **{"group": "g", "group_owner": "ci", **fields})


async def test_the_first_member_makes_the_record_and_others_join(shop: Shop) -> None:
    with pytest.raises(GroupNotFound):
        await shop.engine.group("g")
    for task_id in ("a", "b"):
        assert (await member(shop, task_id)).error is None
    record = await shop.engine.group("g")
    assert (record.owner, record.sealed_at) == ("ci", None)
    assert record.created_at == START
    assert record.open_until == START + LET_IN_MS


async def test_nothing_is_kept_of_groups_without_an_owner(shop: Shop) -> None:
    await shop.submit("a", group="g")
    with pytest.raises(GroupNotFound):
        await shop.engine.group("g")
    assert (await member(shop, "b")).error is None
    await shop.engine.seal_group("g")
    await shop.submit("c", group="g")
    assert await shop.state("c") is State.PENDING


async def test_a_sealed_group_takes_no_more_and_its_tasks_may_be_rerun(shop: Shop) -> None:
    await member(shop, "a")
    record = await shop.engine.seal_group("g")
    assert record.sealed_at == START
    await shop.later(5)
    assert await shop.engine.seal_group("g") == record, "once, for good"
    refused = await member(shop, "b")
    assert isinstance(refused.error, GroupRefused)
    assert (refused.error.sealed_at, refused.state, refused.created) == (START, None, False)
    assert await shop.engine.get(["b"]) == [None]
    await shop.run()
    (acted,) = await shop.engine.act(["a"], Rerun())
    assert acted.state is State.PENDING


async def test_a_member_of_another_owner_is_refused(shop: Shop) -> None:
    await member(shop, "a")
    refused = await member(shop, "b", group_owner="other")
    assert isinstance(refused.error, GroupRefused)
    assert refused.error.owner == "ci"
    assert (await shop.engine.group("g")).owner == "ci"


async def test_a_repeat_is_a_repeat_whatever_became_of_the_group(shop: Shop) -> None:
    await member(shop, "a", args=b"[1]")
    await shop.engine.seal_group("g")
    again = await member(shop, "a", args=b"[1]")
    assert (again.error, again.created, again.state) == (None, False, State.PENDING)
    assert isinstance((await member(shop, "a", args=b"[2]")).error, TaskConflict)


@pytest.mark.parametrize("place", [0, 2, 4])
async def test_in_one_call_who_is_refused_is_refused_alone(shop: Shop, place: int) -> None:
    await member(shop, "old", group="shut")
    await shop.engine.seal_group("shut")
    submissions = [shop.submission(f"t{i}", group="g", group_owner="ci") for i in range(4)]
    submissions.insert(place, shop.submission("bad", group="shut", group_owner="ci"))
    submissions += [
        shop.submission("other", group="g", group_owner="other"),
        shop.submission("long", group="g" * 2_000, group_owner="ci"),
        shop.submission("none", group_owner="ci"),
        shop.submission("plain"),
        shop.submission("half", group="g", group_owner="\ud800"),
    ]
    done = {one.id: one.error for one in await shop.engine.submit(submissions)}
    assert [done[f"t{i}"] for i in range(4)] == [None] * 4
    assert done["plain"] is None
    assert isinstance(done["bad"], GroupRefused)
    assert isinstance(done["other"], GroupRefused)
    for name in ("long", "none", "half"):
        assert isinstance(done[name], InvalidSubmission), name
    page = await shop.engine.find(Query(group="g"))
    assert sorted(task.id for task in page.tasks) == ["t0", "t1", "t2", "t3"]


async def test_a_child_of_a_member_that_was_refused_is_refused(shop: Shop) -> None:
    await member(shop, "old")
    await shop.engine.seal_group("g")
    parent = shop.submission("p", group="g", group_owner="ci")
    child = shop.submission("c", dependencies=("p",))
    first, second = await shop.engine.submit([parent, child])
    assert isinstance(first.error, GroupRefused)
    assert second.error is not None
    assert await shop.engine.get(["p", "c"]) == [None, None]


async def test_a_group_whose_members_stream_in_is_seldom_written(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[PutNote] = []
    store = shop.engine.store
    put = store.put_notes

    async def counted(puts: Any) -> list[NotePut]:
        written.extend(puts)
        return await put(puts)

    monkeypatch.setattr(store, "put_notes", counted)
    if isinstance(store, CreatesWithNotes):
        create = store.create_with_notes

        async def counting(noted: Sequence[NotedTask]) -> list[Created]:
            written.extend(one.note for one in noted if one.note.value != one.note.expect)
            return await create(noted)

        monkeypatch.setattr(store, "create_with_notes", counting)
    engine = LocalEngine(store)  # which looks at what the store can as it is made
    for i in range(20):
        await engine.submit([shop.submission(f"t{i}", group="g", group_owner="ci")])
    assert len(written) == 1
    await shop.later(LET_IN_MS / 1000)
    await engine.submit([shop.submission("late", group="g", group_owner="ci")])
    assert len(written) == 2


async def test_a_member_that_comes_by_itself_takes_one_call_where_that_can_be(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, calls = shop.engine.store, list[str]()
    if not isinstance(store, CreatesWithNotes):
        pytest.skip("this store writes notes and records one after the other")
    await member(shop, "first")

    def counted(name: str) -> Any:
        real = getattr(store, name)

        async def call(*args: Any) -> Any:
            calls.append(name)
            return await real(*args)

        return call

    for name in ("notes", "put_notes", "create", "get", "states", "create_with_notes"):
        monkeypatch.setattr(store, name, counted(name))
    engine = LocalEngine(store)
    submitted = await engine.submit([shop.submission("a", group="new", group_owner="ci")])
    submitted += await engine.submit([shop.submission("b", group="new", group_owner="ci")])
    assert [one.created for one in submitted] == [True, True]
    assert calls == ["create_with_notes"] * 2
    calls.clear()
    # Of a group that it does not know this engine learns at the first try.
    assert (await engine.submit([shop.submission("c", group="g", group_owner="ci")]))[0].created
    assert calls[0] == "create_with_notes"
    calls.clear()
    assert (await engine.submit([shop.submission("d", group="g", group_owner="ci")]))[0].created
    assert calls == ["create_with_notes"]


async def test_what_is_remembered_of_a_group_is_held_against_what_the_store_has(shop: Shop) -> None:
    other = LocalEngine(shop.engine.store)

    def of(task_id: str, owner: str) -> Submission:
        return shop.submission(task_id, group="g", group_owner=owner)

    await member(shop, "a", expires_at=START + 1_000)
    # It goes, and comes again as another's.
    await shop.run()
    await shop.later(KEPT_MORE_MS / 1000 + 10)
    await shop.engine.act(["a"], Delete())
    assert sum([await other._groups.sweep() for _ in range(SCOPES)]) == 1
    assert (await other.submit([of("b", "other")]))[0].error is None
    refused = await member(shop, "c")
    assert isinstance(refused.error, GroupRefused)
    assert refused.error.owner == "other"
    assert (await member(shop, "d", group_owner="other")).error is None
    # It is sealed by somebody else, and that of which it is remembered is refused as well.
    await other.seal_group("g")
    for task_id in ("e", "f"):
        refused = await member(shop, task_id, group_owner="other")
        assert isinstance(refused.error, GroupRefused)
        assert refused.error.sealed_at is not None
    assert (await member(shop, "d", group_owner="other")).created is False
    there = await shop.engine.get(["b", "c", "d", "e", "f"])
    assert [task is not None for task in there] == [True, False, True, False, False]


async def test_members_of_one_group_may_come_through_many_engines_at_once(shop: Shop) -> None:
    engines = [shop.engine, *(LocalEngine(shop.engine.store) for _ in range(3))]
    for round_ in range(3):
        group = f"g{round_}"
        done = await asyncio.gather(
            *(
                engine.submit([shop.submission(f"{group}-{n}-{i}", group=group, group_owner="ci")])
                for i in range(10)
                for n, engine in enumerate(engines)
            )
        )
        assert all(one.created and one.error is None for [one] in done)
        page = await shop.engine.find(Query(group=group, limit=100))
        assert len(page.tasks) == 40


async def test_the_record_of_one_that_was_created_is_given_as_it_is_stored(shop: Shop) -> None:
    for fields in ({"group": "g", "group_owner": "ci"}, {"group": "g"}, {}):
        submission = shop.submission(f"t{len(fields)}", **fields)
        submitted, created = await shop.engine.create(submission)
        assert (submitted.created, submitted.error) == (True, None)
        assert created is not None
        assert [created] == await shop.engine.get([submission.id])
        again, none = await shop.engine.create(submission)
        assert (again.created, again.error, none) == (False, None, None)
    child = shop.submission("child", dependencies=("t0",))
    submitted, none = await shop.engine.create(child)
    assert (submitted.created, none) == (True, None)
    refused, none = await shop.engine.create(shop.submission("bad", group_owner="ci"))
    assert isinstance(refused.error, InvalidSubmission)
    assert none is None


async def test_who_asks_after_a_seal_is_refused_and_who_was_let_in_is_there(shop: Shop) -> None:
    for round_ in range(5):
        group = f"race{round_}"
        await member(shop, f"{group}-first", group=group)
        other = LocalEngine(shop.engine.store)
        names = [f"{group}-{i}" for i in range(12)]
        done, *_ = await asyncio.gather(
            asyncio.gather(*(member(shop, name, group=group) for name in names)),
            other.seal_group(group),
            other.seal_group(group),
        )
        for outcome in done:
            assert outcome.error is None or isinstance(outcome.error, GroupRefused)
        page = await shop.engine.find(Query(group=group, limit=100))
        there = {task.id for task in page.tasks}
        assert there == {one.id for one in done if one.error is None} | {f"{group}-first"}
        assert isinstance((await member(shop, f"{group}-late", group=group)).error, GroupRefused)
        assert (await shop.engine.group(group)).sealed_at is not None


async def test_first_members_of_two_owners_at_once_leave_one_owner(shop: Shop) -> None:
    for round_ in range(5):
        group = f"race{round_}"
        done = await asyncio.gather(
            *(member(shop, f"{group}-{i}", group=group, group_owner=f"o{i % 2}") for i in range(6))
        )
        owner = (await shop.engine.group(group)).owner
        taken = [one.id for one in done if one.error is None]
        assert taken == [f"{group}-{i}" for i in range(6) if f"o{i % 2}" == owner]


async def sweep_all(shop: Shop) -> int:
    return sum([await shop.engine._groups.sweep() for _ in range(SCOPES)])


async def test_the_record_goes_when_its_time_is_over_and_no_task_is_left(shop: Shop) -> None:
    await member(shop, "a", expires_at=START + 1_000)
    await shop.run()
    await shop.later(KEPT_MORE_MS / 1000 - 2)
    assert await sweep_all(shop) == 0
    await shop.later(10)
    assert await sweep_all(shop) in (0, 1)
    (task,) = await shop.engine.get(["a"])
    if task is not None:
        await shop.engine.act(["a"], Delete())
    await shop.later(KEPT_MORE_MS / 1000 + 1)
    await sweep_all(shop)
    with pytest.raises(GroupNotFound):
        await shop.engine.group("g")
    assert (await member(shop, "b", group_owner="other")).error is None


async def test_the_record_stays_while_a_task_is_left(shop: Shop) -> None:
    await member(shop, "a")
    await shop.later(100 * KEPT_MORE_MS / 1000)
    for _ in range(2):
        assert await sweep_all(shop) == 0
    assert (await shop.engine.group("g")).owner == "ci"


async def test_a_record_that_does_not_decode_fails_alone(shop: Shop) -> None:
    await shop.engine.store.put_notes([PutNote(note_of("bad"), b"\xff", None)])
    submissions = [
        shop.submission("a", group="bad", group_owner="ci"),
        shop.submission("b", group="g", group_owner="ci"),
    ]
    first, second = await shop.engine.submit(submissions)
    assert isinstance(first.error, StoreError)
    assert second.error is None
    with pytest.raises(StoreError, match="does not decode"):
        await shop.engine.seal_group("bad")
    assert await sweep_all(shop) == 0


async def test_a_group_is_resolved_when_no_member_lives(shop: Shop) -> None:
    for task_id in ("a", "b", "c"):
        await member(shop, task_id)
    ends = GroupEnds(shop.engine)
    resolved: list[bool] = []
    for _ in range(3):
        (task,) = await shop.claim()
        await shop.engine.report(task, Complete())
        resolved.append(await ends.is_resolved("g"))
    assert resolved == [False, False, True]
    await shop.engine.act(["a"], Rerun())
    ends.revived("g")
    assert not await ends.is_resolved("g")
    await shop.run()
    assert await ends.is_resolved("g"), "it may be resolved again"


async def test_follow_ups_have_no_group_owner(shop: Shop) -> None:
    await shop.submit("a")
    (task,) = await shop.claim()
    follow_up = shop.submission("b", group="g", group_owner="ci")
    with pytest.raises(InvalidSubmission, match="group_owner does not go with follow-ups"):
        await shop.engine.report(task, Complete(), [follow_up])
    assert await shop.state("a") is State.ACTIVE
