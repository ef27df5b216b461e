"""What depends on how a store connects: loops, threads, and programs that end without a word."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import HTTP, stores_by_url
from servers import Servers
from servers.http import PLAIN, service_of

from andon import Andon, State
from andon.model.errors import AndonError, InvalidSubmission, StoreUnavailable, TaskFailed


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "store_kind" in metafunc.fixturenames:
        metafunc.parametrize("store_kind", stores_by_url(metafunc.config))


@pytest.fixture
def url(store_kind: str, servers: Servers, tmp_path: Path) -> Iterator[str]:
    if store_kind == HTTP:
        with service_of(PLAIN, tmp_path) as service:
            yield service.url
    else:
        yield servers.fresh_url(store_kind, tmp_path)


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_a_script_that_never_closes_ends_cleanly(url: str) -> None:
    ran = run(
        f"from andon import Andon\napp = Andon({url!r})\nprint(app.sync.submit('x').status())\n"
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "pending\n", "")


def test_an_async_script_that_never_closes_ends_cleanly(url: str) -> None:
    ran = run(
        "import asyncio\n"
        "from andon import Andon\n"
        f"app = Andon({url!r})\n"
        "async def main():\n"
        "    handle = await app.submit('x')\n"
        "    waiting = asyncio.create_task(handle.result())\n"
        "    await asyncio.sleep(0.05)\n"
        "    print(await handle.status())\n"
        "asyncio.run(main())\n"
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "pending\n", "")


def test_one_loop_after_another_sees_the_same_tasks(url: str) -> None:
    app = Andon(url)

    async def submit() -> str:
        return (await app.submit("x")).id

    async def status(task_id: str) -> State:
        return await app.handle(task_id).status()

    assert asyncio.run(status(asyncio.run(submit()))) is State.PENDING


def test_loops_of_several_threads_do_not_disturb_each_other(url: str) -> None:
    app = Andon(url)

    async def many() -> set[str]:
        handles = await asyncio.gather(*(app.submit("x") for _ in range(20)))
        assert {await handle.status() for handle in handles} == {State.PENDING}
        return {handle.id for handle in handles}

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: asyncio.run(many()), range(4)))
    assert len(set[str]().union(*found)) == 80


def test_the_sync_face_serves_many_threads(url: str) -> None:
    app = Andon(url)
    with app.sync as face, ThreadPoolExecutor(8) as pool:
        handles = list(pool.map(lambda n: face.submit("x", {"n": n}), range(100)))
        states = list(pool.map(lambda handle: handle.cancel(), handles))
    assert states == [State.CANCELLED] * 100


async def test_a_child_of_an_unknown_parent_is_refused_unless_its_policy_keeps_it(
    url: str,
) -> None:
    async with Andon(url) as app:
        with pytest.raises(InvalidSubmission, match="'slip'") as refusal:
            await app.submit("x", depends_on="slip")
        assert refusal.value.field == "dependencies"
        kept = await app.submit("x", depends_on=["slip", "slip"], on_missing_parent="unreachable")
        with pytest.raises(TaskFailed, match=r"unreachable \(dependency-missing\): .*slip"):
            await kept.result(timeout=60)
        drafts = [app.draft("x", id="p", priority=0), app.draft("x", id="c", depends_on="p")]
        drafts.append(app.draft("x", id="alone", depends_on="slip"))
        told = {one.id: one.error async for some in app.submit_stream(drafts) for one in some}
        assert told.pop("alone") is not None
        assert told == {"p": None, "c": None}


async def test_a_stream_is_stored_and_told_in_the_order_given(url: str) -> None:
    async with Andon(url) as app:
        given = [app.draft("x", {"n": n}) for n in range(1_500)]
        given[700] = app.draft("x", delay=60, deadline_in=30)  # late before it may start
        told = [outcome async for some in app.submit_stream(given) for outcome in some]
        assert [outcome.id for outcome in told] == [draft.id for draft in given]
        assert [n for n, outcome in enumerate(told) if outcome.error is not None] == [700]
        stored = {task.id async for task in app.find()}
    assert stored == {draft.id for n, draft in enumerate(given) if n != 700}


def test_a_store_opened_by_many_processes_at_once_is_made_once(url: str) -> None:
    """The first use makes what is missing, whoever else is doing so."""
    script = f"from andon import Andon\nAndon({url!r}).sync.submit('x')\n"
    running = [
        subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    for process in running:
        _, said = process.communicate(timeout=60)
        assert (process.returncode, said) == (0, "")
    with Andon(url).sync as face:
        assert len(list(face.find())) == 6


async def test_who_waits_is_told_when_the_application_is_closed(url: str) -> None:
    app = Andon(url)
    handle = await app.submit("x")
    waiting = [asyncio.ensure_future(handle.result()) for _ in range(2)]
    await asyncio.sleep(0)  # they have begun
    await app.close()
    async with asyncio.timeout(20):
        for one in waiting:
            with pytest.raises(StoreUnavailable, match="was closed"):
                await one


def test_a_thread_that_waits_is_told_when_the_application_is_closed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Andon(url)
    handle = app.sync.submit("x")
    engine, begun = app.engine, threading.Event()

    async def noted() -> Any:
        found = await engine()
        begun.set()  # and the wait follows before the loop does anything else
        return found

    monkeypatch.setattr(app, "engine", noted)
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(handle.result)
        assert begun.wait(20)
        app.sync.close()
        with pytest.raises(AndonError, match="was closed"):
            waiting.result(20)
