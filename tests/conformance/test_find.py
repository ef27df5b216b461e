"""Finding: one axis, the rest filters; pages in order of creation, each task once."""

from collections.abc import Awaitable
from typing import Any

import pytest
from servers.harm import can_damage, damage

from andon.contract.limits import SCAN_BUDGET
from andon.contract.outcomes import ChangeKind
from andon.contract.queries import Query
from andon.engine.letter_groups import letter_groups
from andon.lifecycle.commands import Cancel, Complete, Delete, Fail, Rerun
from andon.lifecycle.letter_groups import merged
from andon.model.headers import FLOW_TAG
from andon.model.letters import LetterGroups
from andon.model.policy import Retention
from andon.model.task import Task, TaskError
from andon.model.words import State

from .kit import Kit, ids, needs, needs_one_line

FINAL = Fail(error=TaskError(message="no"), retryable=False)


async def test_tasks_are_listed_in_order_of_creation(kit: Kit) -> None:
    names: list[str] = []
    for _ in range(5):
        names.append((await kit.submit()).id)
        await kit.pass_time(2)
    assert await kit.find_all() == names
    assert await kit.find_all(newest_first=True) == names[::-1]


@pytest.mark.parametrize("newest_first", [False, True])
async def test_pages_have_every_task_once(kit: Kit, *, newest_first: bool) -> None:
    tasks = await kit.submit_many(25)
    found = await kit.find_all(limit=4, newest_first=newest_first)
    assert sorted(found) == sorted(ids(tasks))
    created = {t.id: t.status.created_at for t in tasks}
    times = [created[i] for i in found]
    assert times == sorted(times, reverse=newest_first)


async def test_a_page_is_no_longer_than_its_limit(kit: Kit) -> None:
    await kit.submit_many(5)
    page = await kit.store.find(Query(limit=3))
    assert len(page.tasks) == 3
    assert page.cursor


async def test_a_bare_page_has_what_tasks_are_listed_by_and_wait_for(kit: Kit) -> None:
    parent = await kit.active(group="g", tags=("t",), args=b"x" * 100)
    await kit.submit(group="g", dependencies=(parent.id,))
    whole = await kit.store.find(Query(group="g"))
    bare = await kit.store.find(Query(group="g", bare=True))
    assert bare.cursor == whole.cursor
    assert [_listed_by(task) for task in bare.tasks] == [_listed_by(task) for task in whole.tasks]


def _listed_by(task: Task) -> tuple[Any, ...]:
    d, status = task.definition, task.status
    of_definition = (
        d.id,
        d.name,
        d.version,
        d.queue,
        d.group,
        d.key,
        d.tags,
        d.dependencies,
        d.needs,
    )
    times = status.created_at, status.submitted_at, status.finished_at
    return *of_definition, status.state, status.reason, status.added, times


async def test_there_is_no_cursor_after_the_last(kit: Kit) -> None:
    await kit.submit_many(3)
    page = await kit.store.find(Query(limit=10))
    assert (len(page.tasks), page.cursor) == (3, "")


async def test_tasks_that_come_and_go_between_pages_do_no_harm(kit: Kit) -> None:
    tasks = await kit.submit_many(10)
    page = await kit.store.find(Query(states=(State.PENDING,), limit=4))
    await kit.move(page.tasks[-1], Cancel())
    rest = await kit.find_all(states=(State.PENDING,), limit=4)
    later = await kit.store.find(Query(states=(State.PENDING,), limit=20, cursor=page.cursor))
    assert len(rest) == 9
    assert sorted(ids(page.tasks) + ids(later.tasks)) == sorted(ids(tasks))


async def test_each_axis_finds_what_it_names(kit: Kit) -> None:
    a = await kit.submit("a", queue="q1", name="n1", key="k1", group="g1", tags=("t1", "x"))
    await kit.submit("b", queue="q2", name="n2", key="k2", group="g2", tags=("t2", "x"))
    assert await kit.find_all(queue="q1") == ["a"]
    assert await kit.find_all(name="n1") == ["a"]
    assert await kit.find_all(key="k1") == ["a"]
    assert await kit.find_all(group="g1") == ["a"]
    assert await kit.find_all(tag="t1") == ["a"]
    assert await kit.find_all(tag="x") == ["a", "b"]
    assert await kit.find_all(queue="q1", tag="t2") == []
    assert await kit.find_all(states=(State.PENDING,), queue="q2") == ["b"]
    assert await kit.find_all(states=(State.ACTIVE,)) == []
    page = await kit.store.find(Query(queue="q1"))
    assert page.tasks == (a,)


@pytest.mark.parametrize("newest_first", [False, True])
async def test_tasks_are_found_by_how_their_ids_begin(kit: Kit, *, newest_first: bool) -> None:
    names = ["a-1", "a-10", "A-1", "a_1", "a:2", "b-1", "a-100"]
    for name in names:
        await kit.submit(name)
        await kit.pass_time(2)
    await kit.move(await kit.there("a-10"), Cancel())

    async def found(**asked: Any) -> list[str]:
        return await kit.find_all(newest_first=newest_first, **asked)

    def ordered(*names: str) -> list[str]:
        return list(names[::-1] if newest_first else names)

    assert await found(id_prefix="a-1") == ordered("a-1", "a-10", "a-100")
    assert await found(id_prefix="a-1", limit=1) == ordered("a-1", "a-10", "a-100")
    assert await found(id_prefix="a_") == ["a_1"]
    assert await found(id_prefix="a:") == ["a:2"]
    assert await found(id_prefix="a-100") == ["a-100"]
    assert await found(id_prefix="a-1", states=(State.CANCELLED,)) == ["a-10"]
    for nobody in ("a-1000", "c", "%", "*", "a?", "[ab]", "\\", "é"):
        assert await found(id_prefix=nobody) == [], nobody


async def test_states_are_found_together(kit: Kit) -> None:
    done = await kit.active("done")
    await kit.move(done, Complete())
    await kit.active("active")
    await kit.submit("pending")
    found = await kit.find_all(states=(State.ACTIVE, State.COMPLETED))
    assert sorted(found) == ["active", "done"]


async def test_a_worker_has_the_tasks_it_runs(kit: Kit) -> None:
    mine = await kit.active("mine", worker="w1")
    await kit.active("other", worker="w2")
    assert await kit.find_all(worker="w1") == ["mine"]
    await kit.move(mine, Complete())
    assert await kit.find_all(worker="w1") == []


async def test_dead_letters_are_found_among_the_failed(kit: Kit) -> None:
    for name, policy in (("saved", {}), ("not", {"dead_letter": "none"})):
        task = await kit.active(name, policy=policy)
        await kit.move(task, Fail(error=TaskError(message="no"), retryable=False))
    assert await kit.find_all(dead_letters=True) == ["saved"]
    assert sorted(await kit.find_all(states=(State.FAILED,))) == ["not", "saved"]


@pytest.mark.parametrize("axis", ["key", "group"])
async def test_dead_letters_of_a_key_or_group_are_dead_letters_only(kit: Kit, axis: str) -> None:
    task = await kit.active("dead", **{axis: "x"})
    await kit.move(task, Fail(error=TaskError(message="no"), retryable=False))
    await kit.submit("alive", **{axis: "x"})
    assert await kit.find_all(dead_letters=True, **{axis: "x"}) == ["dead"]


async def test_results_and_cells_come_with_what_is_found(kit: Kit) -> None:
    active = await kit.active("active")
    await kit.renew(active, progress=5)
    done = await kit.active("done")
    await kit.move(done, Complete(result=b"1"))
    page = await kit.store.find(Query())
    assert page.tasks == (await kit.there("active"), await kit.there("done"))


async def test_get_answers_in_the_order_asked(kit: Kit) -> None:
    tasks = await kit.submit_many(3)
    found = await kit.store.get([tasks[2].id, "absent", tasks[0].id])
    assert found == [tasks[2], None, tasks[0]]


async def test_dead_letters_are_grouped_by_their_errors_in_bounded_looks(kit: Kit) -> None:
    for number in range(5):
        task = await kit.active(queue="q", policy={"dead_letter": "save"})
        said = f"{'Paid' if number % 2 else 'Lost'} order {number} of 'Ann'"
        error = TaskError(message=said, type="E")
        await kit.move(task, Fail(error=error, retryable=False))
    await kit.submit(queue="q")

    class Engine:
        """As much of an engine as a look needs."""

        now = kit.store.now
        find = kit.store.find

    def look(count: int, cursor: str = "") -> Awaitable[LetterGroups]:
        return letter_groups(Engine(), queue=None, name=None, look=count, cursor=cursor)

    whole = await look(10)
    assert [(one.count, one.pattern) for one in whole.groups] == [
        (3, 'E: Lost order # of "…"'),
        (2, 'E: Paid order # of "…"'),
    ]
    some = await look(2)
    assert (some.looked, some.whole) == (2, False)
    while not some.whole:
        some = merged(some, await look(2, some.cursor))
    assert some.groups == whole.groups


@pytest.mark.parametrize("newest", [False, True])
@pytest.mark.parametrize("most", [3, 10_000])
async def test_ids_that_begin_alike_are_found_however_many_they_are(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, newest: bool, most: int
) -> None:
    for module in ("sqlite", "postgres"):
        monkeypatch.setattr(f"andon.stores.{module}.reading.MOST_SORTED", most)
    monkeypatch.setattr("andon.stores.redis.reading.MOST_IDS", most)
    made = ("a-1", "B-1", "a-2", "A-1", "a_1", "a-3", "a:1", "a-4", "b-1", "a")
    for task_id in made:
        await kit.submit(task_id)
    for begin in ("a-", "a", "A", "a:", "zz"):
        expected = sorted(task_id for task_id in made if task_id.startswith(begin))
        found = await kit.find_all(id_prefix=begin, newest_first=newest, limit=2)
        assert sorted(found) == expected
        queued = await kit.find_all(id_prefix=begin, queue="default", states=(State.PENDING,))
        assert sorted(queued) == expected


# --- lists by name ---


async def failed(kit: Kit, task_id: str, **fields: Any) -> Task:
    """A task that has failed for good."""
    return await kit.moved(await kit.active(task_id, **fields), FINAL)


@pytest.mark.parametrize("policy", [{}, {"dead_letter": "none"}], ids=["saved", "not saved"])
async def test_failures_of_a_name_are_found_whether_or_not_they_are_dead_letters(
    kit: Kit, policy: dict[str, Any]
) -> None:
    needs_one_line(kit)
    for number in range(4):
        await failed(kit, f"mine-{number}", name="mine", queue=f"q{number % 2}", policy=policy)
        await failed(kit, f"other-{number}", name="other")
    await kit.submit("waits", name="mine")
    asked: dict[str, Any] = {"name": "mine", "states": (State.FAILED,)}
    mine = [f"mine-{number}" for number in range(4)]
    assert await kit.find_all(**asked) == mine
    assert await kit.find_all(**asked, newest_first=True, limit=3) == mine[::-1]
    assert await kit.find_all(**asked, queue="q1") == ["mine-1", "mine-3"]
    assert await kit.find_all(**asked, dead_letters=True) == ([] if policy else mine)
    assert await kit.find_all(name="mine", dead_letters=True) == ([] if policy else mine)
    both = (State.FAILED, State.PENDING)
    assert await kit.find_all(name="mine", states=both) == [*mine, "waits"]


async def test_a_failure_is_found_among_failures_until_it_runs_again_or_is_deleted(
    kit: Kit,
) -> None:
    again, gone = await failed(kit, "again"), await failed(kit, "gone")
    asked: dict[str, Any] = {"name": "job", "states": (State.FAILED,)}
    assert sorted(await kit.find_all(**asked)) == ["again", "gone"]
    await kit.move(again, Rerun())
    assert await kit.find_all(**asked) == ["gone"]
    await kit.move(gone, Delete())
    assert await kit.find_all(**asked) == []
    (claimed,) = await kit.claim()
    await kit.move(claimed, FINAL)
    assert await kit.find_all(**asked) == ["again"]


async def test_failures_that_end_together_are_found_by_name(kit: Kit) -> None:
    await kit.submit_many(6, name="mine")
    await kit.submit_many(6, name="other")
    tasks = await kit.claim(12)
    ends = [FINAL if n % 3 else Complete(result=b"1") for n in range(12)]
    changes = [kit.change(task, end) for task, end in zip(tasks, ends, strict=True)]
    assert {told.kind for told in await kit.store.commit(changes)} == {ChangeKind.APPLIED}
    for name in ("mine", "other"):
        expected = [
            task.id
            for task, end in zip(tasks, ends, strict=True)
            if end is FINAL and task.definition.name == name
        ]
        found = await kit.find_all(name=name, states=(State.FAILED,))
        assert sorted(found) == sorted(expected)


async def test_a_failure_that_is_discarded_at_its_end_is_in_no_list(kit: Kit) -> None:
    policy = {"retention": Retention(failed=0), "dead_letter": "none"}
    task = await kit.active("gone", policy=policy)
    assert await kit.move(task, FINAL) is None
    assert await kit.find_all(name="job", states=(State.FAILED,)) == []


async def test_a_failure_that_does_not_decode_is_among_the_unknown_only(kit: Kit) -> None:
    needs(condition=can_damage(kit.factory.url), why="nobody gets at its data behind its back")
    await failed(kit, "broken")
    await failed(kit, "whole")
    await damage(kit.factory.url, "broken")
    store = await kit.again()
    (broken,) = await store.get(["broken"])
    assert broken is not None
    await kit.commit(kit.change(broken, Delete()))
    assert await kit.find_all(name="job", states=(State.FAILED,)) == ["whole"]


async def test_a_tag_is_found_among_many_tasks_in_one_look(kit: Kit) -> None:
    needs_one_line(kit)
    first = await kit.submit("first", tags=("rare", "common", "rare"))
    await kit.submit_many(SCAN_BUDGET + 10, tags=("common",))
    await kit.submit("last", queue="other", tags=("common", "rare"))

    async def look(**asked: Any) -> list[str]:
        page = await kit.store.find(Query(tag="rare", limit=10, **asked))
        assert not page.cursor
        return [task.id for task in page.tasks]

    assert await look() == ["first", "last"]
    assert await look(newest_first=True) == ["last", "first"]
    assert await look(queue="other") == ["last"]
    assert await look(states=(State.ACTIVE,)) == []
    await kit.move(first, Cancel())
    assert await look(states=(State.CANCELLED,)) == ["first"]
    await kit.move(await kit.there("first"), Delete())
    assert await look() == ["last"]


@pytest.mark.parametrize(
    "tag",
    ["two\nlines", "a,b", '"', "{x}", "\U0001f600" * 1_024, "é" * 201, "null", "\x7f\r\t"],
    ids=ascii,
)
async def test_a_tag_is_any_text(kit: Kit, tag: str) -> None:
    one = await kit.submit(tags=(tag, tag[:1], "lines"))
    many = await kit.submit_many(3, tags=(f"{tag[:-1]}?", tag))
    assert sorted(await kit.find_all(tag=tag)) == sorted([one.id, *ids(many)])
    assert await kit.find_all(tag="a") == ([one.id] if tag[:1] == "a" else [])
    await kit.move(await kit.there(one.id), Cancel())
    await kit.move(await kit.there(one.id), Delete())
    assert sorted(await kit.find_all(tag=tag)) == sorted(ids(many))
    assert await kit.find_all(tag="lines") == []


async def test_flows_are_found_by_their_first_tasks_whatever_becomes_of_them(kit: Kit) -> None:
    needs_one_line(kit)
    asked: dict[str, Any] = {"tag": FLOW_TAG, "newest_first": True}
    first = [
        await kit.submit(f"flow-{n}:0", group=f"flow-{n}", tags=("x", FLOW_TAG)) for n in range(3)
    ]
    await kit.submit_many(3, group="flow-0")
    await kit.submit("beside", tags=("x",))
    assert await kit.find_all(**asked) == ["flow-2:0", "flow-1:0", "flow-0:0"]
    claimed = await kit.claim(10)
    assert await kit.find_all(**asked) == ["flow-2:0", "flow-1:0", "flow-0:0"]
    ends = [FINAL if task.id == "flow-1:0" else Complete(result=b"1") for task in claimed]
    await kit.store.commit([kit.change(t, end) for t, end in zip(claimed, ends, strict=True)])
    assert await kit.find_all(**asked) == ["flow-2:0", "flow-1:0", "flow-0:0"]
    assert await kit.find_all(name="job", states=(State.FAILED,)) == ["flow-1:0"]
    await kit.move(await kit.there(first[0].id), Delete())
    assert await kit.find_all(**asked) == ["flow-2:0", "flow-1:0"]
