"""Acts of control: by id, on any state, and never by halves."""

from collections.abc import Sequence

import pytest

from andon.contract.outcomes import Changed
from andon.contract.queries import Query
from andon.contract.requests import Change
from andon.engine.bulk import act_on_ids
from andon.lifecycle.commands import (
    Archive,
    Cancel,
    Complete,
    Delete,
    Fail,
    Interrupted,
    Reprioritise,
    Rerun,
    Reschedule,
    RunNow,
)
from andon.model.errors import (
    ConfigurationError,
    InvalidSubmission,
    InvalidTransition,
    LeaseLost,
    StoreUnavailable,
    TaskNotFound,
    UniqueKeyHeld,
)
from andon.model.task import Task, TaskError
from andon.model.words import Reason, State

from .conftest import START, Shop

FAIL = Fail(error=TaskError(message="no"), retryable=False)


async def test_cancel_of_a_waiting_task_is_at_once(shop: Shop) -> None:
    await shop.submit("a")
    (acted,) = await shop.engine.cancel(["a"])
    assert (acted.state, acted.changed) == (State.CANCELLED, True)
    (again,) = await shop.engine.cancel(["a"])
    assert (again.state, again.changed, again.error) == (State.CANCELLED, False, None)


async def test_of_acts_on_tasks_just_read_one_that_has_moved_is_decided_anew(shop: Shop) -> None:
    ids = ["a", "b", "c", "d"]
    for task_id in ids:
        await shop.submit(task_id)
    read = [await shop.task(task_id) for task_id in ids]
    await shop.engine.act(["b"], Reprioritise(priority=3))
    await shop.engine.cancel(["c"])
    acted = await shop.engine._control.act_each([(task, Cancel()) for task in read])
    assert [one.id for one in acted] == ids
    assert [one.changed for one in acted] == [True, True, False, True]
    assert isinstance(acted[2].error, InvalidTransition)
    assert [await shop.state(task_id) for task_id in ids] == [State.CANCELLED] * 4


async def test_acts_that_a_store_writes_before_it_goes_away_are_known(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for task_id in ("a", "b"):
        await shop.submit(task_id)
    await shop.submit("child", dependencies=("a",), requires="all-resolved")
    read = [await shop.task(task_id) for task_id in ("b", "a")]
    commit = shop.engine.store.commit

    async def first_alone(changes: Sequence[Change]) -> list[Changed]:
        if changes[0].before.id == "b":
            raise StoreUnavailable("away")
        return await commit(changes)

    monkeypatch.setattr(shop.engine._runs.commits, "_flush", first_alone)
    monkeypatch.setattr(shop.engine._runs.commits, "_size", 1)
    with pytest.raises(StoreUnavailable):
        await shop.engine._control.act_each([(read[1], Cancel()), (read[0], Cancel())])
    await shop.told()
    assert await shop.state("a") is State.CANCELLED
    assert await shop.state("child") is State.PENDING, "its end was told"


async def test_cancel_of_a_running_task_asks_it_to_stop(shop: Shop) -> None:
    await shop.submit("a")
    (task,) = await shop.claim()
    (acted,) = await shop.engine.cancel(["a"])
    assert (acted.state, acted.changed) == (State.ACTIVE, True)
    assert await shop.engine.report(task, Interrupted()) is State.CANCELLED


async def test_a_completion_after_the_cancel_request_still_completes(shop: Shop) -> None:
    await shop.submit("a")
    (task,) = await shop.claim()
    await shop.engine.cancel(["a"])
    assert await shop.engine.report(task, Complete()) is State.COMPLETED


async def test_a_failure_after_the_cancel_request_is_cancelled(shop: Shop) -> None:
    await shop.submit("a")
    (task,) = await shop.claim()
    await shop.engine.cancel(["a"])
    assert await shop.engine.report(task, Fail(error=TaskError(message="x"))) is State.CANCELLED


async def test_a_forced_cancel_takes_the_run_away(shop: Shop) -> None:
    await shop.submit("a")
    (task,) = await shop.claim()
    (acted,) = await shop.engine.cancel(["a"], force=True)
    assert acted.state is State.CANCELLED
    with pytest.raises(LeaseLost):
        await shop.engine.report(task, Complete())


async def test_cancel_of_what_has_ended_otherwise_is_refused(shop: Shop) -> None:
    await shop.submit("a")
    await shop.run()
    (acted,) = await shop.engine.cancel(["a"])
    assert isinstance(acted.error, InvalidTransition)
    assert acted.state is State.COMPLETED


async def test_an_unknown_id_is_said_to_be_unknown(shop: Shop) -> None:
    (acted,) = await shop.engine.cancel(["absent"])
    assert isinstance(acted.error, TaskNotFound)


async def test_retry_reruns_the_ended_and_hurries_the_waiting(shop: Shop) -> None:
    await shop.submit("ended")
    await shop.run(FAIL)
    await shop.submit("waiting", delay=600.0)
    await shop.submit("pending")
    await shop.submit("running", priority=5)
    await shop.claim()
    acted = await shop.engine.retry(["ended", "waiting", "pending", "running"])
    assert [a.state for a in acted[:3]] == [State.PENDING] * 3
    assert [a.changed for a in acted] == [True, True, False, False]
    assert isinstance(acted[3].error, InvalidTransition)


async def test_a_rerun_starts_the_budget_anew(shop: Shop) -> None:
    await shop.submit("a", options={"max_retries": 1, "retry_delay": None})
    error = Fail(error=TaskError(message="x"))
    await shop.run(error)
    await shop.run(error)
    assert await shop.state("a") is State.FAILED
    await shop.engine.act(["a"], Rerun())
    await shop.run(error)
    assert await shop.state("a") is State.PENDING


async def test_a_rerun_that_keeps_a_spent_budget_gives_one_more_run(shop: Shop) -> None:
    await shop.submit("a", options={"max_retries": 1, "retry_delay": None})
    error = Fail(error=TaskError(message="x"))
    await shop.run(error)
    await shop.run(error)
    await shop.engine.act(["a"], Rerun(keep_budget=True))
    await shop.run(error)
    assert await shop.state("a") is State.FAILED


async def test_a_rerun_may_find_its_unique_key_held(shop: Shop) -> None:
    await shop.submit("a", unique_key="k")
    await shop.run()
    await shop.submit("b", unique_key="k")
    (acted,) = await shop.engine.act(["a"], Rerun())
    assert isinstance(acted.error, UniqueKeyHeld)
    assert await shop.state("a") is State.COMPLETED


async def test_run_now_and_reschedule_move_the_start(shop: Shop) -> None:
    await shop.submit("a", delay=60.0)
    await shop.engine.act(["a"], Reschedule(run_at=START + 5_000))
    await shop.later(5)
    assert await shop.state("a") is State.PENDING
    await shop.engine.act(["a"], Reschedule(run_at=START + 90_000))
    assert await shop.state("a") is State.SCHEDULED
    await shop.engine.act(["a"], RunNow())
    assert [t.id for t in await shop.claim()] == ["a"]


async def test_reprioritise_changes_who_is_next(shop: Shop) -> None:
    await shop.submit("a")
    await shop.submit("b")
    await shop.engine.act(["b"], Reprioritise(priority=3))
    assert [t.id for t in await shop.claim(limit=2)] == ["b", "a"]
    with pytest.raises(InvalidSubmission):
        await shop.engine.act(["a"], Reprioritise(priority=99))


async def test_a_priority_given_while_a_run_is_in_hand_counts_for_the_next_run(shop: Shop) -> None:
    await shop.submit("a", options={"retry_delay": None})
    [run] = await shop.claim()
    [acted] = await shop.engine.act(["a"], Reprioritise(priority=3))
    assert (acted.changed, acted.state, acted.error) == (True, State.ACTIVE, None)
    held = await shop.task("a")
    assert (held.status.run, held.status.priority) == (run.status.run, 3)
    await shop.submit("b", priority=1)
    assert (
        await shop.engine.report(run, Fail(error=TaskError(message="no"), retryable=True))
        is State.PENDING
    )
    assert [t.id for t in await shop.claim(limit=2)] == ["a", "b"]


async def test_a_priority_is_refused_once_the_task_has_ended(shop: Shop) -> None:
    await shop.submit("a")
    [run] = await shop.claim()
    await shop.engine.report(run, Complete())
    [acted] = await shop.engine.act(["a"], Reprioritise(priority=3))
    assert isinstance(acted.error, InvalidTransition)
    assert "It has ended" in str(acted.error)
    assert (await shop.task("a")).status.priority == 0


async def test_a_live_task_is_not_deleted(shop: Shop) -> None:
    await shop.submit("a")
    (acted,) = await shop.engine.act(["a"], Delete())
    assert isinstance(acted.error, InvalidTransition)
    assert "Cancel it first" in str(acted.error)
    assert await shop.state("a") is State.PENDING


@pytest.mark.parametrize(
    "changes",
    [
        {"max_concurent": 3},
        {"max_size": 0},
        {"weight": 0},
        {"rate_limit": 0},
        {"max_concurrent": "three"},
        {"name": "other"},
    ],
)
async def test_a_queue_setting_that_cannot_be_changes_nothing(
    shop: Shop, changes: dict[str, object]
) -> None:
    before = await shop.engine.queues()
    with pytest.raises(ConfigurationError):
        await shop.engine.configure_queue("default", changes)
    assert await shop.engine.queues() == before


async def test_a_waiting_task_is_archived_by_hand_and_resubmitted(shop: Shop) -> None:
    """Whatever its policy says of failures and dead letters."""
    keeps_none = {"dead_letter": "none", "retention": 0, "discard_states": ("failed",)}
    await shop.submit("p")
    await shop.submit("blocked", dependencies=("p",), options=keeps_none)
    await shop.submit("scheduled", delay=60, options=keeps_none)
    await shop.submit("pending", options=keeps_none)
    await shop.submit("other")
    ids = ["blocked", "scheduled", "pending"]
    for _ in range(2):  # a repeat is answered as done
        acted = await shop.engine.act(ids, Archive())
        assert [(one.error, one.state) for one in acted] == [(None, State.FAILED)] * 3
    await shop.told()
    for task_id in ids:
        status = (await shop.task(task_id)).status
        assert (status.state, status.reason) == (State.FAILED, Reason.ARCHIVED_BY_HAND)
    letters = await shop.engine.find(Query(dead_letters=True))
    assert {task.id for task in letters.tasks} == set(ids)
    claimed = await shop.claim(limit=9)
    assert {task.id for task in claimed} == {"p", "other"}
    tally = await act_on_ids(shop.engine, ids, shop.engine.retry, dead_letters=True)
    assert (tally.changed, tally.refused) == (3, 0)
    assert {task.id for task in await shop.claim(limit=9)} == set(ids)


async def test_a_task_between_two_tries_is_archived_and_a_running_one_is_not(shop: Shop) -> None:
    await shop.submit("retry", options={"retry_delay": 60.0})
    await shop.run(Fail(error=TaskError(message="no"), retryable=True))
    await shop.submit("active")
    await shop.claim()
    retry, active = await shop.engine.act(["retry", "active"], Archive())
    assert (retry.error, retry.state) == (None, State.FAILED)
    assert isinstance(active.error, InvalidTransition)
    assert "cancel it first" in str(active.error)
    assert await shop.state("active") is State.ACTIVE


async def test_what_depends_on_an_archived_task_is_unreachable(shop: Shop) -> None:
    await shop.submit("a")
    await shop.submit("child", dependencies=("a",))
    await shop.engine.act(["a"], Archive())
    await shop.told()
    assert await shop.state("child") is State.UNREACHABLE


async def test_runs_of_a_worker_that_is_gone_end_and_are_tried_again(shop: Shop) -> None:
    for task_id in ("a", "b", "c"):
        await shop.submit(task_id, options={"max_retries": 1, "retry_delay": None})
    held = await shop.claim(2, worker="gone")
    [other] = await shop.claim(1, worker="lives")
    acted = await shop.engine.end_runs("gone", ["a", "nowhere", "b", "c"])
    assert [one.changed for one in acted] == [True, False, True, False]
    assert isinstance(acted[1].error, TaskNotFound)
    assert [await shop.state(task.id) for task in held] == [State.PENDING] * 2
    ended = (await shop.task("a")).status.runs[0]
    assert ended.resolved_reason is Reason.WORKER_SHUTDOWN
    for task in held:
        with pytest.raises(LeaseLost):
            await shop.engine.report(task, Complete(result=b"1"))
    assert await shop.engine.report(other, Complete(result=b"1")) is State.COMPLETED
    again = await shop.claim(2, worker="gone")
    await shop.engine.end_runs("gone", [task.id for task in again])
    assert {await shop.state(task.id) for task in again} == {State.STALLED}


async def test_a_run_that_another_worker_began_meanwhile_is_left_alone(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for task_id in ("a", "b"):
        await shop.submit(task_id, options={"max_retries": 9, "retry_delay": None})
    await shop.claim(2, worker="gone")
    read = shop.engine.store.get

    async def read_late(ids: Sequence[str]) -> list[Task | None]:
        """Records as they were before another worker has begun a run of the first."""
        tasks = await read(ids)
        monkeypatch.undo()
        await shop.engine.end_runs("gone", ["a"])
        await shop.claim(1, worker="lives")
        return tasks

    monkeypatch.setattr(shop.engine.store, "get", read_late)
    acted = await shop.engine.end_runs("gone", ["a", "b"])
    assert [one.changed for one in acted] == [False, True]
    task = await shop.task("a")
    assert (task.state, task.status.worker) == (State.ACTIVE, "lives")
