"""The claim loop: asks for as many tasks as can start at once, and sleeps while there are none.

One claim is under way at a time; what is freed meanwhile goes into the next one, so claims grow
with the load by themselves. At most twice as many runs are in hand as run at once: the others are
being reported. When a claim brought less than there was room for, the loop sleeps
until a hint, until a limited type has room again, or until the slow poll (R30). Which partition
it asks is decided in `turns`.

A worker whose runs are over within milliseconds would do nothing half of its time, while the next
claim is answered. Where the store's work is done elsewhere, it claims ahead: the next claim leaves
before the runs begin that came with the last one, and asks for twice as many as may run at once, up
to what goes with one commit: runs that wait for nothing need no slot each (`slots`). If they turn
out to take longer, what was claimed ahead waits for slots, for a moment; then it is given back, at
no cost of a try, and others may have it. Who was mistaken so claims nothing ahead for a minute. At
most four times as many runs are in hand then as come with such a claim, half of them with their
reports under way.

A worker that has run nothing for a moment lets its claim stand, where the store can do that: the
next task is then handed over to it as it is created, and it starts it without asking. It asks again
with the same token, which takes the standing claim back, whenever it is woken by anything else.

Each claim says what the worker has code for, and brings nothing else (R32). A hint says only that
its queue has something to claim, so it may be for others: who is woken in vain again and again
looks less often than it is woken, for as long as that goes on.
"""

import asyncio
import logging
import random
import secrets
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from andon.contract.limits import MAX_BATCH
from andon.contract.requests import ClaimRequest
from andon.contract.topics import Listener, ready_topic
from andon.coroutines.once_waiting import once_waiting
from andon.engine.base import Engine
from andon.lifecycle.constants import SLOW_POLL_S
from andon.model.code import Code
from andon.model.errors import ConfigurationError, StoreError, StoreUnavailable
from andon.model.task import Task
from andon.worker.background import is_asked_to_end
from andon.worker.limits import Limits
from andon.worker.patience import Patience
from andon.worker.queues import QueueOrder
from andon.worker.runs import Runs
from andon.worker.turns import Turns

logger = logging.getLogger("andon.worker")

_SHORTEST_POLL_S = 0.05
"""How often a rate-limited queue is asked at most."""

_LEAST_SHARE = 16
"""What a claim asks for at least, if there is room for it."""


_QUIET_S = 0.002
"""How long a worker runs nothing before its claim stands: not between tasks that come at once."""

_LEAST_LEASE_S = 20.0
"""Leases of less do not stand: a run's lease is counted from when its claim was sent, so that the
worker never thinks it longer than it is, and a claim stands for a slow poll. A third of the lease
must be left then, or it would be renewed before it begins."""


_QUICK_S = 0.03
"""Runs are quick if all of a claim are over so soon after it was answered."""

_NOT_AGAIN_S = 60.0
"""How long nothing is claimed ahead after something of that had to be given back."""

_LONGEST_BREATH_S = 0.05
"""How long a worker that is woken in vain waits before it looks again, at the most."""

_FEW_IN_VAIN = 2
"""From how many looks in vain, one after the other, a worker waits before the next."""

_BREATHS = 8
"""How many times as long as it looks a worker waits at the most, when it is woken in vain."""

_REPORTED_AHEAD = 2
"""For how many claims ahead there may be reports under way when one more leaves: of one, they are
with the store while those of the next gather."""


class _Attempt(NamedTuple):
    request: ClaimRequest
    sent_at: float  # monotonic seconds
    granted_after: float  #: its runs may have been claimed since then, if it stood before


class Claims:
    """Keeps the worker's slots filled."""

    def __init__(
        self,
        engine: Engine,
        runs: Runs,
        order: QueueOrder,
        limits: Limits,
        *,
        worker: str,
        concurrency: int,
        lease: float,
        rng: random.Random,
        clock: Callable[[], float],
        poll_s: float = SLOW_POLL_S,
    ) -> None:
        """`poll_s`: how often to look though nobody hinted, for hints may be lost."""
        self._clock = clock
        self._poll_s = poll_s
        self._engine = engine
        self._runs = runs
        self._order = order
        self._limits = limits
        self._worker = worker
        self._concurrency = concurrency
        # Of what there is room for, so much at once that this process and the store both have
        # something to do.
        self._share = max(concurrency // engine.in_flight, _LEAST_SHARE)
        self._ahead = 0  #: what a claim ahead asks for; 0: there is none
        if engine.claims_ahead:
            self._ahead = max(concurrency, min(2 * concurrency, MAX_BATCH))
        self._took_at: float | None = None  #: while something of the last claim may run
        self._quick = False  #: all of the last claim was over soon
        self._pressed = False  #: the last claim brought all that may run at once, or more
        self._lease = lease
        self._rng = rng
        self._wake = asyncio.Event()
        self._full = False
        self._sleeping = False  #: until a hint; not: until it has room, or after an error
        self._stopped = False
        self._quiet = False
        self._listener: Listener | None = None
        self._turns = Turns(1, rng=rng, clock=clock)
        self._polls = False  #: it looks because of the slow poll, not because it was told
        self._pause = poll_s
        self._can_stand = False  #: the store lets claims stand, and leases are long enough
        self._rested = False  #: it has run nothing for a moment
        self._standing: _Attempt | None = None  #: the claim that stands, or may
        self._resting: asyncio.TimerHandle | None = None
        self._code: Code | None = None
        self._vain = 0  #: times in a row that it was woken and found nothing
        self._looked_at = 0.0  #: when it last found nothing, and
        self._looked_for = 0.0  #: how long it looked

    # --- what changes from outside ---

    def freed(self) -> None:
        """A run ended, or its report was taken."""
        if self._took_at is not None and not self._runs.slots.unended:
            self._quick = self._clock() - self._took_at < _QUICK_S
            self._took_at = None
        if self._full:
            self._rouse()
        elif self._runs.type_freed:
            self._runs.type_freed = False
            self._rouse()
        elif self._sleeping:
            self._rest()

    def _may_stand(self) -> bool:
        """Whether a claim may stand: only while nothing runs, or a handler that blocks the loop
        would keep what is handed over from idle workers; and only with room for every type."""
        return self._can_stand and not self._runs.slots.unended and not self._limits.room()

    def _rest(self) -> None:
        """Let a claim stand when nothing has run for a moment."""
        if not self._can_stand:
            return
        if self._standing is None and self._resting is None and self._may_stand():
            self._resting = asyncio.get_running_loop().call_later(_QUIET_S, self._has_rested)

    def _has_rested(self) -> None:
        self._resting = None
        if self._sleeping and self._standing is None and self._may_stand():
            self._rested = True
            self._rouse()

    def _stop_resting(self) -> None:
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None

    def queues_changed(self) -> None:
        """Listen to other queues from now on."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        self._rouse()

    def set_code(self, code: Code) -> None:
        """Claim what the worker has code for by now, and look for it at once."""
        self._code = code
        self._vain = 0
        self._rouse()

    def set_quiet(self, quiet: bool) -> None:
        """Claim nothing while quiet."""
        self._quiet = quiet
        if quiet:
            self._runs.slots.give_back()
        self._rouse()

    def fleet(self, *, workers: int, idle: int) -> None:
        """How many workers there are, and how many of them have room; with this one."""
        self._turns.workers, self._turns.idle = workers, idle

    def stop(self) -> None:
        """Claim no more; `run` returns once the claim under way was answered."""
        self._stopped = True
        self._runs.slots.give_back()
        self._rouse()

    def _rouse(self) -> None:
        """Wake the loop. While it sleeps, what it waits for is a hint, and this is one."""
        self._wake.set()
        if self._sleeping and self._listener is not None:
            self._listener.notify()

    # --- the loop ---

    async def run(self, partitions: int) -> None:
        """Claim until stopped."""
        self._turns = Turns(partitions, rng=self._rng, clock=self._clock)
        patience = Patience(self._rng)
        self._can_stand = self._engine.hands_over and self._lease >= _LEAST_LEASE_S
        self._engine.hand_over_to(self._worker, self._handed_over)
        try:
            while not self._stopped:
                try:
                    await self._run_once()
                    patience.succeeded()
                except (Exception, asyncio.CancelledError) as error:
                    if is_asked_to_end(error):
                        raise
                    _log(error)
                    self._polls = False  # hints may have been lost meanwhile
                    await self._sleep_for(patience.failed())
            await self._withdraw()
        finally:
            self._engine.hand_over_to(self._worker, None)
            self._stop_resting()
            if self._listener is not None:
                self._listener.close()
                self._listener = None

    async def _run_once(self) -> None:
        if self._vain >= _FEW_IN_VAIN:
            await self._take_breath()
        self._wake.clear()
        room = self._room()
        if room <= 0:
            await self._withdraw()
            self._full = True
            await self._wake.wait()
            self._full = self._polls = False
            return
        if self._listener is None:  # subscribe, then check, then sleep
            self._listener = self._engine.listen([ready_topic(q) for q in self._order.names])
        began = self._clock()
        got = 0
        for look in range(self._turns.looks(polls=self._polls)):
            if look:
                room = self._room()
                if room <= 0:
                    return
            tasks, attempt = await self._claim(room)
            while self._starves():
                self._turns.filled()
                take = partial(self._take, tasks, attempt)
                tasks, attempt = await once_waiting(self._claim(self._ahead), take)
            self._take(tasks, attempt)
            got += len(tasks)
            if self._pressed or self._stopped:
                self._turns.filled()
                self._polls = False
                self._vain = 0
                return
            self._turns.move_on()
        self._looked_at = self._clock()
        self._looked_for = self._looked_at - began
        self._rest()
        told = await self._sleep(self._listener, self._next_pause(got))
        self._vain = self._vain + 1 if told and not got else 0
        # Of what a rate limit allows by now nobody tells, so it is looked for everywhere.
        self._polls = not told and not got and self._order.shortest_interval is None

    def _room(self) -> int:
        if self._quiet or self._stopped or not self._order.names:
            return 0
        if self._starves():
            return self._ahead
        free = self._concurrency - self._runs.slots.unended
        # Claim while reports are under way, or the store is idle while we work and we while it
        # does; but not on and on, if it is slower than we are. And not a part of what is free, or
        # two claims of a part each would go round and round.
        room = free + self._concurrency - self._runs.reporting
        share = min(free, self._share)
        return share if room >= share else 0

    def _starves(self) -> bool:
        """Whether to claim ahead: there is more to do than may run at once, and what ran last was
        over soon."""
        return (
            self._ahead > 0
            and self._quick
            and self._pressed
            and not self._runs.slots.unended
            and self._clock() > self._runs.slots.given_back_at + _NOT_AGAIN_S
            and not (self._quiet or self._stopped)
            and self._runs.reporting <= _REPORTED_AHEAD * self._ahead
            and not self._limits.room()
        )

    async def _claim(self, limit: int) -> tuple[list[Task], _Attempt]:
        """One intended claim, repeated with its token while its reply may have been lost (R31)."""
        patience = Patience(self._rng)
        attempt = self._attempt(limit, self._standing)
        while not self._stopped:
            if self._clock() > attempt.sent_at + self._lease / 2:
                # After so long, what a lost reply granted is nearly over; begin anew.
                attempt = self._attempt(limit, None)
            if attempt.request.stands:
                self._standing = attempt
            try:
                tasks = await self._engine.claim(attempt.request)
            except (Exception, asyncio.CancelledError) as error:
                if is_asked_to_end(error):
                    raise
                _log(error)
                await self._sleep_for(patience.failed())
                continue
            self._pressed = len(tasks) >= min(limit, self._concurrency)
            if tasks or self._standing is not attempt:  # else nothing was handed over meanwhile
                self._standing = None
            else:
                self._standing = attempt._replace(granted_after=attempt.sent_at)
            return tasks, attempt
        self._pressed = False
        return [], attempt

    def _attempt(self, limit: int, standing: _Attempt | None) -> _Attempt:
        """A new claim, or one that repeats the token of the one that stands."""
        request = ClaimRequest(
            worker=self._worker,
            token=secrets.token_hex(8) if standing is None else standing.request.token,
            queues=self._order.next(),
            limit=limit,
            lease_ms=round(self._lease * 1000),
            room=self._limits.room(),
            partition=self._turns.partition,
            code=self._code,
            stands=self._rested and self._may_stand(),
        )
        now = self._clock()
        return _Attempt(request, now, now if standing is None else standing.granted_after)

    def _take(self, tasks: Sequence[Task], attempt: _Attempt) -> None:
        """Start what was claimed; what came too late goes back."""
        if tasks:
            self._rested = False
            if self._resting is not None:
                self._stop_resting()
            self._took_at = self._clock()
        for task in tasks:
            if self._stopped or self._quiet:
                self._runs.hand_back(task, attempt.granted_after)
            else:
                self._runs.start(task, attempt.granted_after)

    def _handed_over(self, tasks: list[Task]) -> None:
        """Start what was handed over to the claim that stands. That is no reason to look for more:
        of what else there is, hints tell."""
        standing, self._standing = self._standing, None
        try:
            assert standing is not None
            self._take(tasks, standing)
        except Exception as error:  # its caller reads for the whole process
            _log(error)

    async def _withdraw(self) -> None:
        """Let no claim stand any more. If the store is away, it falls by itself soon."""
        standing = self._standing
        if standing is None:
            return
        nothing = msgspec.structs.replace(standing.request, limit=0, stands=False)
        try:
            tasks = await self._engine.claim(nothing)
        except Exception as error:
            _log(error)
            return
        self._standing = None
        self._take(tasks, standing)

    def _next_pause(self, got: int) -> float:
        """Seconds to sleep without a hint. Nobody hints when a rate limit allows more, so as long
        as such a queue yields, it is asked again at its own rate."""
        interval = self._order.shortest_interval
        if interval is None:
            self._pause = self._poll_s
        else:
            self._pause = max(interval, _SHORTEST_POLL_S) if got else self._pause * 2
            self._pause = min(self._pause, SLOW_POLL_S)
        return self._pause * (0.75 + 0.5 * self._rng.random())

    async def _sleep(self, listener: Listener, seconds: float) -> bool:
        """Sleep until woken or for so long; whether somebody or something woke it."""
        if self._wake.is_set():
            return True
        self._sleeping = True
        try:
            return await listener.wait(seconds) or self._wake.is_set()
        finally:
            self._sleeping = False

    async def _take_breath(self) -> None:
        """Wait a moment after the last look, which was one of several in vain: what is woken by
        each task of others must not ask the store without end. Hints gather meanwhile."""
        breath = min(self._looked_for * min(self._vain, _BREATHS), _LONGEST_BREATH_S)
        left = self._looked_at + breath - self._clock()
        if left > 0:
            await asyncio.sleep(left)

    async def _sleep_for(self, seconds: float) -> None:
        """Sleep, but not past a stop."""
        if self._stopped:
            return
        timer = asyncio.get_running_loop().call_later(seconds, self._wake.set)
        self._wake.clear()
        await self._wake.wait()
        timer.cancel()


def _log(error: BaseException) -> None:
    if isinstance(error, StoreUnavailable):
        logger.warning("The store did not answer a claim, trying again: %s", error)
    elif isinstance(error, StoreError | ConfigurationError):
        logger.error("The store refuses a claim, trying again: %s", error)
    else:
        logger.error("A claim failed, trying again.", exc_info=error)
