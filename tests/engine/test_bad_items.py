"""One bad item fails alone (docs/rulings.md, R36): in each shared call and each shared loop of the
engine, first, in the middle and last; its neighbours are as if it had not been there, and it is
named."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from andon.contract.store import Store
from andon.engine import control, definitions, runs, submitting, timekeeper
from andon.engine.copy_ledger import Ledger
from andon.engine.copying import copy
from andon.lifecycle.apply import apply
from andon.lifecycle.commands import Cancel, Complete, Fail, Reschedule, Snooze
from andon.model.errors import InvalidSubmission, NotWritable
from andon.model.fleet import QueueConfig
from andon.model.task import TaskError
from andon.model.words import State
from andon.stores.memory import MemoryStore

from .conftest import Clock, Shop
from .faulty import Faulty

IDS = ("t0", "t1", "t2", "t3", "t4")
BAD = pytest.mark.parametrize("bad", ["t0", "t2", "t4"])

DEFECT = ValueError("a defect")
UNFORESEEN = RuntimeError("a defect that nobody foresaw")
ERRORS = pytest.mark.parametrize("error", [DEFECT, UNFORESEEN])
FAILURE = TaskError(message="x")


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Callable[[str], bool]:
    """Whether an error was logged that names a task."""
    caplog.set_level(logging.ERROR)
    return lambda name: any(
        record.levelno >= logging.ERROR and name in record.getMessage() for record in caplog.records
    )


def spoil(monkeypatch: pytest.MonkeyPatch, module: Any, bad: str, error: Exception) -> list[str]:
    """Let deciding on one task raise, where that module decides; the ids that were decided on."""
    asked: list[str] = []

    def spoiled(task: Any, *args: Any, **options: Any) -> Any:
        asked.append(task.id)
        if task.id == bad:
            raise error
        return apply(task, *args, **options)

    monkeypatch.setattr(module, "apply", spoiled)
    return asked


def others(bad: str) -> list[str]:
    return [task_id for task_id in IDS if task_id != bad]


async def states(shop: Shop, ids: Any = IDS) -> list[State | None]:
    return [await shop.state(task_id) for task_id in ids]


# --- submitting ---


@BAD
async def test_a_submission_that_cannot_be_made_a_record_is_refused_alone(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, bad: str
) -> None:
    define = definitions.define

    def spoiled(submission: Any, *args: Any) -> Any:
        if submission.id == bad:
            raise UNFORESEEN
        return define(submission, *args)

    monkeypatch.setattr(submitting, "define", spoiled)
    outcomes = {o.id: o for o in await shop.engine.submit([shop.submission(i) for i in IDS])}
    assert isinstance(outcomes[bad].error, InvalidSubmission)
    assert await shop.state(bad) is None
    assert [outcomes[i].state for i in others(bad)] == [State.PENDING] * 4


@BAD
@pytest.mark.parametrize("together", [True, False], ids=["in one call", "in many calls"])
async def test_a_record_that_the_store_cannot_write_is_refused_alone(
    shop: Shop, faulty: Faulty, bad: str, together: bool
) -> None:
    for way in ("refuses", "fails"):
        faulty.bad = {bad}
        faulty.refuses = {"create"} if way == "refuses" else set()
        faulty.fails = {"create": DEFECT} if way == "fails" else {}
        made = [shop.submission(i, key=way) for i in IDS]
        if together:
            outcomes = await shop.engine.submit(made)
        else:
            outcomes = [o for [o] in await asyncio.gather(*(shop.engine.submit([m]) for m in made))]
        refused = [o.id for o in outcomes if o.error is not None and o.state is None]
        assert refused == [bad], way
        assert isinstance(outcomes[IDS.index(bad)].error, InvalidSubmission)
        assert await shop.state(bad) is None
        assert await states(shop, others(bad)) == [State.PENDING] * 4


# --- acts ---


@BAD
@ERRORS
async def test_an_act_that_cannot_be_decided_fails_alone(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, bad: str, error: Exception
) -> None:
    for task_id in IDS:
        await shop.submit(task_id)
    spoil(monkeypatch, control, bad, error)
    acted = {one.id: one for one in await shop.engine.cancel(IDS)}
    assert isinstance(acted[bad].error, NotWritable)
    assert bad in str(acted[bad].error)
    assert not acted[bad].changed
    assert await states(shop, others(bad)) == [State.CANCELLED] * 4


@BAD
async def test_an_act_that_cannot_be_written_fails_alone(
    shop: Shop, faulty: Faulty, bad: str
) -> None:
    for task_id in IDS:
        await shop.submit(task_id)
    faulty.bad = {bad}
    faulty.refuses = {"commit"}
    acted = {one.id: one for one in await shop.engine.cancel(IDS)}
    assert isinstance(acted[bad].error, NotWritable)
    assert "does not encode" in str(acted[bad].error)
    faulty.refuses, faulty.fails = set(), {"commit": DEFECT}
    again = {one.id: one for one in await shop.engine.act([*IDS], Cancel())}
    assert isinstance(again[bad].error, NotWritable)
    assert await states(shop, others(bad)) == [State.CANCELLED] * 4
    assert await shop.state(bad) is State.PENDING


async def test_an_act_with_a_time_that_no_record_can_have_is_refused_and_changes_nothing(
    shop: Shop,
) -> None:
    await shop.submit("a", delay=60.0)
    before = await shop.task("a")
    for moment in (2**63, 10**20, -1):
        with pytest.raises(InvalidSubmission) as refused:
            await shop.engine.act(["a"], Reschedule(run_at=moment))
        assert refused.value.field == "run_at"
    assert await shop.task("a") == before


# --- reports ---


@BAD
@pytest.mark.parametrize("nowait", [False, True], ids=["awaited", "told"])
async def test_a_report_that_cannot_be_written_fails_alone_and_at_once(
    shop: Shop, faulty: Faulty, bad: str, nowait: bool
) -> None:
    for way in ("refuses", "fails"):
        for task_id in IDS:
            await shop.submit(f"{way}-{task_id}")
        tasks = await shop.claim(5)
        faulty.bad = {f"{way}-{bad}"}
        faulty.refuses = {"commit"} if way == "refuses" else set()
        faulty.fails = {"commit": DEFECT} if way == "fails" else {}
        commands = [(task, Complete(result=b"1")) for task in tasks]
        outcomes = await reported(shop, commands, nowait=nowait)
        assert isinstance(outcomes.pop(f"{way}-{bad}"), NotWritable)
        assert [*outcomes.values()] == [State.COMPLETED] * 4
        faulty.refuses, faulty.fails = set(), {}
        failed = await reported(shop, [(t, FAILED) for t in tasks if t.id in faulty.bad])
        assert [*failed.values()] == [State.FAILED], "the run can be failed instead"


FAILED = Fail(error=FAILURE, retryable=False)


async def reported(shop: Shop, commands: Any, *, nowait: bool = True) -> dict[str, Any]:
    """How each report ended, all made at once."""
    if not nowait:
        made = (shop.engine.report(task, command) for task, command in commands)
        done = await asyncio.gather(*made, return_exceptions=True)
        return {task.id: one for (task, _), one in zip(commands, done, strict=True)}
    loop = asyncio.get_running_loop()
    ends = {task.id: loop.create_future() for task, _ in commands}
    for task, command in commands:
        shop.engine.report_nowait(
            task, command, lambda state, error, i=task.id: ends[i].set_result(error or state)
        )
    return {task_id: await end for task_id, end in ends.items()}


@BAD
@pytest.mark.parametrize("delay", [10**20, 2**63])
async def test_a_delay_that_no_record_can_have_fails_its_own_report(
    shop: Shop, bad: str, delay: int
) -> None:
    for task_id in IDS:
        await shop.submit(task_id)
    tasks = await shop.claim(5)
    snooze = [(t, Snooze(delay=delay) if t.id == bad else Complete()) for t in tasks]
    outcomes = await reported(shop, snooze)
    assert isinstance(outcomes.pop(bad), NotWritable)
    assert [*outcomes.values()] == [State.COMPLETED] * 4
    assert await shop.state(bad) is State.ACTIVE


@BAD
@ERRORS
async def test_a_report_that_cannot_be_decided_fails_alone(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, bad: str, error: Exception
) -> None:
    for task_id in IDS:
        await shop.submit(task_id)
    tasks = await shop.claim(5)
    spoil(monkeypatch, runs, bad, error)
    outcomes = await reported(shop, [(task, Complete()) for task in tasks])
    assert isinstance(outcomes.pop(bad), NotWritable)
    assert [*outcomes.values()] == [State.COMPLETED] * 4


# --- timers ---


@BAD
@ERRORS
async def test_a_timer_that_cannot_be_decided_holds_up_no_other_and_is_left_alone(
    shop: Shop,
    monkeypatch: pytest.MonkeyPatch,
    logged: Callable[[str], bool],
    bad: str,
    error: Exception,
) -> None:
    for number, task_id in enumerate(IDS):
        await shop.submit(task_id, delay=10.0 + number / 1000)
    asked = spoil(monkeypatch, timekeeper, bad, error)
    await shop.later(11)
    assert await states(shop, others(bad)) == [State.PENDING] * 4
    assert await shop.state(bad) is State.SCHEDULED
    assert logged(bad)
    tried = []
    for _ in range(120):
        before = len(asked)
        await shop.later(1)
        tried.append(len(asked) > before)
    assert sum(tried) <= 4, "it is left alone for longer each time"
    monkeypatch.setattr(timekeeper, "apply", apply)
    await shop.later(200)
    assert await shop.state(bad) is State.PENDING, "and goes on when it can be decided"


@BAD
@ERRORS
async def test_a_timer_whose_move_cannot_be_written_holds_up_no_other(
    shop: Shop, faulty: Faulty, logged: Callable[[str], bool], bad: str, error: Exception
) -> None:
    for number, task_id in enumerate(IDS):
        await shop.submit(task_id, delay=10.0 + number / 1000)
    faulty.bad = {bad}
    faulty.fails = {"commit": error}
    await shop.later(11)
    assert await states(shop, others(bad)) == [State.PENDING] * 4
    assert logged(bad)
    faulty.fails, faulty.refuses = {}, {"commit"}
    await shop.later(60)
    assert await shop.state(bad) is State.SCHEDULED
    before = faulty.calls["commit"]
    await shop.later(1)
    assert faulty.calls["commit"] == before, "it does not come again with each round"
    faulty.refuses = set()
    await shop.later(3_600)
    assert await shop.state(bad) is State.PENDING


# --- dependencies ---


@BAD
@ERRORS
@pytest.mark.parametrize("ends", [Complete(), Fail(error=FAILURE, retryable=False)])
async def test_a_child_that_cannot_be_told_keeps_no_other_from_being_told(
    shop: Shop, faulty: Faulty, bad: str, error: Exception, ends: Any
) -> None:
    await shop.submit("parent")
    await shop.engine.submit([shop.submission(i, dependencies=("parent",)) for i in IDS])
    faulty.bad = {bad}
    faulty.fails = {"settle": error, "link": error}
    await shop.run(ends)
    told = State.PENDING if isinstance(ends, Complete) else State.UNREACHABLE
    assert await states(shop, others(bad)) == [told] * 4
    faulty.fails = {}
    await shop.later(600)
    assert await shop.state(bad) is told, "its verify timer finds the end"


@BAD
@ERRORS
async def test_a_blocked_task_that_cannot_be_verified_keeps_no_other_from_it(
    shop: Shop, faulty: Faulty, logged: Callable[[str], bool], bad: str, error: Exception
) -> None:
    await shop.submit("parent")
    faulty.bad = {*IDS}
    faulty.fails = {"link": DEFECT}
    await shop.engine.submit([shop.submission(i, dependencies=("parent",)) for i in IDS])
    await shop.run()
    assert await states(shop) == [State.BLOCKED] * 5, "nobody was linked, so nobody is told"
    faulty.bad = {bad}
    faulty.fails = {"link": error}
    await shop.until_asked()
    assert await states(shop, others(bad)) == [State.PENDING] * 4
    assert logged(bad)


@pytest.mark.usefixtures("edges_left")
@ERRORS
async def test_ends_that_cannot_be_told_are_named_and_the_others_are_told(
    shop: Shop, faulty: Faulty, logged: Callable[[str], bool], error: Exception
) -> None:
    for parent in ("p0", "p1", "p2"):
        await shop.submit(parent)
        await shop.submit(f"c{parent}", dependencies=(parent,))
    tasks = await shop.claim(3)
    faulty.bad = {"p0"}
    faulty.fails = {"dependents_of_each": error}
    for task in tasks:
        await shop.engine.report(task, Complete())
    await shop.told()
    assert await states(shop, ("cp1", "cp2")) == [State.PENDING] * 2
    assert logged("p0")
    before = faulty.calls["dependents_of_each"]
    await shop.engine.timekeeper.housekeep()
    await shop.told()
    assert faulty.calls["dependents_of_each"] == before, "it is left alone for a while"


# --- housekeeping ---


async def test_a_chore_that_fails_ends_no_other(shop: Shop, faulty: Faulty) -> None:
    faulty.broken = {"take_unsettled": UNFORESEEN}
    with pytest.raises(RuntimeError):
        await shop.engine.timekeeper.housekeep()
    assert faulty.calls["trim"] == 1


class TestDeadLetters:
    @pytest.fixture
    def shop_options(self) -> dict[str, object]:
        return {"dead_letter_limit": 2}

    async def _letters(self, shop: Shop) -> None:
        for task_id in IDS:
            await shop.submit(task_id)
            await shop.run(Fail(error=FAILURE, retryable=False))
            shop.clock.ms += 1

    @pytest.mark.parametrize("bad", ["t0", "t1", "t2"])
    @pytest.mark.parametrize("method", ["fails", "refuses"])
    async def test_the_bound_gets_past_a_letter_that_cannot_be_deleted(
        self, shop: Shop, faulty: Faulty, bad: str, method: str
    ) -> None:
        await self._letters(shop)
        faulty.bad = {bad}
        if method == "fails":
            faulty.fails = {"commit": UNFORESEEN}
        else:
            faulty.refuses = {"commit"}
        for _ in range(3):
            await shop.engine.timekeeper.housekeep()
        left = [i for i in IDS if await shop.state(i) is not None]
        assert len(left) == 2
        assert bad in left
        assert left[-1] == "t4", "the newest stay"

    async def test_the_bound_gets_past_what_dependents_still_need(self, shop: Shop) -> None:
        for task_id in IDS:
            await shop.submit(task_id)
        await shop.submit(
            "needs", dependencies=("t0", "t1"), load_dependencies=True, requires="all-resolved"
        )
        for _ in IDS:
            await shop.run(Fail(error=FAILURE, retryable=False))
            shop.clock.ms += 1
        for _ in range(3):
            await shop.engine.timekeeper.housekeep()
        assert [i for i in IDS if await shop.state(i) is not None] == ["t0", "t1"]
        await shop.run()
        await shop.later(61)
        await shop.engine.timekeeper.housekeep()
        assert [i for i in IDS if await shop.state(i) is not None] == ["t0", "t1"]


# --- configuration ---


async def test_an_engine_that_cannot_open_leaves_nothing_open(
    store: Store, faulty: Faulty, clock: Clock
) -> None:
    faulty.broken = {"queues": UNFORESEEN}
    shop = Shop(store, clock)
    for _ in range(3):
        with pytest.raises(RuntimeError):
            await shop.engine.open()
    assert faulty.calls["open"] == faulty.calls["close"] == 3
    faulty.broken = {}
    await shop.engine.open()
    await shop.submit("a")
    await shop.engine.close()


@pytest.mark.parametrize("pairs", [1, 10])
async def test_of_two_settings_made_at_once_both_stay(shop: Shop, pairs: int) -> None:
    await asyncio.gather(
        shop.engine.configure_queue("q", {"paused": True}),
        shop.engine.configure_queue("q", {"weight": 7}),
        *(shop.engine.configure_queue("q", {"max_size": 100}) for _ in range(pairs)),
    )
    assert await shop.engine.queues() == [
        QueueConfig(name="q", paused=True, weight=7, max_size=100)
    ]


# --- copying ---


class Copied:
    """A copy in which one side cannot do its part for a task."""

    def __init__(self, source: Faulty, clock: Clock) -> None:
        self.target = Faulty(MemoryStore(clock=clock))
        self._sides = {"history": source, "restore": self.target}
        self._source = source

    async def copy(self, method: str, bad: str, error: Exception) -> Ledger:
        side = self._sides[method]
        side.bad, side.fails = {bad}, {method: error}
        return await copy(self._source, self.target)  # type: ignore[arg-type]


@pytest.fixture
def copied(faulty: Faulty, clock: Clock) -> Copied:
    return Copied(faulty, clock)


@BAD
@pytest.mark.parametrize("method", ["history", "restore"])
async def test_a_task_that_cannot_be_copied_is_left_out_and_named(
    shop: Shop, copied: Copied, logged: Callable[[str], bool], bad: str, method: str
) -> None:
    for task_id in IDS:
        await shop.submit(task_id)
    ledger = await copied.copy(method, bad, UNFORESEEN)
    assert ledger.failed == [bad]
    assert not ledger.balanced
    assert logged(bad)
    there = await copied.target.get([*IDS])
    assert [task is not None for task in there] == [i != bad for i in IDS]
