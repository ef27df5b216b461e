"""What a handler can do (docs/rulings.md, R24), how its errors are named (docs/rulings.md, R23),
and what it may say (docs/rulings.md, R15)."""

from typing import Any

import pytest
from processes import PATIENCE

from andon.engine.base import Submission
from andon.model.errors import InvalidSubmission
from andon.model.words import Event, Reason, State

from .apps.native import (
    cancel_itself,
    die,
    hold_command,
    interrupt,
    large_result,
    odd_progress,
    odd_result,
    quit_in_process,
    quit_in_thread,
    quit_the_process,
    snooze,
    time_out_itself,
    work,
)
from .stage import Scene

APP = "scenarios.apps.native:app"

BEGUN = ("pending", "active")


async def ends(scene: Scene, task: Any, *args: Any, **options: Any) -> tuple[Any, ...]:
    """State, reason and error code of a task that is given no retry."""
    handle = await task.options(max_retries=0, **options).submit(*args)
    status = (await scene.end(handle)).status
    return status.state, status.reason, status.last_error.code if status.last_error else None


@pytest.mark.parametrize(
    ("task", "code"),
    [
        (quit_the_process, "SystemExit"),
        (quit_in_thread, "SystemExit"),
        (quit_in_process, "SystemExit"),
        (interrupt, "KeyboardInterrupt"),
        (cancel_itself, "CancelledError"),
        (time_out_itself, "TimeoutError"),
        (odd_progress, "ValueError"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
async def test_r24_whatever_a_handler_raises_fails_its_run_and_no_more(
    scene: Scene, task: Any, code: str
) -> None:
    assert await ends(scene, task) == (State.FAILED, Reason.ERROR, code)
    assert await (await work.submit(5)).result(PATIENCE) == 5


@pytest.mark.parametrize("task", [quit_the_process, cancel_itself, time_out_itself])
async def test_r24_it_is_retried_like_any_error(scene: Scene, task: Any) -> None:
    handle = await task.options(max_retries=1).submit()
    await scene.sees(handle, *BEGUN, "retry", *BEGUN, "failed")
    assert (await scene.get(handle)).status.reason is Reason.RETRIES_EXHAUSTED


@pytest.mark.parametrize("task", [odd_result, large_result], ids=lambda task: task.name)
async def test_r24_a_result_that_cannot_be_stored_is_not_retried(scene: Scene, task: Any) -> None:
    handle = await task.options(max_retries=5).submit()
    await scene.sees(handle, *BEGUN, "failed")
    assert (await scene.get(handle)).status.reason is Reason.RESULT_INVALID


@pytest.mark.parametrize("status", [0, 7], ids=["killed", "exited"])
async def test_r24_a_dead_child_process_counts_as_a_try(scene: Scene, status: int) -> None:
    handle = await die.options(max_retries=1).submit(status)
    await scene.sees(handle, *BEGUN, "retry", *BEGUN, "failed")
    task = await scene.get(handle)
    assert task.status.tries == 2
    assert [run.resolved_reason for run in task.status.runs] == [Reason.INTERNAL_ERROR] * 2


@pytest.mark.parametrize(
    ("exit_code", "event", "state", "reason"),
    [
        (0, Event.COMPLETE, State.COMPLETED, Reason.SUCCESS),
        (64, Event.TERMINATE, State.FAILED, Reason.TERMINATED),
        (65, Event.REJECT, State.FAILED, Reason.MALFORMED_PAYLOAD),
        (75, Event.FAIL, State.RETRY, Reason.INTERMITTENT_TASK),
        (85, Event.SNOOZE, State.SCHEDULED, Reason.SNOOZED),
        (1, Event.FAIL, State.RETRY, Reason.ERROR),
    ],
)
async def test_r24_the_exit_code_of_a_command_says_how_it_went(
    scene: Scene, *, exit_code: int, event: Event, state: State, reason: Reason
) -> None:
    handle = await hold_command.options(retry_delay=3600.0).submit(exit=exit_code, say=60)
    task = await scene.when(handle, lambda task: task.status.revision >= 3)
    assert (task.state, task.status.reason) == (state, reason)
    assert task.status.runs[0].resolved_event is event
    assert task.status.tries == (0 if state is State.SCHEDULED else 1)


async def test_r24_what_a_command_prints_is_its_result(scene: Scene) -> None:
    handle = await hold_command.submit(say={"pages": 3})
    assert (await scene.end(handle)).result == b'{"pages":3}'


async def test_r23_arguments_that_do_not_fit_are_malformed_and_not_retried(scene: Scene) -> None:
    task_id = scene.new("task")
    malformed = Submission(id=task_id, name="work", args=b'{"value": "no number"}')
    await scene.engine.submit([malformed])
    await scene.sees(task_id, *BEGUN, "failed")
    status = (await scene.get(task_id)).status
    assert status.reason is Reason.MALFORMED_PAYLOAD
    assert status.last_error is not None
    assert status.last_error.code == "VALIDATION_ERROR"


async def test_r24_arguments_that_are_no_json_are_malformed(scene: Scene) -> None:
    task_id = scene.new("task")
    [sent] = await scene.engine.submit([Submission(id=task_id, name="work", args=b"{")])
    if sent.error is not None:  # a service looks at what comes in, and stores nothing
        assert isinstance(sent.error, InvalidSubmission)
        return
    await scene.sees(task_id, *BEGUN, "failed")
    assert (await scene.get(task_id)).status.reason is Reason.MALFORMED_PAYLOAD


async def test_a_snooze_costs_no_try(scene: Scene) -> None:
    handle = await snooze.options(max_retries=0).submit()
    await scene.sees(handle, *BEGUN, "scheduled", *BEGUN, "completed")
    assert (await scene.get(handle)).status.tries == 1
