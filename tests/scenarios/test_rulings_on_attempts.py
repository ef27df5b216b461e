"""cbintel's words for attempts and statuses (docs/rulings.md, R22), and submissions that are not
valid (docs/rulings.md, R25)."""

import pytest

from andon.model.errors import InvalidSubmission
from andon.model.words import Reason, State

from .apps.cbintel import crawl
from .stage import Scene

APP = "scenarios.apps.cbintel:app"

BEGUN = ("PENDING", "QUEUED", "PROCESSING")
AGAIN = ("FAILED", "QUEUED", "PROCESSING")


async def test_r22_attempts_are_retries_used_and_attempt_is_the_ordinal_of_the_run(
    scene: Scene,
) -> None:
    handle = await crawl.options(retry_delay=0.05).submit(2)
    history = await scene.sees(handle, *BEGUN, *AGAIN, *AGAIN, "COMPLETED")
    assert [entry["attempt"] for entry in history if "attempt" in entry] == [2, 3]
    assert (await scene.record(handle))["attempts"] == 2


async def test_r22_the_first_run_has_used_no_attempt(scene: Scene) -> None:
    handle = await crawl.submit(0)
    history = await scene.sees(handle, *BEGUN, "COMPLETED")
    assert not any("attempt" in entry for entry in history)
    assert (await scene.record(handle))["attempts"] == 0


async def test_r22_a_job_that_waits_for_its_retry_is_queued(scene: Scene) -> None:
    handle = await crawl.submit(1)
    await scene.reaches(handle, State.RETRY)
    assert await scene.state(handle) == "QUEUED"
    history = await scene.sees(handle, *BEGUN, "FAILED")
    assert history[-1]["error"] == "Connection timeout to upstream server"
    await handle.cancel()


async def test_r25_an_invalid_submission_is_recorded_as_failed(scene: Scene) -> None:
    task_id = scene.new("job")
    with pytest.raises(InvalidSubmission):
        await scene.stage.app.submit("crawl", {"depth": 3}, id=task_id)
    await scene.sees(task_id, "PENDING", "FAILED")
    task = await scene.get(task_id)
    assert task.status.reason is Reason.VALIDATION_ERROR
    assert task.status.runs == ()


async def test_r25_where_the_policy_refuses_nothing_is_stored(scene: Scene) -> None:
    task_id = scene.new("job")
    with pytest.raises(InvalidSubmission):
        await scene.stage.app.submit("crawl", {"depth": 3}, id=task_id, on_invalid="refuse")
    assert await scene.engine.get([task_id]) == [None]
