"""The claim loop: executes what `claiming.policy` decides, and keeps the view that it decides on.

One claim is under way at a time; slots that become free meanwhile go into the next one, so claims
grow with the load by themselves.

- A claim whose reply was lost is repeated with its token until it is answered: the store gives the
  same tasks while their runs are active (docs/rulings.md, R31).
- Each claim says which types the worker has code for, and brings nothing else (docs/rulings.md,
  R32).
- A parked claim stays with the store, which hands the next task to it directly as that task is
  created. The loop repeats the token of the parked claim with its next one, which takes it back.
- The loop subscribes to hints, then asks, then sleeps, so that no hint falls between
  (docs/rulings.md, R30).
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from andon.contract.topics import Listener, ready_topic
from andon.coroutines.once_waiting import once_waiting
from andon.engine.base import Engine
from andon.lifecycle.constants import SLOW_POLL_S
from andon.model.code import Code
from andon.model.errors import ConfigurationError, StoreError, StoreUnavailable
from andon.model.task import Task
from andon.worker.background import is_asked_to_end
from andon.worker.backoff import Backoff
from andon.worker.claiming.policy import (
    QUICK_S,
    Claim,
    ClaimSettings,
    ClaimView,
    Park,
    Release,
    Repeat,
    Sleep,
    Start,
    Step,
    Stop,
    may_park,
    next_step,
)
from andon.worker.claiming.queues import QueueOrder
from andon.worker.claiming.requests import ClaimRequests, SentClaim
from andon.worker.claiming.rotation import PartitionRotation
from andon.worker.runs import Runs
from andon.worker.type_limits import TypeLimits

logger = logging.getLogger("andon.worker")

_LEAST_BATCH = 16
"""How many tasks a claim asks for at least, if there is room for them."""

_PARK_AFTER_S = 0.002
"""How long a worker must be without runs before it parks its claim, so that it does not between
tasks in quick succession."""

_LEAST_LEASE_S = 20.0
"""A worker with shorter leases parks no claim. The lease of a run counts from when its claim was
sent, so that the worker never assumes a longer lease than it has, and a claim stays parked for up
to a slow poll. A third of the lease must be left then, or it would be renewed before it begins."""


class _Claimed(NamedTuple):
    """A claimed task that was not started yet."""

    task: Task
    granted_after: float  #: as in its `SentClaim`


class ClaimLoop:
    """Keeps the worker's slots filled."""

    def __init__(
        self,
        engine: Engine,
        runs: Runs,
        order: QueueOrder,
        limits: TypeLimits,
        *,
        worker: str,
        concurrency: int,
        lease: float,
        rng: random.Random,
        clock: Callable[[], float],
        poll_s: float = SLOW_POLL_S,
    ) -> None:
        """`poll_s`: seconds between polls when no hint comes, for hints may be lost."""
        self._engine = engine
        self._runs = runs
        self._order = order
        self._limits = limits
        self._worker = worker
        self._has_long_leases = lease >= _LEAST_LEASE_S
        self._requests = ClaimRequests(order, limits, worker=worker, lease=lease, clock=clock)
        self._rng = rng
        self._clock = clock
        self._settings = ClaimSettings(
            concurrency=concurrency,
            # So many that this process and the store both have work.
            batch=max(concurrency // engine.in_flight, _LEAST_BATCH),
            prefetches=engine.claims_ahead,
            poll_s=poll_s,
        )
        self._known = ClaimView(last_pause=poll_s)  #: what the loop itself knows; `_view` has all
        self._wake = asyncio.Event()
        self._asleep = ""  #: the reason of the sleep that is under way
        self._backoff = Backoff(rng)
        self._listener: Listener | None = None
        self._rotation = PartitionRotation(1, rng=rng, clock=clock)
        self._claimed: deque[_Claimed] = deque()  #: not started yet; the oldest first
        self._unanswered: SentClaim | None = None  #: the claim that was sent last
        self._parked: SentClaim | None = None  #: the claim that is parked, or may be
        self._park_timer: asyncio.TimerHandle | None = None
        self._started_at: float | None = None  #: while tasks of the last claim run
        self._round_began = 0.0
        self._round_hinted = False

    # --- what changes from outside ---

    def freed(self) -> None:
        """A run ended, or its report was taken."""
        if self._started_at is not None and not self._runs.running:
            self._note(was_quick=self._clock() - self._started_at < QUICK_S)
            self._started_at = None
            if self._claimed and self._unanswered is not None:
                self._fill_slots()
        if self._asleep == "no-capacity":
            self._rouse()
        elif self._runs.type_freed:
            self._runs.type_freed = False
            self._rouse()
        elif self._settings.parks and self._asleep == "no-work":
            self._park_soon()

    def queues_changed(self) -> None:
        """Listen to other queues from now on."""
        self._close_listener()
        self._rouse()

    def set_code(self, code: Code) -> None:
        """Claim all task types that the worker has code for by now, beginning at once."""
        self._requests.code = code
        self._note(empty_wakes=0)
        self._rouse()

    def set_quiet(self, quiet: bool) -> None:
        """Claim nothing while quiet."""
        self._note(quiet=quiet)
        self._rouse()

    def set_fleet(self, *, workers: int, idle: int) -> None:
        """How many workers there are, and how many of them have free slots; with this one."""
        self._rotation.workers, self._rotation.idle = workers, idle

    def stop(self) -> None:
        """Claim no more; `run` returns once the claim under way was answered."""
        self._note(stopping=True)
        self._rouse()

    def _rouse(self) -> None:
        """Wake the loop."""
        self._wake.set()
        if self._asleep == "no-work" and self._listener is not None:
            self._listener.notify()

    # --- the view ---

    def _note(self, **facts: object) -> None:
        self._known = msgspec.structs.replace(self._known, **facts)

    def _view(self) -> ClaimView:
        runs, order = self._runs, self._order
        return msgspec.structs.replace(
            self._known,
            now=self._clock(),
            has_queues=bool(order.names),
            running=runs.running,
            reporting=len(runs.in_hand) - runs.running,
            has_limited_types=self._limits.has_any,
            unstarted=len(self._claimed),
            is_unanswered=self._unanswered is not None,
            hinted=self._wake.is_set(),
            rate_interval=order.shortest_interval,
        )

    # --- the loop ---

    async def run(self, partitions: int) -> None:
        """Claim until stopped."""
        self._rotation = PartitionRotation(partitions, rng=self._rng, clock=self._clock)
        parks = self._engine.parks_claims and self._has_long_leases
        self._settings = msgspec.structs.replace(self._settings, parks=parks)
        self._begin_round()
        self._engine.on_handoff(self._worker, self._handed_over)
        try:
            while (step := next_step(self._settings, self._view())) != Stop():
                try:
                    await self._execute(step)
                except (Exception, asyncio.CancelledError) as error:
                    if is_asked_to_end(error):
                        raise
                    self._failed(error)
            await self._withdraw()
        finally:
            self._engine.on_handoff(self._worker, None)
            self._cancel_park_timer()
            self._close_listener()

    async def _execute(self, step: Step) -> None:
        match step:
            case Claim(limit, prefetch):
                await self._claim(self._next_claim(limit), prefetch=prefetch)
            case Park(limit):
                await self._claim(self._next_claim(limit, parks=True))
            case Repeat():
                assert self._unanswered is not None
                partition = self._rotation.partition
                await self._claim(self._requests.repeated(self._unanswered, partition))
            case Start(count):
                self._start_claimed(count)
            case Release(late):
                self._release_claimed(late=late)
            case Sleep("no-work", seconds) if seconds is not None:
                await self._sleep_until_hinted(seconds)
            case Sleep("no-capacity", seconds):
                await self._sleep_until_freed(seconds)
            case Sleep("retry", seconds):
                await self._sleep_before_retry(seconds)
            case Sleep(_, seconds):
                await asyncio.sleep(seconds or 0.0)
            case Stop():
                pass

    def _failed(self, error: BaseException) -> None:
        _log(error)
        self._note(retry_in=self._backoff.failed())

    # --- claims ---

    def _next_claim(self, limit: int, *, parks: bool = False) -> SentClaim:
        if not self._known.to_ask:
            self._begin_round(hinted=True)
        partition = self._rotation.partition
        return self._requests.make(partition, limit, parks=parks, parked=self._parked)

    async def _claim(self, claim: SentClaim, *, prefetch: bool = False) -> None:
        if self._listener is None:
            self._listener = self._engine.listen([ready_topic(q) for q in self._order.names])
        self._unanswered = claim
        if claim.request.parks:
            self._parked = claim
        claiming = self._engine.claim(claim.request)
        if prefetch:
            claiming = once_waiting(claiming, self._fill_slots)
        self._answered(claim, await claiming)

    def _answered(self, claim: SentClaim, tasks: list[Task]) -> None:
        self._unanswered = None
        if tasks or self._parked is not claim:  # else nothing was handed over meanwhile
            self._parked = None
        else:
            self._parked = claim._replace(granted_after=claim.sent_at)
        self._claimed.extend(_Claimed(task, claim.granted_after) for task in tasks)
        now = self._clock()
        if len(tasks) >= claim.request.limit:
            self._backoff.succeeded()
            self._note(was_full=True, answered_at=now, empty_wakes=0)
            self._rotation.filled()
            self._begin_round()
            return
        self._rotation.move_on()
        known = self._known
        got = known.got + len(tasks)
        facts = {"was_full": False, "answered_at": now, "got": got, "to_ask": known.to_ask - 1}
        if known.to_ask == 1:
            empty = known.empty_wakes + 1 if self._round_hinted and not got else 0
            facts |= {
                "empty_wakes": empty,
                "round_s": now - self._round_began,
                "round_ended_at": now,
            }
        self._note(**facts)

    def _begin_round(self, *, hinted: bool = False, polls: bool = False) -> None:
        """Ask all partitions from now on, or, for a poll, this worker's share of them."""
        self._wake.clear()
        self._round_began = self._clock()
        self._round_hinted = hinted
        self._note(to_ask=self._rotation.partitions_to_poll(polls=polls), got=0)

    # --- claimed tasks ---

    def _fill_slots(self) -> None:
        """Start as many of the claimed tasks as there are slots, while a claim is under way. Those
        that are left start together when these have ended, which takes the processor less than one
        by one (docs/decisions/claiming-ahead.md), or when the claim has been answered."""
        known = self._known
        if not (known.stopping or known.quiet):
            free = self._settings.concurrency - self._runs.running
            self._start_claimed(min(free, len(self._claimed)))

    def _start_claimed(self, count: int) -> None:
        """Start the first `count` tasks that were claimed."""
        self._begin_runs()
        for _ in range(count):
            task, granted_after = self._claimed.popleft()
            self._runs.start(task, granted_after)

    def _begin_runs(self) -> None:
        self._cancel_park_timer()
        if self._known.rested:
            self._note(rested=False)
        if self._settings.prefetches:
            self._started_at = self._clock()

    def _release_claimed(self, *, late: bool) -> None:
        if late:
            self._note(released_at=self._clock())
        while self._claimed:
            task, granted_after = self._claimed.popleft()
            self._runs.hand_back(task, granted_after)

    # --- sleep ---

    async def _sleep_until_hinted(self, seconds: float) -> None:
        listener = self._listener
        assert listener is not None
        if seconds != self._known.last_pause:
            self._note(last_pause=seconds)
        if self._settings.parks:
            self._park_soon()
        self._asleep = "no-work"
        try:
            hinted = await listener.wait(seconds * (0.75 + 0.5 * self._rng.random()))
        finally:
            self._asleep = ""
        self._backoff.succeeded()
        hinted = hinted or self._wake.is_set()
        # No hint says that a rate limit allows more, so every partition is asked for that.
        polls = not hinted and not self._known.got and self._order.shortest_interval is None
        self._begin_round(hinted=hinted, polls=polls)

    async def _sleep_until_freed(self, seconds: float | None) -> None:
        self._wake.clear()
        self._asleep = "no-capacity"
        try:
            await self._withdraw()
            await self._wait_for_wake(seconds)
        finally:
            self._asleep = ""
        self._begin_round()

    async def _sleep_before_retry(self, seconds: float | None) -> None:
        self._note(retry_in=None)
        self._wake.clear()
        await self._wait_for_wake(seconds)
        self._wake.set()  # hints may have been lost meanwhile

    async def _wait_for_wake(self, seconds: float | None) -> None:
        if seconds is None:
            await self._wake.wait()
            return
        timer = asyncio.get_running_loop().call_later(seconds, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()

    def _close_listener(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    # --- parked claims ---

    def _park_soon(self) -> None:
        """Park a claim, where that can be done, when nothing has run for a moment."""
        if self._park_timer is None and self._can_park():
            loop = asyncio.get_running_loop()
            self._park_timer = loop.call_later(_PARK_AFTER_S, self._has_rested)

    def _has_rested(self) -> None:
        self._park_timer = None
        if self._asleep == "no-work" and self._can_park():
            self._note(rested=True)
            self._rouse()

    def _can_park(self) -> bool:
        return self._parked is None and may_park(
            self._settings, self._runs.running, self._limits.has_any
        )

    def _cancel_park_timer(self) -> None:
        if self._park_timer is not None:
            self._park_timer.cancel()
            self._park_timer = None

    def _handed_over(self, tasks: list[Task]) -> None:
        """Start what was handed to the parked claim. No more is claimed for that: hints tell of
        other tasks."""
        parked, self._parked = self._parked, None
        try:
            assert parked is not None
            self._take(tasks, parked)
        except Exception as error:  # the caller reads for the whole process
            _log(error)

    def _take(self, tasks: Sequence[Task], claim: SentClaim) -> None:
        """Start tasks that came without a claim being answered, or hand them back."""
        if self._known.stopping or self._known.quiet:
            for task in tasks:
                self._runs.hand_back(task, claim.granted_after)
        elif tasks:
            self._begin_runs()
            for task in tasks:
                self._runs.start(task, claim.granted_after)

    async def _withdraw(self) -> None:
        """Take the parked claim back. If the store is away, the claim lapses there by itself."""
        parked = self._parked
        if parked is None:
            return
        nothing = msgspec.structs.replace(parked.request, limit=0, parks=False)
        try:
            tasks = await self._engine.claim(nothing)
        except Exception as error:
            _log(error)
            return
        self._parked = None
        self._take(tasks, parked)


def _log(error: BaseException) -> None:
    if isinstance(error, StoreUnavailable):
        logger.warning("The store did not answer a claim, trying again: %s", error)
    elif isinstance(error, StoreError | ConfigurationError):
        logger.error("The store refuses a claim, trying again: %s", error)
    else:
        logger.error("A claim failed, trying again.", exc_info=error)
