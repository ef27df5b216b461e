"""Two applications on one store, in worker processes of their own, with nothing set
(docs/rulings.md, R32)."""

import contextlib
from collections.abc import Iterator
from typing import Any

import msgspec
from processes import WorkerProcess

from andon.engine.base import Submission
from andon.lifecycle.waiting import Why
from andon.model.task import Task
from andon.model.words import State

from .stage import Scene, Stage, until_true

APP = "scenarios.apps.shop:app"
NEWER = "scenarios.apps.shop:newer"
MAIL = "scenarios.apps.mail:app"


@contextlib.contextmanager
def working(stage: Stage, *places: str) -> Iterator[list[WorkerProcess]]:
    """A worker process of each application."""
    with contextlib.ExitStack() as stack:
        workers: list[WorkerProcess] = []
        for number, place in enumerate(places):
            id = f"worker-{next(stage.numbers)}-{number}"
            worker = WorkerProcess(place, stage.url, stage.folder, id=id, queue="default")
            stack.callback(worker.close)
            workers.append(worker)
        yield workers


def submission(n: int, name: str, version: int = 0) -> Submission:
    args = msgspec.json.encode([n])
    return Submission(
        id=f"{name.replace('.', '-')}-{version}-{n}", name=name, version=version, args=args
    )


def result_of(task: Task) -> Any:
    assert task.state is State.COMPLETED, task.status
    assert task.result is not None
    return msgspec.json.decode(task.result)


async def waits_for_code(scene: Scene, task_id: str) -> str:
    """What a task waits for, once the workers that ask its queue have told of themselves."""
    said: list[str] = []

    async def named() -> bool:
        wait = await scene.engine.wait_of(await scene.get(task_id))
        if wait is not None and wait.why is Why.NO_CODE:
            said.append(wait.text)
        return bool(said)

    await until_true(named)
    return said[0]


async def test_of_two_applications_each_runs_its_own_tasks_at_one_try_each(
    bare_stage: Stage,
) -> None:
    async with bare_stage.scene() as scene:
        with working(bare_stage, APP, MAIL) as workers:
            for worker in workers:
                await scene.says(worker, "running")
            tasks = [
                submission(n, name) for n in range(100) for name in ("shop.charge", "mail.send")
            ]
            for done in await scene.engine.submit(tasks):
                assert done.error is None
            for one in tasks:
                task = await scene.end(one.id)
                told = "charged" if one.name == "shop.charge" else "sent to"
                assert result_of(task).startswith(told)
                assert (task.status.tries, len(task.status.runs)) == (1, 1)


async def test_a_task_whose_application_is_away_waits_and_runs_as_soon_as_it_is_there(
    bare_stage: Stage,
) -> None:
    async with bare_stage.scene() as scene:
        with working(bare_stage, MAIL) as [mail]:
            await scene.says(mail, "running")
            waiting, other = submission(1, "shop.charge"), submission(2, "mail.send")
            await scene.engine.submit([waiting, other])
            await scene.end(other.id)
            said = await waits_for_code(scene, waiting.id)
            assert said == "waits for a worker that has shop.charge"
            task = await scene.get(waiting.id)
            assert (task.state, task.status.tries, task.status.revision) == (State.PENDING, 0, 1)
            with working(bare_stage, APP):
                task = await scene.end(waiting.id)
            assert result_of(task) == "charged 1"
            assert (task.status.tries, len(task.status.runs)) == (1, 1)
            assert await scene.moves(waiting.id) == ["submit", "claim", "complete"]


async def test_a_deploy_takes_a_version_away_and_another_brings_it_back(bare_stage: Stage) -> None:
    async with bare_stage.scene() as scene:
        old, new = submission(1, "shop.charge"), submission(1, "shop.charge", 2)
        with working(bare_stage, NEWER) as [newer]:
            await scene.says(newer, "running")
            await scene.engine.submit([old, new])
            assert result_of(await scene.end(new.id)) == "charged 1 twice"
            said = await waits_for_code(scene, old.id)
            assert said == "waits for a worker that has shop.charge"
            with working(bare_stage, APP):
                assert result_of(await scene.end(old.id)) == "charged 1"
