"""Dependencies that do not exist: refused at submit, or kept as tasks that can never run
(docs/rulings.md, R34)."""

import pytest

from andon.engine.base import Submitted
from andon.engine.dependencies import Dependencies
from andon.engine.local import LocalEngine
from andon.lifecycle.commands import Delete
from andon.lifecycle.constants import SUBMIT_WINDOW_MS
from andon.model.errors import InvalidSubmission, TaskConflict
from andon.model.words import Reason, State

from .conftest import Shop

KEPT = {"on_missing_parent": "unreachable"}


def refused(outcome: Submitted) -> str:
    assert isinstance(outcome.error, InvalidSubmission), outcome
    assert outcome.error.field == "dependencies"
    assert (outcome.state, outcome.created) == (None, False)
    return str(outcome.error)


async def unreachable(shop: Shop, task_id: str) -> None:
    await shop.told()
    task = await shop.task(task_id)
    assert (task.state, task.status.reason) == (State.UNREACHABLE, Reason.DEPENDENCY_MISSING)


async def test_a_child_of_an_unknown_parent_is_refused_and_the_parent_is_named(shop: Shop) -> None:
    told = refused(await shop.try_submit("child", dependencies=("slip",)))
    assert "'slip'" in told
    assert await shop.state("child") is None


async def test_where_the_policy_keeps_it_it_ends_unreachable(shop: Shop) -> None:
    await shop.submit("child", dependencies=("slip",), options=KEPT)
    await unreachable(shop, "child")
    error = (await shop.task("child")).status.last_error
    assert error is not None
    assert "slip does not exist" in error.message


async def test_it_ends_so_also_where_failed_dependencies_are_waited_for(shop: Shop) -> None:
    options = {**KEPT, "on_dependency_failure": "wait"}
    await shop.submit("child", dependencies=("slip",), options=options)
    await unreachable(shop, "child")


async def test_a_queue_may_keep_such_tasks(shop: Shop) -> None:
    await shop.engine.configure_queue("loose", {"policy": KEPT})
    await shop.submit("child", queue="loose", dependencies=("slip",))
    await unreachable(shop, "child")


async def test_a_crash_before_the_child_was_linked_is_finished_by_its_timer(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def crashed(*_: object) -> None:
        """The process died before this was done."""

    with monkeypatch.context() as patch:
        patch.setattr(Dependencies, "link", crashed)
        await shop.submit("child", dependencies=("slip",), options=KEPT)
    assert await shop.state("child") is State.BLOCKED
    await shop.until_asked()
    await unreachable(shop, "child")


async def test_a_parent_counts_as_it_ended_while_its_tombstone_lives_and_as_missing_after(
    shop: Shop,
) -> None:
    await shop.submit("parent")
    await shop.run()
    await shop.engine.act(["parent"], Delete())
    await shop.submit("early", dependencies=("parent",))
    assert await shop.state("early") is State.PENDING
    await shop.later(SUBMIT_WINDOW_MS / 1000 + 1)
    assert "'parent'" in refused(await shop.try_submit("late", dependencies=("parent",)))
    await shop.submit("kept", dependencies=("parent",), options=KEPT)
    await unreachable(shop, "kept")


async def test_a_repeat_is_a_repeat_also_when_its_parent_is_gone(shop: Shop) -> None:
    await shop.submit("parent")
    await shop.submit("child", dependencies=("parent",))
    await shop.run()
    await shop.engine.act(["parent"], Delete())
    await shop.later(SUBMIT_WINDOW_MS / 1000 + 1)
    again = await shop.try_submit("child", dependencies=("parent",))
    assert (again.error, again.created, again.state) == (None, False, State.PENDING)
    other = await shop.try_submit("child", dependencies=("parent", "slip"))
    assert isinstance(other.error, TaskConflict)


async def test_parents_of_the_same_call_count_as_stored(shop: Shop) -> None:
    outcomes = await shop.engine.submit(
        [shop.submission("child", dependencies=("parent",)), shop.submission("parent")]
    )
    assert [one.error for one in outcomes] == [None, None]


async def test_a_child_of_a_refused_parent_is_refused_alone_with_the_reason(shop: Shop) -> None:
    outcomes = await shop.engine.submit(
        [
            shop.submission("grandchild", dependencies=("child",)),
            shop.submission("child", dependencies=("parent",), options=KEPT),
            shop.submission("parent", priority=99),
            shop.submission("other"),
        ]
    )
    grandchild, child, parent, other = outcomes
    assert parent.error is not None
    assert "'parent', which was refused" in refused(child)
    assert "'child', which was refused" in refused(grandchild)
    for one in (child, grandchild):
        assert "Priority 99" in str(one.error)
    assert other.created


async def test_one_slip_of_a_call_is_refused_alone(shop: Shop) -> None:
    children = [shop.submission(f"c{i}", dependencies=("parent",)) for i in range(5)]
    slip = shop.submission("slip", dependencies=("nobody",))
    outcomes = await shop.engine.submit([shop.submission("parent"), *children, slip])
    assert "'nobody'" in refused(outcomes[-1])
    assert all(one.created for one in outcomes[:-1])


async def test_a_dependency_named_twice_counts_once(shop: Shop) -> None:
    await shop.submit("a")
    await shop.submit("b")
    await shop.submit("child", dependencies=("a", "b", "a"))
    assert (await shop.task("child")).definition.dependencies == ("a", "b")
    await shop.run()
    assert await shop.state("child") is State.BLOCKED
    await shop.run()
    assert await shop.state("child") is State.PENDING


async def test_the_choria_profile_keeps_such_tasks(shop: Shop) -> None:
    engine = LocalEngine(shop.engine.store, profile="choria")
    (outcome,) = await engine.submit([shop.submission("child", dependencies=("slip",))])
    await engine.settled()
    assert outcome.created
    await unreachable(shop, "child")
