"""Carries claimed runs through: start the handler, stop it when it must, report how it ended.

One asyncio task per run, which for an async handler is the handler's own, and ends with it. A run
is *running* until then, and *reporting* until the engine has taken its report; only running takes a
slot, so that a commit and the next claim can be on their way together.

The first end of a run decides it: that of the handler, or of the grace after it was told to stop. A
later one changes nothing, here as in the record (the fence).

An error anywhere around a run ends in a report of that run, or, if even that cannot be made, its
lease is no longer renewed: no slot is lost, no lease renewed for ever, and no other run is
affected.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from andon.contract.outcomes import Verdict
from andon.engine.base import Engine
from andon.lifecycle.commands import Command, Release
from andon.model.task import Task
from andon.model.words import Reason, State
from andon.worker import outcomes
from andon.worker.artifact_writer import WorkerArtifactWriter
from andon.worker.context import Context, StopReason
from andon.worker.executors.base import Executor, RunInHand
from andon.worker.executors.killing import KILL_AFTER_S
from andon.worker.handler_runner import HandlerRunner, Middleware
from andon.worker.lease_keeper import Lease, LeaseKeeper
from andon.worker.logs.capture import LogCapture
from andon.worker.registry import Registry, TaskType
from andon.worker.reporting import RunReporter
from andon.worker.slot_deadlock import SlotDeadlockDetector
from andon.worker.type_limits import TypeLimits

if TYPE_CHECKING:
    from andon.signing import TrustedKeys

logger = logging.getLogger("andon.worker")

STOP_GRACE_S = 5.0
"""How long a handler that was told to stop for a shutdown may take to clean up."""

_LONGEST_TIMER_S = 366 * 86_400.0
"""Timers are set for at most so long: more than any process runs, and no more than every event
loop can count."""


class Runs:
    """All runs in hand of one worker. Not thread-safe but for `told`."""

    def __init__(
        self,
        engine: Engine,
        registry: Registry,
        executors: Mapping[str, Executor],
        *,
        worker: str,
        concurrency: int,
        limits: TypeLimits,
        lease: float,
        max_payload: int,
        middleware: Sequence[Middleware],
        keeper: LeaseKeeper,
        rng: random.Random,
        clock: Callable[[], float],
        logs: LogCapture | None = None,
        trusted_keys: "TrustedKeys | None" = None,
    ) -> None:
        self._clock = clock
        self._reporting = RunReporter(engine, self._forget, rng=rng, clock=clock)
        self._logs = logs
        self._handlers = HandlerRunner(
            engine,
            executors,
            arm=self._arm,
            max_payload=max_payload,
            middleware=middleware,
            trusted_keys=trusted_keys,
            rng=rng,
            clock=clock,
        )
        self._artifacts = WorkerArtifactWriter(engine)
        self._deadlocks = SlotDeadlockDetector(concurrency)
        self._engine = engine
        self._registry = registry
        self._worker = worker
        self._limits = limits
        self._lease = lease
        self._freed: Callable[[], None] = _nothing
        self._tell_busy: Callable[[bool], None] = _unwatched
        self._keeper = keeper
        self._loop = asyncio.get_running_loop()
        self._busy = asyncio.Event()  # while runs are in hand
        self._empty = asyncio.Event()  # while none is
        self._empty.set()
        self._abandoned: set[asyncio.Task[None]] = set()
        self.in_hand: dict[str, RunInHand] = {}
        self.running = 0
        """Runs that were started and whose handler has not ended."""
        self.type_freed = False
        """A limited type had no room and has some again: worth a claim even without a hint."""

    def when_freed(self, act: Callable[[], None]) -> None:
        """Call `act` whenever a handler has ended or a report was taken."""
        self._freed = act

    def when_busy(self, act: Callable[[bool], None]) -> None:
        """Call `act` whenever the first run comes into hand, and when the last has gone."""
        self._tell_busy = act

    def named(self, task: "asyncio.Task[object] | None") -> str:
        """The run whose handler this asyncio task carries, in words; "" if it carries none. Called
        in any thread."""
        for run in list(self.in_hand.values()):
            if task is not None and run.handle is task:
                return f"Task {run.context.task_id} ({run.context.name})"
        return ""

    async def wait_busy(self) -> None:
        """Wait until a run is in hand."""
        await self._busy.wait()

    async def wait_empty(self) -> None:
        """Wait until no run is in hand."""
        await self._empty.wait()

    def start(self, task: Task, sent_at: float) -> None:
        """Start a run claimed by a request sent at `sent_at` (monotonic seconds)."""
        run_id = task.status.run
        if run_id in self.in_hand:
            return  # a claim repeated with its token
        definition = task.definition
        try:
            kind = self._registry.route(definition.name, definition.version)
            run = self._hold(task, sent_at, kind)
        except Exception as error:
            self._cannot_hold(task, error)
            return
        limits = self._limits
        if limits.has_any and kind is not None and not limits.take(kind, definition.name):
            self._release(run)
            return
        self.running += 1
        run.handle = self._loop.create_task(self._conduct(run))

    def hand_back(self, task: Task, sent_at: float) -> None:
        """Release a run that came too late to be started; costs it no try."""
        try:
            run = self._hold(task, sent_at, None)
        except Exception as error:
            self._cannot_hold(task, error)
        else:
            self._release(run)

    def _hold(self, task: Task, sent_at: float, kind: TaskType | None) -> RunInHand:
        context = Context(task, self._worker, self._keeper.mark, self._clock, self._artifacts)
        context.task_waits = self._deadlocks
        run_id, policy = task.status.run, task.policy
        run = RunInHand(context, task, task, kind, policy.on_shutdown, sent_at)
        self.in_hand[run_id] = run
        if self._empty.is_set():
            self._empty.clear()
            self._busy.set()
            self._tell_busy(True)
        self._keeper.hold(Lease(context, run_id, self._lease, policy.lease, sent_at))
        return run

    def _cannot_hold(self, task: Task, error: Exception) -> None:
        """A run could not be started because of its record; the others of its claim are not
        affected."""
        self._keeper.drop(task.status.run)
        if self.in_hand.pop(task.status.run, None) is not None and not self.in_hand:
            self._emptied()
        try:
            command = outcomes.undecided(task, error)
            self._engine.report_nowait(task, command, partial(_told_of, task.id))
        except Exception:
            logger.exception("Task %s cannot be run or reported; left to its lease.", task.id)

    def _release(self, run: RunInHand) -> None:
        run.ended = True
        self._reporting.report(run, Release())

    # --- the life of one run ---

    async def _conduct(self, run: RunInHand) -> None:
        run.begun = True
        try:
            command = await self._handlers.run(run)
        # docs/rulings.md, R24: nothing a handler raises gets past here
        except BaseException as error:
            if isinstance(error, GeneratorExit) and not self._loop.is_running():
                raise  # closed with the loop; nothing can be awaited any more
            try:
                command = self._handlers.raised(run, error)
            except Exception as broken:
                command = outcomes.undecided(run.task, broken)
        if not run.ended:  # else abandoned; decided without the handler
            self._finish(run, command)

    def _arm(self, run: RunInHand, seconds: float, reason: StopReason) -> None:
        timer = self._loop.call_later(timed(seconds), self.tell, run, reason)
        run.timers = (*run.timers, timer)

    # --- stopping ---

    def told(self, lease: Lease, verdict: Verdict) -> None:
        """A renewal was answered CANCEL or LOST. Called from the lease keeper's thread."""
        reason: StopReason = "cancel" if verdict is Verdict.CANCEL else "lease-lost"
        if not lease.context.stop_reason:
            lease.context.stop_reason = reason  # at once, for handlers in threads
        run = self.in_hand.get(lease.run)
        if run is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.tell, run, reason)

    def tell(self, run: RunInHand, reason: StopReason) -> None:
        """Tell a handler to stop, and end the run after its grace in any case."""
        if run.ended:
            if reason == "lease-lost":
                run.lost = True
            return
        context = run.context
        if reason == "lease-lost" or not run.asked_to_stop:
            context.stop_reason = reason
        if run.asked_to_stop:
            return
        run.asked_to_stop = True
        executor = run.executor
        if executor is None:
            if run.begun and run.handle is not None:
                run.handle.cancel()  # it still waits for the results of its dependencies
            return
        try:
            executor.stop(run)
        except Exception:  # it keeps its grace all the same, and is then abandoned
            logger.exception("Task %s run %d was not told to stop.", context.task_id, context.run)
        self._give(run, executor, reason)

    def hurry(self, run: RunInHand) -> None:
        """Tell a handler to stop for a shutdown; one that was told already, whatever for, gets no
        more time than that from now on."""
        if run.asked_to_stop and run.executor is not None and not run.ended:
            self._give(run, run.executor, "shutdown")
        else:
            self.tell(run, "shutdown")

    def _give(self, run: RunInHand, executor: Executor, reason: StopReason) -> None:
        """Give a handler that was told to stop the time there is for it."""
        grace = run.task.policy.cancel_grace
        if reason == "shutdown":
            grace = min(grace, STOP_GRACE_S) if executor.interrupts else 0.0
        if executor.kills:
            grace = max(grace, KILL_AFTER_S) + STOP_GRACE_S  # only if killing does not help
        timer = self._loop.call_later(timed(grace), self._overdue, run)
        run.timers = (*run.timers, timer)

    def _overdue(self, run: RunInHand) -> None:
        """The handler did not stop in time: it is abandoned, and its run resolved without it."""
        if run.ended:
            return
        kind, context = run.kind, run.context
        assert kind is not None
        logger.warning(
            "Handler of task %s run %d goes on after it was told to stop (%s); abandoned.",
            context.task_id,
            context.run,
            context.stop_reason,
        )
        command: Command | None
        try:
            command = outcomes.told(
                kind,
                run.task,
                context.stop_reason,
                run.on_shutdown,
                None,
                cancelled=Reason.HANDLER_ABANDONED,
            )
        except Exception as broken:
            command = outcomes.undecided(run.task, broken)
        handler = run.handle
        assert handler is not None
        self._abandoned.add(handler)
        handler.add_done_callback(self._abandoned.discard)
        self._finish(run, command)

    # --- ending ---

    def _finish(self, run: RunInHand, command: Command | None) -> None:
        """The handler has ended, or is abandoned: free its slot, and report how it ended if there
        is something to report."""
        try:
            self._end(run)
        except Exception:
            logger.exception("The end of task %s was not told to all.", run.context.task_id)
        if command is None:
            self._forget(run)
        else:
            self._reporting.report(run, command)

    def _end(self, run: RunInHand) -> None:
        run.ended = True
        if run.started_at:
            run.seconds = self._clock() - run.started_at
        try:
            for timer in run.timers:
                timer.cancel()
            if self._limits.has_any and run.kind is not None and self._limits.give(run.kind):
                self.type_freed = True
        finally:
            self.running -= 1
        if self._logs is not None:
            self._logs.ended(run.context)
        self._freed()

    def _forget(self, run: RunInHand) -> None:
        run_id = run.task.status.run
        self._keeper.drop(run_id)
        self.in_hand.pop(run_id, None)
        if not self.in_hand:
            self._emptied()
        self._freed()

    def _emptied(self) -> None:
        self._empty.set()
        self._busy.clear()
        self._tell_busy(False)


def _nothing() -> None:
    """The default callback: no loop waits for room."""


def _unwatched(busy: bool) -> None:
    """The default callback: no thread watches the loop."""


def timed(seconds: float) -> float:
    """The seconds as a timer can take them. (NaN is none: it would disturb the loop's others.)"""
    return min(max(0.0, seconds), _LONGEST_TIMER_S)


def _told_of(task_id: str, state: State | None, error: BaseException | None) -> None:
    if error is not None:
        logger.error("Task %s could not be reported; left to its lease: %s", task_id, error)
