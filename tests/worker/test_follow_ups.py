"""`ctx.follow_up` in handlers of every kind: borne if and only if the run completes."""

import sys
from typing import TYPE_CHECKING, Any

import pytest

from andon import Andon, Context
from andon.client.handle import TaskHandle
from andon.engine.base import Submission
from andon.model.errors import ConfigurationError
from andon.model.task import Task
from andon.model.words import Reason, State

from . import children
from .kit import Kit, error_of, result_of

if TYPE_CHECKING:
    from andon.client.middleware import Middleware

app = Andon("memory://")


@app.task(name="after")
async def after(n: int = 0) -> int:
    return n + 1


async def state(kit: Kit, task_id: str) -> State | None:
    [task] = await kit.local.get([task_id])
    return None if task is None else task.state


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_a_handler_gets_handles_and_its_follow_ups_come_with_its_end(kit: Kit, kind: str):
    def bear(ctx: Context) -> list[str]:
        first = after.draft(1)
        handles = ctx.follow_up(first, after.options(depends_on=first, priority=2).draft(2))
        assert all(isinstance(handle, TaskHandle) for handle in handles)
        [third] = ctx.follow_up(after.draft(3))
        return [*(handle.id for handle in handles), third.id]

    async def bear_async(ctx: Context) -> list[str]:
        return bear(ctx)

    kit.add(bear if kind == "thread" else bear_async, name="bear")
    kit.add(after.type.handler, name="after")
    await kit.start()
    ids = result_of(await kit.run("bear"))
    ended = [await kit.end(task_id) for task_id in ids]
    assert [result_of(task) for task in ended] == [2, 3, 4]
    assert {task.definition.bearer for task in ended} == {"t0"}
    assert ended[1].definition.dependencies == (ids[0],)


async def test_a_run_that_fails_bears_nothing_and_its_retry_bears_its_own(kit: Kit):
    ids: list[str] = []

    async def bear(ctx: Context) -> None:
        [handle] = ctx.follow_up(after.draft())
        ids.append(handle.id)
        if ctx.run == 0:
            raise ValueError("the first time it fails")

    kit.add(bear)
    await kit.start()
    await kit.run("bear", max_retries=1, retry_delay=None)
    await kit.until(ids[1], lambda task: True)
    assert await state(kit, ids[0]) is None


async def test_a_reply_that_is_lost_bears_nothing_twice(kit: Kit):
    async def bear(ctx: Context) -> str:
        return ctx.follow_up(after.options(delay=3600).draft())[0].id

    kit.add(bear)
    kit.engine.losing["report"] = 1
    await kit.start()
    task_id = await kit.submit("bear")
    borne = result_of(await kit.end(task_id))
    assert await kit.until(borne, lambda task: task.state is State.SCHEDULED)
    assert await kit.until(task_id, lambda task: not task.status.owes)
    assert (await kit.local.history(task_id)).events[-1].error is None


async def test_too_many_are_refused_where_the_handler_asks(kit: Kit):
    async def greedy(ctx: Context, size: int) -> None:
        many = [after.draft()] * 101 if not size else [app.draft("x", ["x" * size])]
        ctx.follow_up(*many)

    kit.add(greedy)
    await kit.start()
    for size in (0, 70_000):
        task = await kit.run("greedy", size)
        assert error_of(task)[0] is State.FAILED
        assert "Let one follow-up submit the others" in task.status.last_error.message  # type: ignore[union-attr]


async def test_what_can_never_be_stored_fails_the_run_for_good_and_bears_nothing(kit: Kit):
    async def bear(ctx: Context) -> None:
        ctx.follow_up(after.options(id="good").draft(), app.draft("x", queue="no queue"))

    kit.add(bear)
    await kit.start()
    task = await kit.run("bear", max_retries=3)
    assert (task.state, task.status.reason) == (State.FAILED, Reason.RESULT_INVALID)
    assert "Follow-up" in task.status.last_error.message  # type: ignore[union-attr]
    assert await state(kit, "good") is None


async def test_a_follow_up_passes_the_middleware_of_its_application_and_takes_no_transaction() -> (
    None
):
    class Stamps:
        def on_submit(self, submission: Submission) -> Submission:
            return Submission(id=submission.id, name=submission.name, tags=("stamped",))

    stamped: list[Middleware] = [Stamps()]
    submission, handle = Andon("memory://", middleware=stamped).draft("x").follow()
    assert (submission.tags, handle.id) == (("stamped",), submission.id)
    with pytest.raises(ConfigurationError, match="connection"):
        app.draft("x", connection=object()).follow()


async def test_a_handler_in_a_child_process_bears_through_its_worker(kit: Kit):
    kit.registry = children.registry
    await kit.start(app=f"{children.__name__}:registry")
    borne = result_of(await kit.run("bears", "ends"))
    assert (await kit.until(borne, lambda task: True)).definition.args == b"[7]"
    task = await kit.run("bears", "fails")
    assert task.state is State.FAILED
    task = await kit.run("bears", "cannot be sent")
    assert (task.state, task.status.reason) == (State.FAILED, Reason.RESULT_INVALID)


def command(kit: Kit, script: str) -> None:
    argv = (sys.executable, "-S", "-c", f"import os\nto = os.environ['ANDON_FOLLOW_UPS']\n{script}")
    kit.add(None, name="script", kind="command", argv=argv)


async def joined(kit: Kit, name: str, *args: Any) -> None:
    """A member of a group, and a task that waits for it."""
    await kit.submit(name, *args, id="member", group="flow")
    await kit.submit("close", id="join", dependencies=("member",), load_dependencies=True)


async def added_by(kit: Kit, task_id: str) -> Task:
    """What the one member has added to the task, which waits for it."""
    join = await kit.get(task_id)
    assert join.state is State.BLOCKED
    [added] = join.status.added
    [borne] = added.tasks
    assert added.bearer == "member"
    return await kit.until(borne, lambda task: True)


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_a_handler_lets_a_task_that_waits_for_it_wait_for_a_follow_up(kit: Kit, kind: str):
    def add(ctx: Context) -> str:
        [handle] = ctx.follow_up(after.draft(1), before=app.handle("join"))
        return handle.id

    async def add_async(ctx: Context) -> str:
        return add(ctx)

    def close(ctx: Context) -> dict[str, Any]:
        return {task_id: one.result for task_id, one in ctx.dependencies.items()}

    kit.add(add if kind == "thread" else add_async, name="add")
    kit.add(close)
    kit.add(after.type.handler, name="after")
    await joined(kit, "add")
    await kit.start()
    borne = result_of(await kit.end("member"))
    assert result_of(await kit.end("join")) == {"member": borne, borne: 2}
    assert (await kit.get(borne)).definition.group == "flow"


async def test_a_task_that_waits_for_a_run_no_more_fails_it_and_says_why(kit: Kit):
    async def add(ctx: Context) -> None:
        ctx.follow_up(after.draft(), before="join")

    kit.add(add)
    await joined(kit, "add")
    await kit.local.cancel(["join"])
    await kit.start()
    task = await kit.end("member")
    assert (task.state, task.status.reason) == (State.FAILED, Reason.RESULT_INVALID)
    assert "cannot be waited for by 'join'" in task.status.last_error.message  # type: ignore[union-attr]


async def test_an_id_that_no_task_can_have_is_refused_where_the_handler_asks(kit: Kit):
    async def add(ctx: Context) -> None:
        ctx.follow_up(after.draft(), before="no id")

    kit.add(add)
    await kit.start()
    task = await kit.run("add")
    assert "no id" in task.status.last_error.message  # type: ignore[union-attr]


async def test_a_handler_in_a_child_process_adds_through_its_worker(kit: Kit):
    kit.registry = children.registry
    await joined(kit, "adds", "join")
    await kit.start(app=f"{children.__name__}:registry")
    await kit.end("member")
    assert (await added_by(kit, "join")).definition.args == b"[7]"


async def test_a_command_adds_by_the_header_of_a_line(kit: Kit):
    command(kit, """open(to, 'w').write('{"name": "x", "headers": {"andon-before": "join"}}')""")
    await joined(kit, "script")
    await kit.start()
    await kit.end("member")
    assert (await added_by(kit, "join")).definition.name == "x"


LINES = '{"name": "x", "args": {"n": 1}, "delay": 60}\n\n{"name": "y", "id": "mine"}\n'


@pytest.mark.parametrize("status", [0, 1])
async def test_a_command_writes_its_follow_ups_to_a_file_a_line_each(kit: Kit, status: int):
    command(kit, f"open(to, 'w').write({LINES!r})\nraise SystemExit({status})")
    await kit.start()
    task = await kit.run("script", id=f"t{status}")
    if status:
        assert task.state is State.FAILED
        assert await state(kit, "mine") is None
        return
    result_of(task)
    mine = await kit.until("mine", lambda task: True)
    assert (mine.definition.name, mine.definition.bearer) == ("y", "t0")


@pytest.mark.parametrize("line", ["no json", '{"args": {}}', '{"name": "x", "nothing": 1}'])
async def test_a_line_that_is_no_task_fails_the_command_and_is_named(kit: Kit, line: str):
    command(kit, f"open(to, 'w').write({line!r})")
    await kit.start()
    task = await kit.run("script", max_retries=3)
    assert (task.state, task.status.reason) == (State.FAILED, Reason.RESULT_INVALID)
    assert "Line 1 of $ANDON_FOLLOW_UPS is no task" in task.status.last_error.message  # type: ignore[union-attr]
