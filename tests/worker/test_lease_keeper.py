"""The lease keeper: renews from its own thread, in batches, and gives up in time."""

import asyncio
import random
import threading
import time
from collections.abc import Callable, Sequence

import pytest

from andon.contract.outcomes import Verdict
from andon.contract.requests import Renewal
from andon.lifecycle.admission import admit
from andon.lifecycle.apply import stamped
from andon.model.errors import InvalidSubmission, StoreUnavailable
from andon.model.policy import Policy
from andon.model.task import Definition, Stamp
from andon.model.words import State
from andon.worker.context import Context
from andon.worker.lease_keeper import MARKS_S, Lease, LeaseKeeper

from .kit import WAIT, Kit, result_of


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Engine:
    """Answers renewals as told."""

    def __init__(self) -> None:
        self.sent: list[Sequence[Renewal]] = []
        self.verdict = Verdict.OK
        self.away = False
        self.refuses: Callable[[Renewal], bool] = lambda _: False
        self.how: Exception | None = None  #: raised for a call with one it refuses; None: INVALID

    def renew_blocking(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        if self.away:
            raise StoreUnavailable("away")
        self.sent.append(renewals)
        refused = [self.refuses(renewal) for renewal in renewals]
        if self.how is not None and any(refused):
            raise self.how
        return [Verdict.INVALID if bad else self.verdict for bad in refused]


class Bench:
    """A keeper whose thread is the test."""

    def __init__(self) -> None:
        self.clock, self.engine = Clock(), Engine()
        self.told: list[tuple[str, Verdict]] = []
        self.keeper = LeaseKeeper(self.engine, shortest=30, clock=self.clock, rng=random.Random(1))
        self.keeper._told = lambda lease, verdict: self.told.append((lease.run, verdict))

    def hold(self, run: str, lease: float = 30) -> Context:
        task = admit(Definition(id=run, name="n", policy=Policy(lease=lease)), 1, "w")
        task = stamped(task, Stamp(run, 1, "w", "t", 1, 30_001))
        context = Context(task, "w", self.keeper.mark, self.clock)
        self.keeper.hold(Lease(context, run, 30, lease, self.clock.now))
        return context

    def turn(self, seconds: float) -> float:
        self.clock.now += seconds
        return self.keeper.run_once()


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_nothing_is_sent_before_a_third_of_the_lease(bench: Bench):
    bench.hold("a")
    assert bench.turn(9) == pytest.approx(1)
    assert bench.engine.sent == []


def test_all_runs_whose_renewal_is_near_go_in_one_call(bench: Bench):
    bench.hold("a")
    bench.clock.now += 3
    bench.hold("b")
    bench.clock.now += 6
    bench.hold("c")
    bench.turn(1)
    assert [[r.run for r in sent] for sent in bench.engine.sent] == [["a", "b"]]


def test_a_renewal_holds_for_the_lease_of_the_tasks_own_policy(bench: Bench):
    bench.hold("a", lease=1200)
    bench.turn(10)
    assert bench.engine.sent[0][0].lease_ms == 1_200_000
    bench.turn(399)
    assert len(bench.engine.sent) == 1
    bench.turn(1)
    assert len(bench.engine.sent) == 2


def test_large_fleets_of_runs_are_renewed_in_batches(bench: Bench):
    for n in range(450):
        bench.hold(f"r{n}")
    bench.turn(10)
    assert [len(sent) for sent in bench.engine.sent] == [200, 200, 50]


def test_a_run_is_given_up_one_lease_after_the_last_good_renewal_was_sent(bench: Bench):
    bench.hold("a")
    bench.turn(10)  # renewed
    bench.engine.away = True
    for _ in range(29):
        bench.turn(1)
    assert bench.told == []
    bench.turn(1)
    assert bench.told == [("a", Verdict.LOST)]
    bench.engine.away = False
    bench.turn(1)
    assert len(bench.engine.sent) == 1


def test_a_store_that_is_back_in_time_costs_no_run(bench: Bench):
    bench.hold("a")
    bench.engine.away = True
    assert 0 < bench.turn(10) <= 5
    bench.turn(15)
    bench.engine.away = False
    bench.turn(4)
    bench.turn(20)
    assert bench.told == []


def test_a_lost_run_is_told_once_and_renewed_no_more(bench: Bench):
    bench.hold("a")
    bench.engine.verdict = Verdict.LOST
    bench.turn(10)
    bench.turn(10)
    assert bench.told == [("a", Verdict.LOST)]
    assert len(bench.engine.sent) == 1


def test_a_run_asked_to_cancel_is_told_and_renewed_on(bench: Bench):
    bench.hold("a")
    bench.engine.verdict = Verdict.CANCEL
    bench.turn(10)
    bench.turn(10)
    assert bench.told == [("a", Verdict.CANCEL)] * 2


def test_a_hint_asks_about_every_run_at_once(bench: Bench):
    bench.hold("a")
    bench.hold("b")
    bench.keeper.ask()
    bench.turn(0.1)
    assert [r.run for r in bench.engine.sent[0]] == ["a", "b"]


def test_marks_are_sent_together_and_not_more_often_than_every_quarter_second(bench: Bench):
    a, b = bench.hold("a"), bench.hold("b")
    a.progress(10, "x")
    bench.turn(0)
    for percent in range(20, 30):
        a.progress(percent, "y")
        b.heartbeat()
        assert bench.turn(0.01) > 0
    bench.turn(MARKS_S)
    first, second = bench.engine.sent
    assert [(r.run, r.progress, r.message, r.heartbeat) for r in first] == [("a", 10, "x", True)]
    assert [(r.run, r.progress, r.message, r.heartbeat) for r in second] == [
        ("a", 29, "y", True),
        ("b", None, None, True),
    ]


def test_a_renewal_without_a_new_heartbeat_claims_none(bench: Bench):
    a = bench.hold("a")
    a.heartbeat()
    bench.turn(0)
    bench.turn(10)
    assert [sent[0].heartbeat for sent in bench.engine.sent] == [True, False]


def test_marks_that_could_not_be_sent_go_with_the_next_renewal(bench: Bench):
    a = bench.hold("a")
    a.progress(50)
    bench.engine.away = True
    bench.turn(0)
    bench.engine.away = False
    bench.turn(1)
    assert [(r.progress, r.heartbeat) for r in bench.engine.sent[0]] == [(50, True)]


WAYS = [None, ValueError("cannot be encoded"), RuntimeError("a bug"), InvalidSubmission("no")]
PLACES = pytest.mark.parametrize("place", [0, 3, 6], ids=["first", "middle", "last"])


@PLACES
@pytest.mark.parametrize("how", WAYS, ids=lambda how: type(how).__name__)
def test_progress_that_cannot_be_written_costs_no_run_its_lease(
    bench: Bench, caplog: pytest.LogCaptureFixture, place: int, how: Exception | None
):
    contexts = [bench.hold(f"r{n}") for n in range(7)]
    contexts[place].percent, contexts[place].message = 5, "\udce9"  # past the door
    bench.engine.refuses = lambda renewal: renewal.message is not None
    bench.engine.how = how
    for _ in range(300):
        bench.turn(1)
    assert bench.told == []
    assert f"task r{place}: its progress cannot be written" in caplog.text
    assert "task r1" not in caplog.text
    sent_after = [r for sent in bench.engine.sent[-3:] for r in sent]
    assert all(renewal.message is None for renewal in sent_after)  # once was enough
    contexts[place].progress(6, "better")
    bench.engine.refuses = lambda _: False
    bench.turn(1)
    assert [r.message for r in bench.engine.sent[-1]] == ["better"]


@PLACES
@pytest.mark.parametrize("how", WAYS, ids=lambda how: type(how).__name__)
def test_a_run_that_cannot_be_renewed_is_given_up_alone_and_not_asked_for_on_and_on(
    bench: Bench, caplog: pytest.LogCaptureFixture, place: int, how: Exception | None
):
    for n in range(7):
        bench.hold(f"r{n}")
    bench.engine.refuses = lambda renewal: renewal.run == f"r{place}"
    bench.engine.how = how
    asked = 0
    for _ in range(600):
        bench.turn(0.1)
    assert bench.told == [(f"r{place}", Verdict.LOST)]
    asked = sum(r.run == f"r{place}" for sent in bench.engine.sent for r in sent)
    assert 2 <= asked <= 60
    assert f"task r{place}" in caplog.text
    assert "cannot be renewed" in caplog.text


@pytest.mark.parametrize("lease", [float("nan"), float("inf"), 1e306])
@PLACES
def test_a_record_whose_lease_is_no_time_costs_no_other_run_its_lease(
    bench: Bench, place: int, lease: float
):
    for n in range(7):
        bench.hold(f"r{n}", lease=lease if n == place else 30)
    for _ in range(60):
        bench.turn(1)
    lost = {run for run, _ in bench.told}
    assert lost <= {f"r{place}"}


@PLACES
def test_a_verdict_that_cannot_be_told_keeps_no_other_from_being_told(bench: Bench, place: int):
    told: list[str] = []

    def tell(lease: Lease, verdict: Verdict) -> None:
        if lease.run == f"r{place}":
            raise RuntimeError("no ears")
        told.append(lease.run)

    for n in range(7):
        bench.hold(f"r{n}")
    bench.keeper._told = tell
    bench.engine.verdict = Verdict.LOST
    bench.turn(10)
    assert told == [f"r{n}" for n in range(7) if n != place]
    bench.turn(10)
    assert len(bench.engine.sent) == 1


@pytest.mark.parametrize("error", [RuntimeError("a bug"), MemoryError()])
def test_the_keeper_goes_on_whatever_a_turn_of_it_meets(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, error: Exception
):
    def fails() -> float:
        raise error

    bench.hold("a")
    with monkeypatch.context() as broken:
        broken.setattr(bench.keeper, "run_once", fails)
        assert 0 < bench.keeper.turn() <= 5
    bench.clock.now += 10
    bench.keeper.turn()
    assert [[r.run for r in sent] for sent in bench.engine.sent] == [["a"]]


async def test_a_handler_that_blocks_the_loop_keeps_its_lease(kit: Kit):
    def renewals() -> int:
        return len(kit.engine.called("renew_blocking"))

    async def blocks() -> int:
        end = time.monotonic() + WAIT
        # Each third of a lease there is one, so with the fourth the first lease is over.
        while renewals() < 4 and time.monotonic() < end:
            time.sleep(0.01)  # noqa: ASYNC251
        return renewals()

    kit.add(blocks)
    kit.local.keep_time()
    await kit.start(lease=3.0)  # a renewal behind HTTP takes its time on a busy machine
    task = await kit.run("blocks", lease=3.0)
    assert (result_of(task), len(task.status.runs)) == (4, 1)


async def test_progress_of_a_running_handler_is_seen_by_watchers(kit: Kit):
    go_on = threading.Event()

    def works(ctx: Context) -> None:
        ctx.progress(30, "a third")
        go_on.wait(WAIT)

    kit.add(works)
    await kit.start()
    task_id = await kit.submit("works")
    task = await kit.until(task_id, lambda task: task.cell is not None and task.cell.progress > 0)
    assert task.cell is not None
    assert (task.cell.progress, task.cell.message) == (30, "a third")
    go_on.set()
    await kit.end(task_id)


async def test_a_worker_cut_off_from_the_store_gives_its_runs_up_and_reports_nothing(kit: Kit):
    told = asyncio.Event()

    async def waits(ctx: Context) -> str:
        if ctx.run > 0:
            return "second"
        try:
            await asyncio.Event().wait()
        finally:
            assert ctx.stop_reason == "lease-lost"
            told.set()
        return ""

    kit.add(waits)
    kit.local.keep_time()
    kit.engine.failing["renew_blocking"] = 1_000_000
    await kit.start(lease=0.3)
    options = {"lease": 0.3, "max_retries": 1, "retry_delay": None}
    task_id = await kit.submit("waits", options=options)
    await told.wait()
    task = await kit.end(task_id)
    assert (task.state, result_of(task)) == (State.COMPLETED, "second")
    assert len(kit.engine.called("report")) == 1


async def test_a_claim_holds_no_longer_than_the_shortest_lease_of_a_type(kit: Kit):
    taken: list[int] = []

    async def short(ctx: Context) -> None:
        task = await kit.get(ctx.task_id)
        assert task.cell is not None
        claimed_at = task.status.runs[-1].claimed_at
        assert claimed_at is not None
        taken.append(task.cell.lease_until - claimed_at)

    async def long() -> None: ...

    # The keeper asks for news when it begins to listen: were that late, it would renew the run.
    kit.engine.failing["renew_blocking"] = 1_000
    kit.add(short, options={"lease": 9.0})
    kit.add(long, options={"lease": 600.0})
    worker = await kit.start()
    assert worker.lease == 9.0
    await kit.run("short", lease=9.0)
    assert taken == [9_000]
    assert all(request.lease_ms == 9_000 for (request,) in kit.engine.called("claim"))


async def test_without_a_shorter_one_a_claim_holds_for_the_workers_lease(kit: Kit):
    async def long() -> None: ...

    kit.add(long, options={"lease": 600.0})
    assert (await kit.start(lease=7.0)).lease == 7.0
