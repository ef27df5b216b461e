"""Flows: put together, checked as a whole, submitted in one call, and asked afterwards."""

import asyncio
import itertools
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from andon import Andon, Context, Flow, State
from andon.lifecycle.commands import Complete, Fail, Terminate
from andon.lifecycle.flows import MOST_MEMBERS
from andon.model.errors import (
    FlowConflict,
    FlowNotFound,
    InvalidSubmission,
    LeaseLost,
)
from andon.model.headers import FLOW_TAG
from andon.model.task import TaskError

from .conftest import claim

TIMEOUT = 120


class Page(msgspec.Struct):
    number: int
    words: int


def declared(app: Andon) -> Any:
    """The tasks that flows here are made of, in a namespace."""

    @app.task(name="fetch")
    async def fetch(number: int, times: int = 100) -> Page:
        return Page(number, number * times)

    @app.task(name="total")
    def total(pages: list[Page], title: str) -> str:
        return f"{title}: {sum(page.words for page in pages)}"

    @app.task(name="publish")
    async def publish(ctx: Context, text: str, copies: int = 1) -> list[str]:
        return [f"{text} ({ctx.args['text']})"] * copies

    @app.task(name="add")
    async def add(first: int, second: int) -> int:
        return first + second

    @app.task(name="fail", max_retries=0)
    async def fail() -> int:
        raise ValueError("no")

    return SimpleNamespace(fetch=fetch, total=total, publish=publish, add=add, fail=fail)


async def stored(app: Andon) -> int:
    return len(await app.tasks.list(limit=20_000))


async def test_results_are_passed_as_arguments(app: Andon) -> None:
    tasks = declared(app)
    with app.flow("pages") as flow:
        pages = flow.map(tasks.fetch, range(1, 21))
        text = flow.add(tasks.total, pages.results, title="Monday")
        flow.add(tasks.publish, text=text.result, copies=2)
    async with app, app.working():
        handle = await flow.submit()
        assert await handle.result(timeout=TIMEOUT) == ["Monday: 21000 (Monday: 21000)"] * 2
        progress = await handle.progress()
    assert (progress.total, progress.completed, progress.percent) == (22, 22, 100)


async def test_results_stand_anywhere_in_an_argument_and_beside_known_ones(app: Andon) -> None:
    tasks = declared(app)

    @app.task(name="show")
    async def show(parts: dict[str, list[Any]], rest: list[int]) -> Any:
        return [parts, rest]

    with app.flow("nested") as flow:
        one, two = flow.add(tasks.add, 1, 2), flow.add(tasks.add, 3, 4)
        like = {"$result": "just a value"}
        flow.add(show, {"a": [one.result, like], "b": [5]}, [two.result, 9, one.result])
    async with app, app.working():
        found = await (await flow.submit()).result(timeout=TIMEOUT)
    assert found == [{"a": [3, like], "b": [5]}, [7, 9, 3]]


async def test_chains_groups_and_chords_are_edges(app: Andon) -> None:
    tasks = declared(app)
    with app.flow("edges") as flow:
        a, b, c, d = (flow.add(tasks.add, number, 0) for number in range(4))
        both = flow.group(flow.chain(a, b), c)
        last = flow.chord(both, d)
        flow.chain(last, flow.map(tasks.fetch, [1, 2]), flow.add(tasks.add, 5, 5))
    async with app:
        handle = await flow.submit()
        by_id = {task.id: task async for task in app.tasks.find(group=handle.id)}
        waits = [by_id[f"{flow.id}:{number}"].dependencies for number in range(7)]
        ids = [f"{flow.id}:{number}" for number in range(7)]
        assert waits == [
            (),
            (ids[0],),
            (),
            (ids[1], ids[2]),
            (ids[3],),
            (ids[3],),
            (ids[4], ids[5]),
        ]
        nodes = [(node.name, node.count, node.after) for node in await handle.tree()]
    assert nodes == [("add", 4, ()), ("fetch", 2, (0,)), ("add", 1, (1,))]


async def test_the_same_flow_is_submitted_once_and_another_of_its_id_is_refused(app: Andon) -> None:
    tasks = declared(app)

    def made(numbers: list[int]) -> Flow:
        with app.flow("pages", id="pages-1") as flow:
            pages = flow.map(tasks.fetch, numbers)
            flow.add(tasks.total, pages.results, "x")
        return flow

    async with app:
        first = await made([1, 2]).submit()
        again = made([1, 2])
        assert (await again.submit()).id == first.id
        await again.submit()
        assert await stored(app) == 3
        for other in ([1, 3], [1, 2, 3], [1]):
            with pytest.raises(FlowConflict, match="exists with other tasks"):
                await made(other).submit()
        assert await stored(app) == 3
        [found] = await app.flows.list()
        assert (found.id, found.name, found.members) == ("pages-1", "pages", 3)
        await app.submit("add", [1, 2], group="pages-2", id="elsewhere")
        taken = app.flow("pages", id="pages-2")
        taken.map(tasks.fetch, [1])
        with pytest.raises(FlowConflict):
            await taken.submit()
        assert FLOW_TAG in (await app.handle("pages-1:0").get()).tags


def circle(app: Andon, tasks: Any) -> None:
    with app.flow("f") as flow:
        a, b, c = (flow.add(tasks.add, number, 0) for number in range(3))
        flow.chain(a, b, c, a)


def foreign_result(app: Andon, tasks: Any) -> None:
    other = app.flow("other").add(tasks.add, 1, 2)
    app.flow("f").add(tasks.add, 1, other.result)


def foreign_step(app: Andon, tasks: Any) -> None:
    other = app.flow("other").add(tasks.add, 1, 2)
    flow = app.flow("f")
    flow.chain(flow.add(tasks.add, 1, 2), other)


def wrong_type(app: Andon, tasks: Any) -> None:
    flow = app.flow("f")
    flow.add(tasks.add, 1, flow.add(tasks.publish, "x").result)


def wrong_items(app: Andon, tasks: Any) -> None:
    flow = app.flow("f")
    flow.add(tasks.total, flow.map(tasks.publish, ["x"]).results, "x")


def wrong_neighbour(app: Andon, tasks: Any) -> None:
    flow = app.flow("f")
    flow.add(tasks.add, "one", flow.add(tasks.add, 1, 2).result)


def too_many(app: Andon, tasks: Any) -> None:
    flow = app.flow("f")
    flow.map(tasks.fetch, itertools.count())


def too_many_edges(app: Andon, tasks: Any) -> None:
    flow = app.flow("f")
    flow.chain(flow.map(tasks.fetch, range(400)), flow.map(tasks.fetch, range(400)))


def outside(app: Andon, tasks: Any) -> None:
    tasks.add.draft(1, app.flow("f").add(tasks.add, 1, 2).result)


def nothing(app: Andon, tasks: Any) -> None:
    with app.flow("f"):
        pass


def group_given(app: Andon, tasks: Any) -> None:
    app.flow("f").add(tasks.add.options(group="mine"), 1, 2)


def twice_one_id(app: Andon, tasks: Any) -> None:
    flow = app.flow("f")
    for _ in range(2):
        flow.add(tasks.add.options(id="a"), 1, 2)


def too_many_needed(app: Andon, tasks: Any) -> None:
    with app.flow("f") as flow:
        flow.chord(flow.map(tasks.fetch, [1, 2]), flow.add(tasks.add, 1, 1), needs=3)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (too_many_needed, "needs 3 of the 2 tasks that it waits for"),
        (circle, "These tasks wait for one another in a circle: f-"),
        (foreign_result, "which is of another flow"),
        (foreign_step, "a chain or group joins steps of one flow"),
        (wrong_type, r"Argument 'second' takes int, and .* is list\[str\]"),
        (wrong_items, r"Argument 'pages' takes list\[.*Page\], and .* is list\[list\[str\]\]"),
        (wrong_neighbour, "Argument 'first': Expected `int`, got `str`"),
        (too_many, f"A flow has at most {MOST_MEMBERS:,} tasks"),
        (too_many_edges, "More than 100,000 pairs of tasks wait for one another"),
        (outside, "Add this call with flow.add"),
        (nothing, "has no tasks"),
        (group_given, "has the option group, which a flow sets itself"),
        (twice_one_id, "Two tasks of the flow have the id 'a'"),
        (lambda app, tasks: app.flow("two words"), "The name of a flow is 1 to 24 of"),
        (lambda app, tasks: app.flow("f", id="x" * 58), "The id of a flow is 1 to 57 of"),
    ],
)
async def test_what_can_never_work_is_one_clear_sentence(app: Andon, wrong: Any, said: str) -> None:
    tasks = declared(app)
    async with app:
        with pytest.raises(InvalidSubmission, match=said):
            wrong(app, tasks)
        assert await stored(app) == 0


async def test_the_closing_task_runs_with_as_many_as_it_needs(app: Andon) -> None:
    tasks = declared(app)
    with app.flow("some") as flow:
        pages = flow.map(tasks.fetch, [1, 2])
        bad = flow.add(tasks.fail)
        both = flow.chord(flow.group(bad, pages), flow.add(tasks.add, 2, 2), needs=2)
        flow.chord(flow.group(bad, pages), flow.add(tasks.add.options(needs=3), 3, 3))
    async with app, app.working():
        handle = await flow.submit()
        ended = {task.id: task async for task, _ in handle.results()}
        assert await app.handle(both.id).result(timeout=TIMEOUT) == 4
    assert [task.state for task in ended.values()].count(State.UNREACHABLE) == 1
    assert ended[both.id].needs == 2


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_a_run_fans_out_a_flow_and_only_that_of_the_run_that_completes_runs(
    app: Andon, kind: str
) -> None:
    tasks = declared(app)

    def put_together(flow: Flow, run: int) -> None:
        pages = flow.map(tasks.fetch, range(1, 21))
        flow.add(tasks.total, pages.results, title=f"run {run}")
        flow.add(tasks.fail.options(requires="all-resolved", depends_on=[*pages]))

    async def scan_async(ctx: Context) -> str:
        with app.flow("pages") as flow:
            put_together(flow, ctx.run)
        handle = await ctx.fan_out(flow)
        return _once_more(ctx, handle.id)

    def scan_in_a_thread(ctx: Context) -> str:
        with app.sync.flow("pages") as flow:
            put_together(flow, ctx.run)
        return _once_more(ctx, ctx.fan_out(flow).id)

    handler: Any = scan_async if kind == "async" else scan_in_a_thread
    scan = app.task(name="scan", retry_delay=None)(handler)
    async with app, app.working():
        flow_id = await (await scan.submit()).result(timeout=TIMEOUT)
        flows = {flow.id: app.flows.handle(flow.id) for flow in await app.flows.list()}
        ended = {one: [task async for task, _ in flows[one].results()] for one in flows}
        assert len(ended) == 2
        assert [task.state for task in ended.pop(flow_id)].count(State.COMPLETED) == 21
        [left] = ended.values()
    assert {task.state for task in left} == {State.CANCELLED, State.UNREACHABLE}
    assert {task.reason for task in left if task.state is State.CANCELLED} == {"superseded-run"}


def _once_more(ctx: Context, flow_id: str) -> str:
    if ctx.run == 0:
        raise ValueError("once more")
    return flow_id


async def test_what_a_run_cannot_fan_out_is_said_in_a_sentence(app: Andon) -> None:
    tasks = declared(app)
    said: dict[str, str] = {}

    @app.task(name="scan")
    async def scan(ctx: Context) -> None:
        own, needs = app.flow("own", id="mine"), app.flow("needs")
        own.add(tasks.add, 1, 2)
        needs.add(tasks.add.options(depends_on=[ctx.task_id, "other"], needs=1), 1, 2)
        circle = app.flow("none")
        for flow in (own, needs, circle):
            try:
                await ctx.fan_out(flow)
            except InvalidSubmission as error:
                said[flow.name] = str(error)
        ctx.stop_reason = "lease-lost"
        try:
            await ctx.fan_out(own)
        except LeaseLost as error:
            said["lost"] = error.task_id
        ctx.stop_reason = ""

    async with app, app.working():
        task = await scan.submit()
        await task.result(timeout=TIMEOUT)
        assert await stored(app) == 1, "nothing was changed"
    assert said["lost"] == task.id
    assert "every run that fans it out makes another; leave id= out" in said["own"]
    assert "let a task of this flow wait for those" in said["needs"]
    assert "has no tasks" in said["none"]


async def test_the_closing_task_names_the_member_that_failed(app: Andon) -> None:
    tasks = declared(app)
    with app.flow("bad") as flow:
        bad = flow.add(tasks.fail)
        good = flow.map(tasks.fetch, [1, 2])
        closing = flow.chord(flow.group(bad, good), flow.add(tasks.add, 1, 1))
    async with app, app.working():
        handle = await flow.submit()
        ended = {task.id: task async for task, _ in handle.results()}
    assert ended[closing.id].state is State.UNREACHABLE
    error = ended[closing.id].error
    assert error is not None
    assert bad.id in error.message


async def test_what_did_not_complete_is_run_again_with_what_follows_it(app: Andon) -> None:
    broken = True

    @app.task(name="load", max_retries=0)
    async def load(part: int) -> int:
        if broken and part == 1:
            raise ValueError("no")
        return part

    @app.task(name="sum")
    async def total(parts: list[int]) -> int:
        return sum(parts)

    with app.flow("load") as flow:
        parts = flow.map(load, range(3))
        flow.chain(flow.add(total, parts.results), flow.add(total, parts.results))
    async with app, app.working():
        handle = await flow.submit()
        async for _ in handle.results():
            pass
        before = await handle.progress()
        broken = False
        again = await handle.rerun()
        assert await handle.result(timeout=TIMEOUT) == 3
        async for _ in handle.results():
            pass
        after = await handle.progress()
    assert before.states == {"completed": 2, "failed": 1, "unreachable": 2}
    assert (again.changed, again.refused) == (3, 0)
    assert after.states == {"completed": 5}


async def test_a_flow_is_cancelled_from_its_end(app: Andon) -> None:
    tasks = declared(app)
    with app.flow("long") as flow:
        flow.chord(flow.map(tasks.fetch, [1, 2]), flow.add(tasks.add, 1, 1))
    async with app:
        handle = await flow.submit()
        assert (await handle.cancel()).changed == 3
        assert (await handle.progress()).states == {"cancelled": 3}
        again = await handle.rerun()
        assert again.changed == 3
        assert (await handle.progress()).states == {"blocked": 1, "pending": 2}


async def test_results_come_as_tasks_end(app: Andon) -> None:
    tasks = declared(app)
    with app.flow("stream") as flow:
        pages = flow.map(tasks.fetch, [1, 2])
        flow.chord(pages, flow.add(tasks.add, 1, 1))
    async with app:
        engine = await app.engine()
        handle = await flow.submit()
        stream = handle.results(pages)
        first = asyncio.ensure_future(anext(stream))
        task = await claim(engine)
        await engine.report(task, Complete(result=b'{"number": 1, "words": 7}'))
        found, result = await asyncio.wait_for(first, TIMEOUT)
        assert (found.id, result) == (task.id, Page(1, 7))
        other = await claim(engine)
        await engine.report(other, Terminate(error=TaskError(message="no")))
        found, result = await asyncio.wait_for(anext(stream), TIMEOUT)
        assert (found.state, result) == (State.FAILED, None)
        with pytest.raises(StopAsyncIteration):
            await anext(stream)


async def test_a_rerun_that_was_cut_short_is_finished_by_the_next(
    app: Andon, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = declared(app)
    with app.flow("cut") as flow:
        a = flow.add(tasks.add, 1, 1)
        b = flow.add(tasks.add, a.result, 1)
        flow.add(tasks.add, b.result, 1)
    async with app:
        engine = await app.engine()
        handle = await flow.submit()
        no = Fail(error=TaskError(message="no"), retryable=False)
        await engine.report(await claim(engine), no)
        await settled(handle, {"failed": 1, "unreachable": 2})
        act, calls = engine.act, 0

        async def dies(*args: Any, **more: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == 2:
                raise ConnectionError("killed")
            return await act(*args, **more)

        with monkeypatch.context() as patch:
            patch.setattr(engine, "act", dies)
            with pytest.raises(ConnectionError):
                await handle.rerun()
        assert (await handle.progress()).states == {"pending": 1, "unreachable": 2}
        assert (await handle.rerun()).changed == 2
        async with app.working():
            assert await handle.result(timeout=TIMEOUT) == 4


async def test_a_rerun_cut_short_runs_again_what_had_completed_after_what_failed(
    app: Andon,
) -> None:
    tasks = declared(app)
    with app.flow("after") as flow:
        bad = flow.add(tasks.add, 1, 1)
        closing = flow.chord(bad, flow.add(tasks.add.options(requires="all-resolved"), 5, 5))
    async with app:
        engine = await app.engine()
        handle = await flow.submit()
        no = Fail(error=TaskError(message="no"), retryable=False)
        await engine.report(await claim(engine), no)
        await settled(handle, {"pending": 1, "failed": 1})
        await engine.report(await claim(engine), Complete(result=b"10"))
        await app.tasks.rerun([bad.id])  # and then whoever reran the flow was killed
        assert (await handle.rerun()).changed == 1
        assert await app.handle(closing.id).status() is State.BLOCKED


async def settled(handle: Any, states: dict[str, int]) -> None:
    """Wait until the flow's tasks are in these states."""
    async with asyncio.timeout(TIMEOUT):
        while (await handle.progress()).states != states:  # noqa: ASYNC110 - told in background
            await asyncio.sleep(0.01)


async def test_a_flow_that_nobody_submitted_is_not_found(app: Andon) -> None:
    async with app:
        for ask in ("progress", "tree", "cancel", "rerun", "result"):
            with pytest.raises(FlowNotFound, match="There is no flow 'nowhere'"):
                await getattr(app.flows.handle("nowhere"), ask)()


def test_the_sync_face_has_the_same(app: Andon) -> None:
    tasks = declared(app)
    with app.sync as store, app.sync.flow("pages") as flow:
        flow.add(tasks.total, flow.map(tasks.fetch, [1, 2]).results, "x")
        handle = flow.submit()
        assert [node.name for node in handle.tree()] == ["fetch", "total"]
        assert [found.id for found in store.flows.list()] == [handle.id]
        assert handle.cancel().changed == 3
        assert {task.state for task, _ in handle.results()} == {State.CANCELLED}


async def test_commands_are_given_results_too(app: Andon) -> None:
    tasks = declared(app)
    echo = app.command("echo", ["cat"])
    with app.flow("kinds") as flow:
        three = flow.add(tasks.add, 1, 2)
        flow.add(echo, number=three.result, words=["a"])
    async with app, app.working():
        handle = await flow.submit()
        assert await handle.result(timeout=TIMEOUT) == {"number": 3, "words": ["a"]}
