"""What depends on how a store connects: loops, threads, and programs that end without a word."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from conftest import HTTP, stores_by_url
from servers import Servers
from servers.http import PLAIN, service_of

from andon import Andon, Context, State
from andon.contract.queries import Query
from andon.model.errors import (
    AndonError,
    InvalidSubmission,
    InvalidTransition,
    StoreUnavailable,
    TaskFailed,
    UniqueKeyHeld,
)


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


async def test_a_waiting_task_is_archived_and_is_a_dead_letter(url: str) -> None:
    async with Andon(url) as app:
        handle = await app.submit("x", delay=600, dead_letter="none")
        assert await handle.archive() is State.FAILED
        view = await handle.get()
        assert view.reason is not None
        assert view.reason.value == "archived-by-hand"
        engine = await app.engine()
        letters = await engine.find(Query(dead_letters=True))
        assert [task.id for task in letters.tasks] == [handle.id]
        [again] = await app.tasks.archive([handle])
        assert (again.error, again.changed) == (None, False)
        assert await handle.retry() is State.PENDING
        assert (await engine.find(Query(dead_letters=True))).tasks == ()


async def test_a_task_is_edited_into_a_successor_and_each_names_the_other(url: str) -> None:
    async with Andon(url) as app:
        handle = await app.submit("x", {"n": 1}, unique=True, tags=["t"])
        successor = await handle.edit(n=2)
        old, new = await handle.get(), await successor.get()
        assert (old.state, old.successor, old.predecessor) == (State.CANCELLED, new.id, None)
        assert (new.state, new.predecessor, new.args) == (State.PENDING, old.id, {"n": 2})
        assert (new.tags, new.unique_key == old.unique_key) == (("t",), False)
        await app.submit("x", {"n": 1}, unique=True)  # its key is free, the successor's is not
        with pytest.raises(UniqueKeyHeld):
            await app.submit("x", {"n": 2}, unique=True)
        with pytest.raises(InvalidTransition, match=successor.id):
            await handle.edit(n=3)
        last = await app.tasks.edit(successor, n=4)
        engine = await app.engine()
        again = await engine.edit(successor.id, b'{"n":4}', last.id)
        assert (again.error, again.created) == (None, False)
        child = await app.submit("x", depends_on=last)
        with pytest.raises(InvalidTransition, match=child.id):
            await last.edit(n=5)


async def test_a_schedule_bears_a_task_and_that_bears_another(url: str) -> None:
    app, heard = Andon(url), list[str]()

    @app.task(name="second")
    async def second(word: str) -> None:
        heard.append(word)

    @app.task(name="first")
    async def first(ctx: Context) -> str:
        [follow_up] = ctx.follow_up(second.draft("borne"))
        return follow_up.id

    async with app:
        await app.schedules.add("nightly", first.draft(), every=86_400)
        async with app.working():
            occurrence = app.handle(await app.schedules.run("nightly"))
            await app.handle(await occurrence.result(timeout=60)).result(timeout=60)
        assert heard == ["borne"]
        last = await app.schedules.get("nightly")
        assert last is not None
        assert (last.state, last.last_id) == (State.RECURRING, occurrence.id)


async def test_the_newest_of_a_schedule_takes_the_place_of_one_that_runs(url: str) -> None:
    app, runs, both = Andon(url), list[str](), asyncio.Event()

    @app.task(name="slow")
    async def slow(ctx: Context) -> str:
        runs.append(ctx.task_id)
        if len(runs) == 2:
            both.set()
            return "done"
        await asyncio.Event().wait()  # until it is cancelled
        return "never"

    async with app:
        await app.schedules.add("often", slow.draft(), every=1, count=2, overlap="replace")
        async with app.working():
            await asyncio.wait_for(both.wait(), 60)
            assert await app.handle(runs[1]).result(timeout=60) == "done"
        older, newer = [await app.handle(run).get() for run in runs]
        assert (older.state, newer.state) == (State.CANCELLED, State.COMPLETED)


async def test_a_retry_policy_is_used_by_its_name(url: str) -> None:
    async with Andon(url) as app:
        await app.policies.set("gentle", max_retries=9, retry_delay=60.0, retry_on=("TIMEOUT",))
        assert await app.policies.list() == {
            "gentle": {"max_retries": 9, "retry_delay": 60.0, "retry_on": ["TIMEOUT"]}
        }
        policy = (await (await app.submit("x", retry="gentle")).get()).policy
        assert (policy.max_retries, policy.retry_on) == (9, ("TIMEOUT",))
        with pytest.raises(InvalidSubmission, match="Did you mean 'gentle'"):
            await app.submit("x", retry="gentel")
        with pytest.raises(InvalidSubmission, match="timeout"):
            await app.policies.set("gentle", timeout=5.0)
        assert await app.policies.delete("gentle")
        assert await app.policies.get("gentle") is None


@pytest.mark.parametrize("crowds", [1, 2])
async def test_a_crowd_at_a_full_queue_that_discards_evicts_as_many_as_come(
    url: str, crowds: int
) -> None:
    """Whoever they are submitted by: each is stored, and each takes the place of another."""
    async with AsyncExitStack() as stack:
        apps = [await stack.enter_async_context(Andon(url)) for _ in range(crowds)]
        await apps[0].queues.configure("small", max_size=250, on_full="discard-old")
        old = [apps[0].draft("x", {"n": n}, queue="small") for n in range(250)]
        await apps[0].submit_many(old)
        for app in apps[1:]:
            await app.queues.list()
        handles = await asyncio.gather(
            *(apps[n % crowds].submit("x", {"new": n}, queue="small") for n in range(200))
        )
        assert len({handle.id for handle in handles}) == 200
        evicted = [task.id async for task in apps[0].tasks.find(state="cancelled")]
        assert sorted(evicted) == sorted(draft.id for draft in old[:200])
        pending = {task.id async for task in apps[0].tasks.find(state="pending")}
        assert pending >= {handle.id for handle in handles}
        assert len(pending) == 250


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
    at_hand, begun = app.connections.at_hand, threading.Event()

    def noted() -> Any:
        begun.set()  # and the wait follows before the loop does anything else
        return at_hand()

    monkeypatch.setattr(app.connections, "at_hand", noted)
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(handle.result)
        try:
            assert begun.wait(20)
        finally:
            app.sync.close()
        with pytest.raises(AndonError, match="was closed"):
            waiting.result(20)


async def test_the_result_of_what_is_discarded_at_its_end_reaches_whoever_submitted(
    url: str,
) -> None:
    """As under asynq, which keeps no completed task; whether or not the record has gone already."""
    app, other = Andon(url), Andon(url)
    discards: Any = {"discard_states": ("completed",)}

    @app.task(name="double")
    async def double(n: int) -> int:
        return 2 * n

    async with app, other, app.working():
        for submitting in (app, other):
            submitted = await submitting.submit("double", {"n": 21}, **discards)
            own = submitting.handle(submitted.id, double)
            async with asyncio.timeout(60):
                assert await own.result() == 42
                assert await app.get(own.id) is None
                assert await own.result() == 42, "asked again, late"
            handles = await submitting.submit_many(
                [submitting.draft("double", {"n": n}, **discards) for n in range(30)]
            )
            async with asyncio.timeout(60):
                results = await asyncio.gather(*(handle.result() for handle in handles))
            assert results == [2 * n for n in range(30)]


async def test_a_flow_passes_results_on_and_is_run_again_where_it_failed(url: str) -> None:
    app = Andon(url)
    is_broken = True

    @app.task(name="load", max_retries=0)
    async def load(part: int) -> int:
        if is_broken and part:
            raise ValueError("no")
        return 10 + part

    @app.task(name="sum")
    def add(parts: list[int], more: int) -> int:
        return sum(parts) + more

    @app.task(name="after")
    async def after(total: int) -> str:
        return f"total {total}"

    with app.flow("load", id="load-1") as flow:
        parts = flow.map(load, range(4))
        flow.add(after, flow.add(add, parts.results, more=1).result)
    async with app, app.working():
        handle = await flow.submit()
        async for task, result in handle.results(parts):
            assert result == (10 if task.state is State.COMPLETED else None)
        async for _ in handle.results():
            pass
        before = await handle.progress()
        assert before.states == {"completed": 1, "failed": 3, "unreachable": 2}
        is_broken = False
        again = await handle.rerun()
        assert (again.changed, again.refused) == (5, 0)
        assert await handle.result(timeout=120) == "total 47"
        assert (await handle.progress()).states == {"completed": 6}
        assert (await (await flow.submit()).progress()).total == 6
        assert [found.id for found in await app.flows.list()] == ["load-1"]
        assert (await handle.cancel()).found == 0


async def test_the_closing_task_of_a_flow_waits_for_what_its_members_add(url: str) -> None:
    """A crawler: what is found on a page is fetched, too, before the report."""
    app = Andon(url)
    links = {"/": ["/a", "/b"], "/a": ["/c"], "/c": ["/d"]}

    @app.task(name="fetch")
    async def fetch(ctx: Context, page: str, closing: str) -> str:
        found = [app.draft("fetch", [link, closing]) for link in links.get(page, ())]
        if found:
            ctx.follow_up(*found, before=closing)
        return page

    @app.task
    async def report(ctx: Context) -> list[str]:
        return sorted(str(page.result) for page in ctx.dependencies.values())

    async with app, app.working():
        with app.flow("crawl") as flow:
            closing = flow.add(report.options(load_dependencies=True))
            flow.chord(flow.add(fetch, "/", closing.id), closing)
        handle = await flow.submit()
        assert await handle.result(timeout=60) == ["/", "/a", "/b", "/c", "/d"]
        progress = await handle.progress()
        assert (progress.total, progress.completed) == (6, 6)
        [first, last] = await handle.tree()
        assert (first.count, last.name, last.after) == (5, report.name, (0,))
