"""The sync face: the same methods for threads without an event loop."""

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from andon import Andon, State
from andon.client.function import TaskFunction
from andon.client.handle import TaskHandle
from andon.client.sync import SyncHandle, SyncTaskFunction
from andon.model.errors import AndonError, UniqueKeyHeld
from andon.testing import running, virtual_time


@pytest.fixture
def add(app: Andon):
    @app.task(name="add")
    async def add(x: int, y: int = 0) -> int:
        return x + y

    yield add
    app.sync.close()


def test_a_script_submits_and_asks_without_a_loop(app: Andon, add):
    handle = add.sync.submit(1, y=2)
    assert handle.status() is State.PENDING
    assert handle.get().args == {"x": 1, "y": 2}
    assert handle.cancel() is State.CANCELLED
    assert [event.event for event in handle.history()] == ["submit", "cancel"]


def test_errors_arrive_as_they_are(app: Andon, add):
    unique = add.options(unique_key="k").sync
    unique.submit(1)
    with pytest.raises(UniqueKeyHeld):
        unique.submit(2)
    with pytest.raises(TimeoutError):
        app.sync.submit("nobody").result(timeout=0)


def test_many_threads_share_one_background_loop(app: Andon, add):
    with ThreadPoolExecutor(8) as pool:
        handles = list(pool.map(add.sync.submit, range(100)))
    assert len({handle.id for handle in handles}) == 100
    assert sum(thread.name == "andon-sync" for thread in threading.enumerate()) == 1


def test_iterating_works_from_sync_code(app: Andon, add):
    app.sync.submit_many([add.draft(n) for n in range(5)])
    assert [task.args["x"] for task in app.sync.find()] == [0, 1, 2, 3, 4]
    for task in app.sync.find():  # left early: the generator behind is closed
        assert task.args == {"x": 0}
        break


def test_closing_ends_the_thread_and_a_later_call_starts_anew(tmp_path):
    app = Andon("memory://")
    with app.sync as face:
        face.submit("x")
    assert not [t for t in threading.enumerate() if t.name == "andon-sync"]
    assert app.sync.submit("x").status() is State.PENDING
    app.sync.close()


def test_a_script_that_never_closes_ends_cleanly(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        f"from andon import Andon\n"
        f"app = Andon('sqlite:///{tmp_path}/tasks.db')\n"
        f"print(app.sync.submit('x').status())\n"
    )
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(script)], capture_output=True, text=True, check=True
    )
    assert (ran.stdout, ran.stderr) == ("pending\n", "")


def test_it_refuses_to_stop_a_running_loop(app: Andon, add):
    async def main() -> None:
        with pytest.raises(AndonError, match="Await the async method instead"):
            add.sync.submit(1)

    asyncio.run(main())


@virtual_time
async def test_a_thread_of_the_loop_where_the_application_lives_uses_that_loop(app: Andon, add):
    async with running(app, worker=False) as t:
        handle = await asyncio.to_thread(add.sync.submit, 1)
        assert (await t.task(handle.id)).args == {"x": 1}


@pytest.mark.parametrize(
    ("face", "source", "more"),
    [(SyncHandle, TaskHandle, set()), (SyncTaskFunction, TaskFunction, {"draft", "options"})],
)
def test_every_async_method_has_its_sync_face(face, source, more):
    """A method added to one and forgotten in the other is found here."""
    made = {name for name in vars(face) if not name.startswith("_")} - {"id"}
    there = {
        name for name, value in vars(source).items() if callable(value) and not name.startswith("_")
    }
    assert made == there - more - {"draft_call", "draft_of"}
