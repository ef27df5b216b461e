"""Whatever one run, one line or one call meets, it fails alone, and the worker goes on."""

import asyncio
import logging
import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from andon.artifacts.base import LogLine
from andon.lifecycle.commands import Command
from andon.model.errors import (
    AndonError,
    ConfigurationError,
    InvalidSubmission,
    NotWritable,
    StoreUnavailable,
)
from andon.model.task import Task
from andon.model.words import Reason, State
from andon.worker.background import attempt, keep_on
from andon.worker.backoff import Backoff
from andon.worker.context import Context
from andon.worker.control import Retry, Snooze
from andon.worker.executors import lines
from andon.worker.logs import capture
from andon.worker.logs.capture import LogCapture
from andon.worker.worker import Worker

from .kit import Kit, error_of, result_of, until

PLACES = pytest.mark.parametrize("place", [0, 2, 4], ids=["first", "middle", "last"])


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed is tried again without a wait."""

    def failed(_: Backoff) -> float:
        return 0.0

    monkeypatch.setattr(Backoff, "failed", failed)
    monkeypatch.setattr(capture, "GATHER_S", 0.01)


# --- handlers ---


class BadCode(Exception):
    @property
    def code(self) -> str:
        raise RuntimeError("no code for you")


class WorseCode(Exception):
    @property
    def code(self) -> str:
        raise KeyboardInterrupt


class BadText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text for you")


class OwnSnooze(Snooze):
    def __init__(self) -> None:  # not its base's
        self.seconds = 1e306


class NoSnooze(Snooze):
    def __init__(self) -> None: ...


class OwnRetry(Retry):
    def __init__(self) -> None:
        self.delay = float("nan")


def snoozes(seconds: Any) -> Any:
    def make() -> Exception:
        return Snooze(seconds)

    return make


def retries(seconds: Any) -> Any:
    def make() -> Exception:
        return Retry(seconds)

    return make


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: BadCode("x"), Reason.ERROR),
        (lambda: WorseCode("x"), Reason.INTERNAL_ERROR),
        (BadText, Reason.ERROR),
        (OwnSnooze, Reason.INTERNAL_ERROR),
        (NoSnooze, Reason.INTERNAL_ERROR),
        (OwnRetry, Reason.INTERNAL_ERROR),
        (snoozes(1e306), Reason.ERROR),
        (snoozes(10**20), Reason.ERROR),
        (retries(float("inf")), Reason.ERROR),
        (retries(-1), Reason.ERROR),
        (lambda: ValueError("caf\udce9 \0"), Reason.ERROR),
    ],
)
@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_an_exception_that_cannot_be_read_fails_its_run_and_frees_its_slot(
    kit: Kit, make: Any, reason: Reason, kind: str
):
    def fails() -> None:
        raise make()

    async def fails_too() -> None:
        raise make()

    async def fine() -> int:
        return 1

    kit.add(fails if kind == "thread" else fails_too, name="fails")
    kit.add(fine)
    worker = await kit.start(concurrency=1)
    for _ in range(2):
        state, why, _ = error_of(await kit.run("fails"))
        assert (state, why) == (State.FAILED, reason)
    assert result_of(await kit.run("fine")) == 1
    await until(lambda: not worker._runs.in_hand)
    assert (worker.active, worker._keeper._held) == (0, {})


async def test_a_message_and_an_error_that_are_no_utf8_are_seen_by_others(kit: Kit):
    """An undecodable file name goes all the way into the store and back."""
    name = b"caf\xe9.txt".decode("utf-8", "surrogateescape")
    go_on = asyncio.Event()

    async def reads(ctx: Context) -> None:
        ctx.progress(10, f"reads {name}\0")
        await go_on.wait()
        raise ValueError(f"cannot read {name}\0")

    kit.add(reads)
    await kit.start()
    task_id = await kit.submit("reads")
    task = await kit.until(task_id, lambda task: task.cell is not None and task.cell.progress > 0)
    assert task.cell is not None
    assert task.cell.message == "reads caf\\udce9.txt\\x00"
    go_on.set()
    ended = await kit.end(task_id)
    assert ended.status.last_error is not None
    assert ended.status.last_error.message == "cannot read caf\\udce9.txt\\x00"


async def test_a_result_that_is_no_utf8_is_refused_in_words(kit: Kit):
    async def gives() -> str:
        return "caf\udce9"

    kit.add(gives)
    await kit.start()
    assert error_of(await kit.run("gives"))[:2] == (State.FAILED, Reason.RESULT_INVALID)


# --- reports ---


def refuse_reports(
    monkeypatch: pytest.MonkeyPatch, kit: Kit, error: Exception, of: str, times: int
) -> list[str]:
    """The engine refuses so many reports about one task; the list tells which it was asked for."""
    real, left = kit.local.report, [times]
    asked: list[str] = []

    async def report(task: Task, command: Command, *follow_ups: Any) -> State | None:
        asked.append(task.id)
        if task.id == of and left[0]:
            left[0] -= 1
            raise error
        return await real(task, command, *follow_ups)

    monkeypatch.setattr(kit.local, "report", report)
    return asked


@pytest.mark.parametrize(
    ("error", "times"),
    [
        (NotWritable("t", "report", "no"), 1),
        (InvalidSubmission("no"), 1),
        (ValueError("cannot be encoded"), 2),
        (OverflowError("too large"), 2),
    ],
    ids=lambda value: type(value).__name__,
)
@PLACES
async def test_a_report_that_cannot_be_written_ends_its_run_and_no_other(
    kit: Kit,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    *,
    error: Exception,
    times: int,
    place: int,
):
    async def gives(n: int, ctx: Context) -> int:
        ctx.progress(5, "said")
        return n

    kit.add(gives)
    bad = f"r{place}"
    refuse_reports(monkeypatch, kit, error, bad, times)
    await kit.start()
    ids = [await kit.submit("gives", n, id=f"r{n}") for n in range(5)]
    ended = [await kit.end(task_id) for task_id in ids]
    for task in ended:
        if task.id == bad:
            assert error_of(task)[:2] == (State.FAILED, Reason.RESULT_INVALID)
            assert task.status.last_error is not None
            assert str(error) in task.status.last_error.message
        else:
            assert task.state is State.COMPLETED
    assert f"task {bad} could not be reported" in caplog.text


async def test_a_report_that_meets_a_defect_is_tried_again_and_then_made_plainly(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
):
    async def gives() -> int:
        return 1

    kit.add(gives)
    asked = refuse_reports(monkeypatch, kit, RuntimeError("a bug"), "r", 5)
    await kit.start()
    task = await kit.run("gives", id="r")
    assert error_of(task)[:2] == (State.FAILED, Reason.INTERNAL_ERROR)
    assert asked == ["r"] * 6


async def test_a_report_that_can_never_be_made_lets_its_lease_go(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
):
    async def gives() -> int:
        return 1

    kit.add(gives)
    asked = refuse_reports(monkeypatch, kit, ValueError("no"), "r", 1_000)
    worker = await kit.start(concurrency=1)
    await kit.submit("gives", id="r")
    await until(lambda: bool(asked) and not worker._runs.in_hand)
    assert worker._keeper._held == {}
    assert len(asked) <= 10
    assert result_of(await kit.run("gives", id="other")) == 1


# --- records ---


@PLACES
async def test_a_record_that_nothing_can_be_done_with_costs_none_that_was_claimed_with_it(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, place: int
):
    async def gives(n: int) -> int:
        return n

    kit.add(gives)
    real = kit.local.claim

    async def claim(request: Any) -> list[Task]:
        tasks = await real(request)
        for task in tasks:
            if task.id == f"r{place}":
                task.status.policy = cast("Any", object())  # whatever a defect makes of it
        return tasks

    monkeypatch.setattr(kit.local, "claim", claim)
    ids = [await kit.submit("gives", n, id=f"r{n}") for n in range(5)]
    worker = await kit.start()
    for n, task_id in enumerate(ids):
        if n != place:
            task = await kit.end(task_id)
            assert (result_of(task), len(task.status.runs)) == (n, 1)
    await until(lambda: not worker._runs.in_hand)
    assert worker._keeper._held == {}


@PLACES
@pytest.mark.parametrize("bad", [b'"' + b"x" * 70_000 + b'"', b"[" * 50_000], ids=["large", "deep"])
async def test_arguments_that_results_make_too_large_cost_none_that_was_claimed_with_them(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, place: int, bad: bytes
):
    async def parent() -> None: ...

    async def length(text: str) -> int:
        return len(text)

    kit.add(parent, queue="parents")
    kit.add(length)
    real = kit.local.dependency_results

    async def read(task: Task) -> dict[str, Task | None]:
        result = bad if task.id == f"r{place}" else b'"fine"'
        found = await real(task)
        return {
            name: None if one is None else msgspec.structs.replace(one, result=result)
            for name, one in found.items()
        }

    monkeypatch.setattr(kit.local, "dependency_results", read)
    await kit.start(max_payload=1_000, queues=("default", "parents"))
    await kit.run("parent", id="p", queue="parents")
    ids = [
        await kit.submit(
            "length",
            id=f"r{n}",
            args=b'{"text": {"$result": "p"}}',
            dependencies=("p",),
            load_dependencies=True,
            headers={"andon-results": "text"},
        )
        for n in range(5)
    ]
    for n, task_id in enumerate(ids):
        task = await kit.end(task_id)
        if n == place:
            assert (task.state, task.status.reason) == (State.FAILED, Reason.MALFORMED_PAYLOAD)
        else:
            assert result_of(task) == 4


# --- loops ---


class Fine(BaseException):
    """Ends a loop that would go on for ever."""


def raising(*errors: BaseException) -> Any:
    left = [*errors, Fine()]
    rounds: list[str] = []

    async def once() -> None:
        rounds.append("")
        if left:
            raise left.pop(0)

    return once


async def test_a_loop_goes_on_whatever_a_round_raises():
    met: list[BaseException] = [
        *(
            StoreUnavailable("away"),
            ConfigurationError("no"),
            AndonError("no"),
            RuntimeError("bug"),
        ),
        *(UnicodeEncodeError("utf-8", "\udce9", 0, 1, "no"), asyncio.CancelledError()),
    ]
    once = raising(*met)
    with pytest.raises(Fine):
        await keep_on("A loop", once, random.Random(1))


async def test_a_loop_that_is_cancelled_ends():
    begun = asyncio.Event()

    async def once() -> None:
        begun.set()
        await asyncio.Event().wait()

    loop = asyncio.create_task(keep_on("A loop", once, random.Random(1)))
    await begun.wait()
    loop.cancel()
    with pytest.raises(asyncio.CancelledError):
        await loop


async def test_what_failed_is_named(caplog: pytest.LogCaptureFixture):
    assert not await attempt("Counting", raising(KeyError("k")))
    assert "Counting failed" in caplog.text


FAULTS: list[BaseException] = [RuntimeError("a bug"), ValueError("no"), asyncio.CancelledError()]


@pytest.mark.parametrize("method", ["claim", "put_worker", "publish_types"])
async def test_a_worker_goes_on_claiming_whatever_one_call_raises(kit: Kit, method: str):
    async def gives() -> int:
        return 1

    kit.add(gives)
    kit.engine.raising[method] = cast("Any", [*FAULTS])
    await kit.start()
    assert result_of(await kit.run("gives")) == 1
    await until(lambda: not kit.engine.raising[method])


async def test_queues_and_control_are_followed_after_whatever_one_look_met(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
):
    faults = {"queues": [*FAULTS], "ask": [*FAULTS]}
    looked: list[str] = []
    real = Worker._on_configuration

    async def on_configuration(worker: Worker) -> None:
        looked.append("queues")
        if faults["queues"]:
            raise faults["queues"].pop()
        await real(worker)

    async def on_control(worker: Worker) -> None:
        looked.append("ask")
        if faults["ask"]:
            raise faults["ask"].pop()
        worker._keeper.ask()

    monkeypatch.setattr(Worker, "_on_configuration", on_configuration)
    monkeypatch.setattr(Worker, "_on_control", on_control)

    async def waits(ctx: Context) -> None:
        await asyncio.Event().wait()

    kit.add(waits)
    await kit.start()
    task_id = await kit.submit("waits")
    await kit.until(task_id, lambda task: task.state is State.ACTIVE)
    await until(lambda: looked.count("queues") > 3 and looked.count("ask") > 3)
    await kit.local.cancel([task_id])
    assert (await kit.end(task_id)).state is State.CANCELLED


async def test_a_worker_stops_whatever_its_parts_meet_at_the_end(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    worker = await kit.start()

    async def fails(*_: Any) -> None:
        raise RuntimeError("a bug")

    for name in ("async", "thread", "command"):
        monkeypatch.setattr(worker._executors[name], "close", fails)
    assert worker._logs is not None
    monkeypatch.setattr(worker._logs, "aclose", fails)
    monkeypatch.setattr(worker._presence, "leave", fails)
    await worker.stop()
    for what in ("executor 'command'", "last log lines", "list of workers"):
        assert what in caplog.text
    logging.getLogger().removeHandler(worker._logs)


# --- log lines ---


class Kept:
    """Artifacts that keep logs, and fail as told."""

    def __init__(self) -> None:
        self.logs: dict[tuple[str, int], dict[int, Sequence[LogLine]]] = {}
        self.fails: dict[str, Exception] = {}
        self.tries: dict[str, int] = {}

    async def append_log(self, task: str, run: int, number: int, lines: Sequence[LogLine]) -> None:
        self.tries[task] = self.tries.get(task, 0) + 1
        if task in self.fails:
            raise self.fails[task]
        msgspec.json.encode(lines)
        self.logs.setdefault((task, run), {})[number] = lines

    def texts(self, task: str) -> list[str]:
        return [line.text for piece in self.logs.get((task, 0), {}).values() for line in piece]


class Engine:
    def __init__(self, kept: Kept) -> None:
        self._kept = kept

    async def artifacts(self) -> Any:
        return self._kept

    def now(self) -> int:
        return 1


def say(logs: LogCapture, task: str, text: str, **fields: Any) -> None:
    # Not through the root logger: what is no text does not travel from pytest's processes.
    record = logging.LogRecord("shop", logging.INFO, "here", 1, text, None, None)
    record.__dict__.update({"task_id": task, "run": 0, **fields})
    logs.handle(record)


@PLACES
async def test_a_line_that_cannot_be_kept_costs_no_other_line(place: int):
    kept = Kept()
    logs = LogCapture(cast("Any", Engine(kept)))
    for n in range(5):
        if n == place:
            say(logs, "a", "half \ud800 a line\0")
            say(logs, "a", "no time", created=float("nan"))
            say(logs, "a", "no run", run="x")
            say(logs, "a", "beyond", created=1e300)
        say(logs, "a", f"line {n}")
        say(logs, "b", f"line {n}")
    logs.ended(cast("Any", SimpleNamespace(task_id="a", run=0)))
    await logs.aclose()
    assert kept.texts("b") == [f"line {n}" for n in range(5)]
    there = kept.texts("a")
    assert there[:place] == [f"line {n}" for n in range(place)]
    assert there[place] == "half \\ud800 a line\\x00"
    assert there[place + 1 : place + 3] == ["no time", "beyond"]
    assert there[place + 3 :] == [f"line {n}" for n in range(place, 5)]


@pytest.mark.parametrize(
    "error", [RuntimeError("a bug"), OSError("no"), NotWritable("a", "log", "no"), TypeError("no")]
)
@PLACES
async def test_a_run_whose_log_cannot_be_kept_costs_no_other_run_a_line(
    caplog: pytest.LogCaptureFixture, error: Exception, place: int
):
    kept = Kept()
    logs = LogCapture(cast("Any", Engine(kept)))
    bad = f"r{place}"
    kept.fails[bad] = error
    for n in range(5):
        say(logs, f"r{n}", "one")
    await until(lambda: kept.tries.get(bad, 0) >= 2)
    for n in range(5):
        say(logs, f"r{n}", "two")
    await until(lambda: "cannot be kept" in caplog.text)
    await logs.aclose()
    for n in range(5):
        assert kept.texts(f"r{n}") == ([] if n == place else ["one", "two"])
    assert f"log of task {bad} run 0" in caplog.text
    assert kept.tries[bad] <= 10


async def test_log_keeping_goes_on_and_ends_whatever_it_meets():
    class Broken(Engine):
        failures = 3

        async def artifacts(self) -> Any:
            if self.failures:
                self.failures -= 1
                raise RuntimeError("a bug")
            return await super().artifacts()

    kept = Kept()
    logs = LogCapture(cast("Any", Broken(kept)))
    say(logs, "a", "kept")
    await until(lambda: kept.texts("a") == ["kept"])
    await logs.aclose()


async def test_a_worker_whose_logs_can_never_be_kept_stops(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(capture, "_CLOSE_S", 0.2)
    kept = Kept()
    logs = LogCapture(cast("Any", Engine(kept)))
    kept.fails["a"] = StoreUnavailable("away")
    say(logs, "a", "lost")
    await logs.aclose()
    assert logs not in logging.getLogger().handlers


# --- output ---


async def test_output_is_read_to_its_end_whatever_a_line_of_it_meets(
    caplog: pytest.LogCaptureFixture,
):
    reader = asyncio.StreamReader()
    reader.feed_data(b"one\nbad\ntwo\nbad\nthree")
    reader.feed_eof()
    seen: list[str] = []

    def use(line: str) -> None:
        if line == "bad":
            raise RuntimeError("a filter of the user's")
        seen.append(line)

    await lines.each_line(reader, use)
    assert seen == ["one", "two", "three"]
    assert "b'bad'" in caplog.text
    assert "2 lines" in caplog.text
