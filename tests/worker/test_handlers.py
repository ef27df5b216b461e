"""What a handler returns or raises decides how its run ends."""

import asyncio
import threading
from datetime import date
from typing import Any

import pytest

from andon.model.words import Event, Reason, State
from andon.worker.context import Context, current
from andon.worker.control import Retry, Snooze, Stopped, Terminate

from .kit import Kit, error_of, last_run, result_of


class Coded(Exception):
    code = "QUOTA"


def raiser(error: BaseException) -> Any:
    async def fails() -> None:
        raise error

    return fails


def thread_raiser(error: BaseException) -> Any:
    def fails() -> None:
        raise error

    return fails


async def test_an_async_handler_gets_its_arguments_and_its_result_is_kept(kit: Kit):
    async def add(a: int, b: int = 2) -> int:
        return a + b

    kit.add(add)
    await kit.start()
    assert result_of(await kit.run("add", 1)) == 3


async def test_a_sync_handler_runs_in_a_thread_of_its_own(kit: Kit):
    main = threading.get_ident()

    def elsewhere(day: date) -> tuple[int, bool]:
        return day.year, threading.get_ident() != main

    kit.add(elsewhere)
    await kit.start()
    assert result_of(await kit.run("elsewhere", "2030-05-01")) == [2030, True]


async def test_a_handler_for_which_no_thread_is_to_be_had_does_not_run_later(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
):
    ran: list[int] = []

    def note(number: int) -> int:
        ran.append(number)
        return number

    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith("andon-handler"):
            raise RuntimeError("can't start new thread")
        start(thread)

    kit.add(note)
    await kit.start()
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        task = await kit.run("note", 1)
    assert (task.state, task.status.reason) == (State.FAILED, Reason.INTERNAL_ERROR)
    assert task.status.last_error is not None
    assert "no thread to be had" in task.status.last_error.message
    assert result_of(await kit.run("note", 2)) == 2
    assert ran == [2]


async def test_the_context_says_which_run_it_is(kit: Kit):
    async def who(ctx: Context) -> list[Any]:
        assert current() is ctx
        return [ctx.task_id, ctx.name, ctx.run, ctx.attempt, ctx.fence > 0, ctx.args]

    def who_in_thread() -> str:
        return current().task_id

    kit.add(who)
    kit.add(who_in_thread)
    await kit.start()
    task = await kit.run("who", id="x")
    assert result_of(task) == ["x", "who", 0, 1, True, []]
    assert result_of(await kit.run("who_in_thread", id="y")) == "y"


def test_there_is_no_current_context_outside_of_a_handler():
    with pytest.raises(LookupError, match="No task runs here"):
        current()


@pytest.mark.parametrize("make", [raiser, thread_raiser])
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError("no"), "ValueError"),
        (Coded("no"), "QUOTA"),
        (ConnectionResetError("gone"), "NETWORK_ERROR"),
        (TimeoutError("mine"), "TimeoutError"),
        (asyncio.CancelledError(), "CancelledError"),
        (SystemExit("bye"), "SystemExit"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (GeneratorExit(), "GeneratorExit"),
        (StopIteration(), "StopIteration"),
        (BaseException("odd"), "BaseException"),
        (Stopped("nobody asked"), "Stopped"),
    ],
)
async def test_whatever_a_handler_raises_fails_its_run_and_the_worker_lives(
    kit: Kit, make: Any, error: BaseException, code: str
):
    async def fine() -> int:
        return 1

    kit.add(fine)
    kit.add(make(error))
    await kit.start()
    state, reason, seen = error_of(await kit.run("fails"))
    assert (state, reason) == (State.FAILED, Reason.ERROR)
    assert seen in (code, "RuntimeError")  # raised where no coroutine can pass it on
    assert result_of(await kit.run("fine")) == 1


async def test_a_handler_that_cancels_its_own_task_fails_or_completes_but_is_reported(kit: Kit):
    async def waits() -> None:
        asyncio.current_task().cancel()  # type: ignore[union-attr]
        await asyncio.sleep(0)

    async def returns() -> int:
        asyncio.current_task().cancel()  # type: ignore[union-attr]
        return 5

    kit.add(waits)
    kit.add(returns)
    await kit.start()
    assert error_of(await kit.run("waits"))[2] == "CancelledError"
    assert result_of(await kit.run("returns")) == 5


async def test_a_traceback_is_kept_and_bounded(kit: Kit):
    def deep(n: int) -> None:
        if n == 0:
            raise ValueError("x" * 100_000 + "\ud800")
        deep(n - 1)

    kit.add(deep)
    await kit.start()
    error = (await kit.run("deep", 50)).status.last_error
    assert error is not None
    assert error.type == "ValueError"
    assert "deep" in error.traceback or error.traceback.endswith("ud800\n")
    assert len(error.traceback.encode()) <= 16 * 1024
    assert len(error.message) <= 4096


async def test_an_exception_that_cannot_be_shown_fails_the_run_all_the_same(kit: Kit):
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    kit.add(raiser(Mute()))
    await kit.start()
    assert error_of(await kit.run("fails"))[2] == "Mute"


async def test_terminate_gives_up_whatever_the_budget(kit: Kit):
    kit.add(raiser(Terminate("useless")))
    await kit.start()
    task = await kit.run("fails", options={"max_retries": 5})
    assert (task.state, task.status.reason) == (State.FAILED, Reason.TERMINATED)
    assert task.status.last_error is not None
    assert task.status.last_error.message == "useless"


async def test_snooze_starts_the_task_again_later_at_no_cost(kit: Kit):
    async def naps(ctx: Context) -> int:
        if ctx.run == 0:
            ctx.snooze(0.01)
        return ctx.attempt

    kit.add(naps)
    kit.local.keep_time()
    await kit.start()
    task = await kit.run("naps")
    assert result_of(task) == 1
    assert task.status.runs[0].resolved_event is Event.SNOOZE


async def test_retry_runs_again_after_the_delay_it_names(kit: Kit):
    async def again(ctx: Context) -> int:
        if ctx.run == 0:
            raise Retry(delay=0.01, message="not yet")
        return ctx.attempt

    kit.add(again)
    kit.local.keep_time()
    await kit.start()
    task = await kit.run("again", options={"retry_delay": 3600, "backoff": "constant"})
    assert result_of(task) == 2
    assert task.status.runs[0].resolved_reason is Reason.INTERMITTENT_TASK


@pytest.mark.parametrize("make", [lambda: Snooze(-1), lambda: Retry(float("nan"))])
def test_a_delay_that_cannot_be_is_refused_where_it_is_given(make: Any):
    with pytest.raises(ValueError, match="seconds"):
        make()


@pytest.mark.parametrize(
    ("settings", "retried"),
    [
        ({}, True),
        ({"retry_on_types": (OSError,)}, True),
        ({"retry_on_types": (KeyError,)}, False),
        ({"retry_on_types": (KeyError,), "options": {"retry_on": ("NETWORK_ERROR",)}}, True),
        ({"no_retry_on_types": (OSError,)}, False),
        ({"retry_on_types": (OSError,), "options": {"no_retry_on": ("NETWORK_ERROR",)}}, False),
    ],
)
async def test_types_and_codes_decide_together_what_is_retried(
    kit: Kit, settings: dict[str, Any], retried: bool
):
    kit.add(raiser(ConnectionError("gone")), **settings)
    await kit.start()
    task_id = await kit.submit("fails", options={"max_retries": 1, "retry_delay": 3600})
    wanted = State.RETRY if retried else State.FAILED
    if retried:
        await kit.until(task_id, lambda task: task.state is wanted)
    else:
        assert (await kit.end(task_id)).state is wanted


async def test_a_backoff_function_gives_the_delay_and_a_broken_one_is_ignored(kit: Kit):
    seen: list[Any] = []

    def slow(retry: int, error: BaseException | None) -> float:
        seen.append((retry, type(error)))
        return 120.0

    kit.add(raiser(ValueError()), backoff=slow)
    kit.add(raiser(KeyError()), name="broken", backoff=lambda retry, error: 1 / 0)
    await kit.start()
    options = {"max_retries": 1, "retry_delay": 7.0, "backoff": "constant"}
    for name, seconds in (("fails", 120), ("broken", 7)):
        task_id = await kit.submit(name, options=options)
        task = await kit.until(task_id, lambda task: task.state is State.RETRY)
        assert task.status.run_at == task.status.runs[0].resolved_at + seconds * 1000  # type: ignore[operator]
    assert seen == [(1, ValueError)]


async def test_a_payload_that_does_not_fit_is_malformed_and_not_retried(kit: Kit):
    async def takes(n: int) -> None: ...

    kit.add(takes)
    await kit.start()
    task = await kit.run("takes", "many", options={"max_retries": 5})
    assert error_of(task) == (State.FAILED, Reason.MALFORMED_PAYLOAD, "VALIDATION_ERROR")
    assert "$.n" in task.status.last_error.message  # type: ignore[union-attr]


@pytest.mark.parametrize("value", [object(), "x" * 2000])
async def test_a_result_that_cannot_be_kept_is_invalid_and_not_retried(kit: Kit, value: Any):
    async def gives():
        return value

    kit.add(gives)
    await kit.start(max_payload=1000)
    task = await kit.run("gives", options={"max_retries": 5})
    assert error_of(task) == (State.FAILED, Reason.RESULT_INVALID, "result-invalid")


async def test_a_task_without_handler_is_resolved_by_its_policy(kit: Kit):
    await kit.start()
    task = await kit.run("nobody", options={"on_unknown": "drop"})
    assert (task.state, task.status.reason) == (State.DROPPED, Reason.UNKNOWN_TASK)


async def test_a_version_is_run_by_its_own_handler(kit: Kit):
    async def one() -> int:
        return 1

    async def two() -> int:
        return 2

    kit.add(one, name="job", version=1)
    kit.add(two, name="job", version=2)
    await kit.start()
    assert result_of(await kit.run("job", version=1)) == 1
    assert result_of(await kit.run("job", version=2)) == 2


async def test_a_handler_gets_the_results_of_its_dependencies(kit: Kit):
    async def parent(n: int) -> int:
        return n

    async def child(ctx: Context) -> list[Any]:
        return [(d.state, d.result) for d in ctx.dependencies.values()]

    kit.add(parent)
    kit.add(child)
    await kit.start()
    await kit.run("parent", 7, id="p")
    kit.engine.failing["dependency_results"] = 1
    task = await kit.run("child", dependencies=("p",), load_dependencies=True)
    assert result_of(task) == [["completed", 7]]


async def test_middleware_wraps_every_run_outermost_first(kit: Kit):
    seen: list[str] = []

    class Around:
        def __init__(self, name: str) -> None:
            self.name = name

        async def around(self, context: Context, call_next: Any) -> Any:
            seen.append(f"{self.name} before {context.name}")
            result = await call_next()
            seen.append(f"{self.name} after {context.name}")
            return result + 1

    def sync() -> int:
        return 1

    kit.add(sync)
    await kit.start(middleware=[Around("outer"), Around("inner")])
    assert result_of(await kit.run("sync")) == 3
    assert seen == [
        "outer before sync",
        "inner before sync",
        "inner after sync",
        "outer after sync",
    ]


async def test_a_middleware_that_raises_fails_the_run(kit: Kit):
    class Broken:
        async def around(self, context: Context, call_next: Any) -> Any:
            raise PermissionError("not you")

    async def fine() -> None: ...

    kit.add(fine)
    await kit.start(middleware=[Broken()])
    assert error_of(await kit.run("fine"))[2] == "PermissionError"


async def test_progress_and_heartbeat_reach_the_record_with_the_report(kit: Kit):
    async def works(ctx: Context) -> None:
        ctx.progress(40, "halfway, nearly")
        raise ValueError

    kit.add(works)
    await kit.start()
    task = await kit.run("works")
    assert (task.status.progress, task.status.progress_message) == (40, "halfway, nearly")
    assert last_run(task) == (Event.FAIL, Reason.ERROR)


@pytest.mark.parametrize("percent", [-1, 101, 50.0, True, "50", None])
async def test_progress_is_an_integer_from_0_to_100(kit: Kit, percent: Any):
    async def works(ctx: Context) -> None:
        ctx.progress(percent)

    kit.add(works)
    await kit.start()
    assert error_of(await kit.run("works"))[2] == "ValueError"


# --- control exceptions in groups ---


async def _in_a_task_group(error: BaseException) -> None:
    async def fails() -> None:
        raise error

    async with asyncio.TaskGroup() as group:
        group.create_task(fails())
        group.create_task(asyncio.Event().wait())


async def test_terminate_in_a_task_group_is_obeyed(kit: Kit):
    async def grouped() -> None:
        await _in_a_task_group(Terminate("useless"))

    kit.add(grouped)
    await kit.start()
    task = await kit.run("grouped", options={"max_retries": 5})
    assert (task.state, task.status.reason) == (State.FAILED, Reason.TERMINATED)
    assert task.status.last_error is not None
    assert task.status.last_error.message == "useless"


async def test_snooze_in_groups_within_groups_is_obeyed(kit: Kit):
    async def outer(ctx: Context) -> int:
        if ctx.run == 0:
            async with asyncio.TaskGroup() as group:
                group.create_task(_in_a_task_group(Snooze(0.01)))
        return ctx.attempt

    kit.add(outer)
    kit.local.keep_time()
    await kit.start()
    task = await kit.run("outer")
    assert result_of(task) == 1
    assert task.status.runs[0].resolved_event is Event.SNOOZE


async def test_retry_alone_in_a_group_that_a_thread_raises_is_obeyed(kit: Kit):
    def again(ctx: Context) -> int:
        if ctx.run == 0:
            raise ExceptionGroup("one", [Retry(delay=0.01, message="not yet")])
        return ctx.attempt

    kit.add(again)
    kit.local.keep_time()
    await kit.start()
    task = await kit.run("again", options={"retry_delay": 3600, "backoff": "constant"})
    assert result_of(task) == 2
    assert task.status.runs[0].resolved_reason is Reason.INTERMITTENT_TASK


@pytest.mark.parametrize(
    "errors",
    [[Terminate(), ValueError("out of paper")], [Terminate(), Terminate()], [ValueError("no")]],
)
async def test_in_a_group_with_others_a_control_exception_says_nothing(
    kit: Kit, errors: list[Exception]
):
    kit.add(thread_raiser(ExceptionGroup("several", errors)))
    await kit.start()
    assert error_of(await kit.run("fails")) == (State.FAILED, Reason.ERROR, "ExceptionGroup")


async def test_a_cause_is_no_control_exception(kit: Kit):
    async def fails() -> None:
        raise ValueError("wrong") from Terminate()

    kit.add(fails)
    await kit.start()
    task_id = await kit.submit("fails", options={"max_retries": 1, "retry_delay": 3600})
    task = await kit.until(task_id, lambda task: task.state is State.RETRY)
    assert task.status.last_error is not None
    assert task.status.last_error.code == "ValueError"


async def test_stopped_in_a_group_has_merely_stopped(kit: Kit):
    """A sibling finds that the run is cancelled; that is no error of the handler's."""
    began = asyncio.Event()

    async def looks(ctx: Context) -> None:
        while True:
            ctx.raise_if_cancelled()
            await asyncio.sleep(0.001)

    async def grouped(ctx: Context) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            async with asyncio.TaskGroup() as group:
                group.create_task(looks(ctx))

    kit.add(grouped)
    await kit.start()
    task_id = await kit.submit("grouped")
    await began.wait()
    await kit.local.cancel([task_id])
    task = await kit.end(task_id)
    assert (task.state, task.status.reason) == (State.CANCELLED, Reason.CANCEL_REQUESTED)
    assert task.status.last_error is None


# --- headers ---

HEADERS = {"tenant": "blue", "traceparent": "00-1-2-01"}


@pytest.mark.parametrize("way", ["async", "thread"])
async def test_a_handler_reads_the_headers_of_its_task(kit: Kit, way: str):
    async def reads(ctx: Context) -> dict[str, str]:
        return dict(ctx.headers)

    def reads_in_thread(ctx: Context) -> dict[str, str]:
        return dict(ctx.headers)

    kit.add(reads if way == "async" else reads_in_thread, name="reads")
    await kit.start()
    assert result_of(await kit.run("reads", headers=HEADERS)) == HEADERS
    assert result_of(await kit.run("reads")) == {}


async def test_headers_cannot_be_changed_by_a_handler(kit: Kit):
    async def writes(ctx: Context) -> None:
        ctx.headers["tenant"] = "red"  # type: ignore[index]

    kit.add(writes)
    await kit.start()
    assert error_of(await kit.run("writes", headers=HEADERS))[2] == "TypeError"
