"""Dependencies: told at once, and found again after a crash at any point."""

import time
from itertools import pairwise

import pytest

from andon.engine.dependencies import Dependencies
from andon.lifecycle.commands import Complete, Delete, Fail, Reprioritise, Rerun, RunNow, Schedule
from andon.model.errors import InvalidSubmission, TaskNotFound
from andon.model.task import TaskError
from andon.model.words import Reason, State

from .conftest import Shop

FAIL = Fail(error=TaskError(message="no"), retryable=False)


async def test_a_task_waits_for_all_its_dependencies(shop: Shop) -> None:
    await shop.submit("a")
    await shop.submit("b")
    await shop.submit("c", dependencies=("a", "b"))
    assert await shop.state("c") is State.BLOCKED
    await shop.run()
    assert await shop.state("c") is State.BLOCKED
    await shop.run()
    assert await shop.state("c") is State.PENDING


async def test_a_dependency_that_has_ended_already_counts(shop: Shop) -> None:
    await shop.submit("a")
    await shop.run()
    await shop.submit("b", dependencies=("a",))
    assert await shop.state("b") is State.PENDING


async def test_a_dependency_discarded_a_moment_ago_counts(shop: Shop) -> None:
    await shop.submit("a", options={"discard_states": ("completed",)})
    await shop.run()
    await shop.submit("b", dependencies=("a",))
    assert await shop.state("b") is State.PENDING


async def test_unreachable_cascades_at_once(shop: Shop) -> None:
    await shop.submit("a")
    for parent, child in (("a", "b"), ("b", "c"), ("c", "d")):
        await shop.submit(child, dependencies=(parent,))
    await shop.run(FAIL)
    states = [await shop.state(i) for i in "bcd"]
    assert states == [State.UNREACHABLE] * 3
    task = await shop.task("d")
    assert task.status.reason is Reason.DEPENDENCY_FAILED
    assert task.status.last_error is not None
    assert "c" in task.status.last_error.message


async def test_all_resolved_takes_any_end(shop: Shop) -> None:
    await shop.submit("a")
    await shop.submit("b")
    await shop.submit("c", dependencies=("a", "b"), requires="all-resolved")
    await shop.run(FAIL)
    await shop.engine.cancel(["b"])
    await shop.told()
    assert await shop.state("c") is State.PENDING


async def test_a_task_that_depends_on_itself_waits_to_be_scheduled(shop: Shop) -> None:
    await shop.submit("a", dependencies=("a",))
    await shop.later(600)
    assert await shop.state("a") is State.BLOCKED
    (acted,) = await shop.engine.act(["a"], Schedule())
    assert (acted.changed, acted.state) == (True, State.PENDING)


async def test_waiting_on_failure_stays_blocked_until_a_rerun_completes(shop: Shop) -> None:
    await shop.submit("a")
    await shop.submit("b", dependencies=("a",), options={"on_dependency_failure": "wait"})
    await shop.run(FAIL)
    await shop.later(600)
    assert await shop.state("b") is State.BLOCKED
    await shop.engine.act(["a"], Rerun())
    await shop.run()
    assert await shop.state("b") is State.PENDING


async def test_a_dependency_once_satisfied_stays_so_when_its_rerun_fails(shop: Shop) -> None:
    await shop.submit("p")
    await shop.submit("q")
    await shop.submit("c", dependencies=("p", "q"))
    await shop.run()
    await shop.engine.act(["p"], Rerun())
    await shop.engine.act(["q"], Reprioritise(priority=-4))
    assert (await shop.run(FAIL)).id == "p"
    assert await shop.state("c") is State.BLOCKED
    await shop.run()
    assert await shop.state("c") is State.PENDING


async def test_a_rerun_does_not_revive_the_unreachable(shop: Shop) -> None:
    await shop.submit("a")
    await shop.submit("b", dependencies=("a",))
    await shop.run(FAIL)
    await shop.engine.act(["a"], Rerun())
    await shop.run()
    assert await shop.state("b") is State.UNREACHABLE


async def test_results_are_loaded_and_kept_until_the_dependent_has_ended(shop: Shop) -> None:
    await shop.submit("a", options={"discard_states": ("completed",)})
    await shop.submit("b", dependencies=("a",), load_dependencies=True)
    await shop.run()
    await shop.fire()
    assert await shop.state("a") is State.COMPLETED, "kept: its result is still needed"
    (b,) = await shop.claim()
    results = await shop.engine.dependency_results(b)
    loaded = results["a"]
    assert loaded is not None
    assert loaded.result == b"1"
    await shop.engine.report(b, Complete())
    await shop.told()
    await shop.fire()
    assert await shop.state("a") is None


async def test_a_forced_delete_leaves_a_hole_that_is_told(shop: Shop) -> None:
    await shop.submit("a")
    await shop.submit("b")
    await shop.submit("c", dependencies=("a", "b"), load_dependencies=True)
    await shop.run()
    (kept,) = await shop.engine.act(["a"], Delete())
    assert kept.error is not None, "a dependent needs it"
    (gone,) = await shop.engine.act(["a"], Delete(), force=True)
    assert gone.changed
    await shop.run()
    (c,) = await shop.claim()
    assert (await shop.engine.dependency_results(c))["a"] is None


async def test_parents_of_one_call_are_made_before_their_children(shop: Shop) -> None:
    outcomes = await shop.engine.submit(
        [
            shop.submission("c", dependencies=("b",)),
            shop.submission("b", dependencies=("a",)),
            shop.submission("a"),
        ]
    )
    assert [(o.id, o.state) for o in outcomes] == [
        ("c", State.BLOCKED),
        ("b", State.BLOCKED),
        ("a", State.PENDING),
    ]


async def test_a_circle_is_refused_and_the_rest_is_stored(shop: Shop) -> None:
    outcomes = await shop.engine.submit(
        [
            shop.submission("a", dependencies=("b",)),
            shop.submission("b", dependencies=("a",)),
            shop.submission("c"),
            shop.submission("d", dependencies=("a",)),
        ]
    )
    errors = {o.id: o.error for o in outcomes}
    assert isinstance(errors["a"], InvalidSubmission)
    assert isinstance(errors["b"], InvalidSubmission)
    assert "circle" in str(errors["a"])
    assert isinstance(errors["d"], InvalidSubmission), "a child of a refused parent is refused"
    assert errors["c"] is None
    assert [await shop.state(i) for i in "abd"] == [None] * 3


async def test_a_circle_is_told_from_parent_to_child(shop: Shop) -> None:
    ring = {"a": ("b",), "b": ("c",), "c": ("a",)}
    outcomes = await shop.engine.submit(
        [shop.submission(task, dependencies=parents) for task, parents in ring.items()]
    )
    [told] = {str(o.error) for o in outcomes}
    names = told.partition(": ")[2].rstrip(".").split(" -> ")
    assert names[0] == names[-1]
    assert len(names) == 4
    assert all(parent in ring[child] for parent, child in pairwise(names))


async def test_endless_circles_cost_no_more_than_other_tasks(shop: Shop) -> None:
    """Looking for one circle after the other took minutes, and telling each task all of them
    gigabytes."""
    ring = [shop.submission(f"r{i}", dependencies=(f"r{(i + 1) % 3000}",)) for i in range(3000)]
    pairs = [shop.submission(f"p{i}", dependencies=(f"p{i ^ 1}",)) for i in range(6000)]
    behind = [shop.submission("child", dependencies=("r7", "fine")), shop.submission("fine")]
    began = time.process_time()
    outcomes = {o.id: o for o in await shop.engine.submit([*ring, *pairs, *behind])}
    assert time.process_time() - began < 5
    assert sum(o.error is not None for o in outcomes.values()) == 9_001
    assert outcomes["fine"].created
    assert "'r7', which was refused" in str(outcomes["child"].error)
    assert max(len(str(o.error)) for o in outcomes.values()) < 300


@pytest.mark.usefixtures("edges_left")
@pytest.mark.parametrize("lost", ["link", "fan-out"])
async def test_what_a_crash_left_untold_is_told_by_the_verify_timer(
    shop: Shop, lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def crashed(*_: object, **__: object) -> None:
        """The process died before this was done."""

    def forgotten(*_: object, **__: object) -> None:
        """Likewise."""

    with monkeypatch.context() as patch:
        if lost == "link":
            patch.setattr(Dependencies, "link", crashed)
        await shop.submit("a")
        await shop.submit("b", dependencies=("a",))
        if lost == "fan-out":
            patch.setattr(Dependencies, "ended", forgotten)
        await shop.run()
    assert await shop.state("b") is State.BLOCKED
    await shop.until_asked()
    assert await shop.state("b") is State.PENDING


@pytest.mark.usefixtures("edges_left")
async def test_a_fan_out_cut_short_is_finished_by_housekeeping(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shop.submit("a")
    await shop.submit("b", dependencies=("a",))
    with monkeypatch.context() as patch:
        patch.setattr(Dependencies, "ended", lambda *_, **__: None)
        await shop.run()
    assert await shop.state("b") is State.BLOCKED
    await shop.engine.timekeeper.housekeep()
    await shop.told()
    assert await shop.state("b") is State.PENDING


async def test_a_wide_fan_in_rewrites_the_child_once(shop: Shop) -> None:
    parents = [shop.submission(f"p{i}") for i in range(300)]
    await shop.engine.submit(parents)
    await shop.submit("child", dependencies=tuple(p.id for p in parents))
    for task in await shop.claim(limit=300):
        await shop.engine.report(task, Complete())
    await shop.told()
    child = await shop.task("child")
    assert (child.state, child.status.revision) == (State.PENDING, 2)


# --- rerun with dependencies ---


async def test_a_rerun_with_its_dependencies_waits_for_them_again(shop: Shop) -> None:
    for parent in "pqr":
        await shop.submit(parent)
    await shop.submit("c", dependencies=("p", "q", "r"))
    await shop.run()
    await shop.run(FAIL)
    await shop.run(FAIL)
    assert await shop.state("c") is State.UNREACHABLE
    again = await shop.engine.act(["q", "r", "c"], Rerun(waits=True))
    assert [acted.state for acted in again] == [State.PENDING, State.PENDING, State.BLOCKED]
    await shop.run()
    assert await shop.state("c") is State.BLOCKED, "one of two has not ended"
    await shop.fire()
    assert await shop.state("c") is State.BLOCKED, "nor does asking again release it"
    await shop.run()
    assert await shop.state("c") is State.PENDING
    assert (await shop.run()).id == "c"


async def test_a_rerun_whose_dependencies_stand_runs_at_once(shop: Shop) -> None:
    await shop.submit("a")
    await shop.submit("b", dependencies=("a",), load_dependencies=True)
    await shop.run()
    await shop.run(FAIL)
    await shop.engine.act(["b"], Rerun(waits=True))
    assert await shop.state("b") is State.PENDING


async def test_a_rerun_whose_dependency_fails_again_is_unreachable_again(shop: Shop) -> None:
    await shop.submit("a")
    await shop.submit("b", dependencies=("a",))
    await shop.run(FAIL)
    await shop.engine.act(["a", "b"], Rerun(waits=True))
    assert await shop.state("b") is State.BLOCKED
    await shop.run(FAIL)
    assert await shop.state("b") is State.UNREACHABLE


async def test_a_rerun_that_was_cut_short_before_it_was_linked_is_linked_by_its_timer(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shop.submit("a")
    await shop.submit("b", dependencies=("a",))
    await shop.run(FAIL)
    with monkeypatch.context() as patch:
        patch.setattr(Dependencies, "_link", lambda self, links: _nothing())
        await shop.engine.act(["a", "b"], Rerun(waits=True))
    await shop.until_asked()
    await shop.run()
    assert await shop.state("b") is State.PENDING


async def _nothing() -> list[object]:
    return []


# --- who depends on a task (docs/rulings.md, R42) ---


async def dependents(shop: Shop, task_id: str, limit: int = 100) -> list[str]:
    found: list[str] = []
    cursor = ""
    while True:
        page = await shop.engine.dependents(task_id, cursor, limit)
        found += [task.id for task in page.tasks]
        assert len(page.tasks) <= limit
        if not page.cursor:
            return found
        assert len(page.tasks) == limit, "a page is full where another follows"
        cursor = page.cursor


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
async def test_direct_dependents_are_listed_before_and_after_they_were_released(
    shop: Shop, limit: int
) -> None:
    await shop.submit("a")
    for child in ("by-end", "by-schedule", "by-run-now", "by-rerun", "cancelled", "blocked"):
        await shop.submit(child, dependencies=("a",))
    await shop.submit("grandchild", dependencies=("blocked",))
    everybody = sorted(["by-end", "by-schedule", "by-run-now", "by-rerun", "cancelled", "blocked"])
    assert await dependents(shop, "a", limit) == everybody
    await shop.engine.act(["by-schedule"], Schedule())
    await shop.engine.act(["by-run-now"], RunNow())
    await shop.engine.act(["by-rerun"], Rerun(blocked=True))
    await shop.engine.cancel(["cancelled"])
    await shop.told()
    assert await dependents(shop, "a", limit) == everybody
    await shop.run()
    await shop.told()
    assert await shop.state("by-end") is State.PENDING
    await shop.submit("late", dependencies=("a",))
    assert await dependents(shop, "a", limit) == sorted([*everybody, "late"])
    for _ in range(4):
        await shop.run()
    await shop.told()
    assert await dependents(shop, "a", limit) == sorted([*everybody, "late"])
    await shop.engine.act(["cancelled"], Delete())
    everybody.remove("cancelled")
    assert await dependents(shop, "a", limit) == sorted([*everybody, "late"])
    assert await dependents(shop, "blocked") == ["grandchild"]
    assert await dependents(shop, "grandchild") == []


async def test_what_was_released_by_hand_keeps_no_result_and_is_still_listed(shop: Shop) -> None:
    await shop.submit("a")
    await shop.submit("b", dependencies=("a",), load_dependencies=True)
    await shop.submit("c", dependencies=("a",), load_dependencies=True)
    await shop.engine.act(["b"], Schedule())
    await shop.engine.cancel(["c"])
    await shop.run()
    await shop.told()
    (acted,) = await shop.engine.act(["a"], Delete())
    assert (acted.error, acted.state) == (None, None), "nothing holds the record"
    assert await shop.state("b") is State.PENDING


async def test_a_flow_task_that_is_rerun_keeps_the_result_that_it_loads_once_more(
    shop: Shop,
) -> None:
    await shop.submit("a")
    await shop.submit("b", dependencies=("a",), load_dependencies=True)
    await shop.run()
    await shop.told()
    await shop.run(FAIL)
    await shop.told()
    await shop.engine.act(["b"], Rerun(waits=True))
    await shop.told()
    assert await shop.state("b") is State.PENDING
    (acted,) = await shop.engine.act(["a"], Delete())
    assert acted.error is not None, "its result is loaded"
    await shop.run()
    await shop.told()
    (acted,) = await shop.engine.act(["a"], Delete())
    assert acted.error is None


async def test_dependents_of_nobody_and_of_no_number_are_refused(shop: Shop) -> None:
    with pytest.raises(TaskNotFound):
        await shop.engine.dependents("absent")
    await shop.submit("a")
    for limit in (0, -1, 1_001):
        with pytest.raises(InvalidSubmission, match="limit is 1 to 1,000"):
            await shop.engine.dependents("a", "", limit)
