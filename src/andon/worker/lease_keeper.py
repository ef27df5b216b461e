"""Keeps the leases of the runs in hand, from a thread of its own.

A handler that blocks the loop blocks no renewal: the keeper calls `renew_blocking` of the engine.
All runs whose renewal is near go in one call, with the newest progress and heartbeats. Every run is
renewed each third of its lease, so two renewals may fail before it is in danger.

The keeper also gives runs up (docs/rulings.md, R19): one lease after the last good renewal was
*sent*, by this process's monotonic clock, the task may have been claimed by another worker, and the
handler is told to stop. The loop calls `expired` as well, because a store that hangs blocks the
keeper's thread.

A renewal that cannot be made fails alone: it is made once more without what its handler said, and
if that does not help either it is tried again later and later, while the others go on.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from andon.contract.isolation import Unwritable, each_alone_blocking
from andon.contract.limits import in_batches
from andon.contract.outcomes import Verdict
from andon.contract.refusals import renewal_refused
from andon.contract.requests import Renewal
from andon.model.errors import AccessError, ConfigurationError, StoreError, StoreUnavailable
from andon.worker.backoff import Backoff
from andon.worker.context import Context

logger = logging.getLogger("andon.worker")

MARKS_S = 0.25
"""Progress and heartbeats are sent at most this often."""

_SHARE = 3
"""Renewals per lease."""

_OF_THE_STORE = (StoreError, AccessError, ConfigurationError, OSError)
"""Errors that every renewal would meet; any other error is caused by one of the renewals."""


class Lease(msgspec.Struct, eq=False):
    """One run's hold on its task."""

    context: Context
    run: str  #: its id
    length: float  #: seconds from `sent_at` for which the run is surely ours
    renew_length: float  #: seconds that a renewal asks for
    sent_at: float  #: monotonic: when the last good renewal was sent
    beat_sent: float | None = None
    gone: bool = False
    unsaid: tuple[int | None, str] | None = None
    """Progress and message that cannot be written; the renewals go without them."""
    backoff: Backoff | None = None  #: while its renewals fail for a fault of their own
    wait_until: float = 0.0

    @property
    def due(self) -> float:
        """When the next renewal is to be sent."""
        if self.backoff is not None:
            return self.wait_until
        return self.sent_at + self.length / _SHARE


class Renews(Protocol):
    """The part of the engine that the keeper speaks to."""

    def renew_blocking(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        """Renew the leases of runs."""
        ...


class LeaseKeeper:
    """The thread that renews. `shortest` is the lease in seconds that runs are claimed with."""

    def __init__(
        self,
        engine: Renews,
        *,
        shortest: float,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self._engine = engine
        self._told: Callable[[Lease, Verdict], None] = _nobody
        self._shortest = shortest
        self._clock = clock
        self._rng = rng or random.Random()
        self._backoff = Backoff(self._rng)
        self._held: dict[str, Lease] = {}
        self._marked: dict[str, None] = {}  # run ids in order; single dict operations are atomic
        self._wake = threading.Event()
        self._stopping = False
        self._ask_all = False
        self._marks_sent_at = -MARKS_S
        self._thread: threading.Thread | None = None

    def start(self, told: Callable[[Lease, Verdict], None]) -> None:
        """Begin to renew. `told` gets each CANCEL and LOST verdict, in the keeper's thread."""
        assert self._thread is None
        self._told = told
        self._thread = threading.Thread(target=self._run, name="andon-leases", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; does not wait for a store that hangs."""
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=1.0)

    def hold(self, lease: Lease) -> None:
        """Keep this lease from now on."""
        self._held[lease.run] = lease
        if lease.due <= self._clock():  # its claim took long to be answered
            self._wake.set()

    def drop(self, run: str) -> None:
        """Stop keeping the lease of this run: it was reported, or given up."""
        self._held.pop(run, None)

    def mark(self, context: Context) -> None:
        """Send this run's progress and heartbeat soon. From any thread."""
        first = not self._marked
        self._marked[context.task.status.run] = None
        if first:  # else the keeper was notified already
            self._wake.set()

    def ask(self) -> None:
        """Renew everything now, to learn what the store knows: a cancel was hinted."""
        self._ask_all = True
        self._wake.set()

    def expired(self) -> None:
        """Give up the runs whose lease may have passed. From any thread."""
        now = self._clock()
        for lease in list(self._held.values()):
            if now >= lease.sent_at + lease.length and not lease.gone:
                logger.warning(
                    "Lease of task %s run %d passed without a renewal; giving it up.",
                    lease.context.task_id,
                    lease.context.run,
                )
                self._give_up(lease)

    def _give_up(self, lease: Lease) -> None:
        lease.gone = True
        self.drop(lease.run)
        self._tell(lease, Verdict.LOST)

    def _tell(self, lease: Lease, verdict: Verdict) -> None:
        try:
            self._told(lease, verdict)
        except Exception:  # the others' verdicts are delivered all the same
            logger.exception("Task %s was not told: %s.", lease.context.task_id, verdict)

    # --- the thread ---

    def _run(self) -> None:
        wait = self._shortest / _SHARE
        while not self._stopping:
            self._wake.wait(wait)
            if self._stopping:
                return
            wait = self.turn()

    def turn(self) -> float:
        """Call `run_once` and survive any error: the runs in hand depend on the next renewal."""
        try:
            return self.run_once()
        except Exception:
            logger.exception("The lease keeper failed; it goes on.")
            return self._backoff.failed()

    def run_once(self) -> float:
        """Give up what has passed, send what is due; seconds until the next time."""
        self._wake.clear()
        now = self._clock()
        self.expired()
        pause = self._marks_sent_at + MARKS_S - now
        leases = self._take_due(now, with_marks=pause <= 0)
        if leases:
            wait = self._renew(leases)
            if wait is not None:
                return wait
        now = self._clock()
        if self._marked:
            return max(self._marks_sent_at + MARKS_S - now, 0.0)
        nearest = min((lease.due for lease in list(self._held.values())), default=now + 3600)
        return max(min(nearest - now, self._shortest / _SHARE), 0.0)

    def _take_due(self, now: float, *, with_marks: bool) -> list[Lease]:
        held = list(self._held.values())
        if self._ask_all:
            self._ask_all = False
            return held
        # Leases that are due within half an interval are renewed, too: fewer, larger calls.
        soon = now + self._shortest / _SHARE / 2
        leases = [lease for lease in held if lease.due <= soon]
        if all(lease.due > now for lease in leases):
            leases = []
        if with_marks and self._marked:
            self._marks_sent_at = now
            known = {lease.run for lease in leases}
            for run in list(self._marked):
                self._marked.pop(run, None)
                lease = self._held.get(run)
                if lease is not None and run not in known and lease.backoff is None:
                    leases.append(lease)
        return leases

    def _renew(self, leases: list[Lease]) -> float | None:
        """Renew; None when done, else seconds to wait before trying again."""
        beats = {lease.run: self._beat(lease) for lease in leases}
        sent_at = self._clock()
        try:
            verdicts = self._asked(leases, beats, bare=False)
            refused = [lease for lease, v in verdicts.items() if v is Verdict.INVALID]
            if refused:
                verdicts.update(self._asked(refused, beats, bare=True))
                self._judge(refused, verdicts)
        except _OF_THE_STORE as error:
            level = logging.WARNING if isinstance(error, StoreUnavailable) else logging.ERROR
            logger.log(level, "Leases could not be renewed, trying again: %s", error)
            for lease in leases:
                if lease.context.beat_at != lease.beat_sent:
                    self._marked[lease.run] = None
            return min(self._backoff.failed(), self._shortest / _SHARE / 2)
        self._backoff.succeeded()
        for lease, verdict in verdicts.items():
            if verdict is Verdict.LOST:
                if self._held.get(lease.run) is lease:
                    self._give_up(lease)
                continue
            if verdict is Verdict.INVALID:
                continue
            lease.beat_sent = beats[lease.run]
            lease.sent_at = sent_at
            lease.length = lease.renew_length
            lease.backoff = None
            if verdict is Verdict.CANCEL:
                self._tell(lease, verdict)
        return None

    def _asked(
        self, leases: Sequence[Lease], beats: Mapping[str, float | None], *, bare: bool
    ) -> dict[Lease, Verdict]:
        """The verdict of the engine for each; INVALID for one whose renewal cannot be made, or for
        which the engine raises. `bare`: without progress and heartbeats of the handlers."""
        verdicts: dict[Lease, Verdict] = {}
        made: list[Renewal] = []
        of: list[Lease] = []
        for lease in leases:
            try:
                heartbeat = beats[lease.run] != lease.beat_sent
                made.append(_renewal(lease, heartbeat=heartbeat, bare=bare))
            except Exception as error:
                logger.error("%s cannot be renewed: %r", _name(lease), error)
                verdicts[lease] = Verdict.INVALID
            else:
                of.append(lease)
        answers: list[Verdict] = []
        for batch in in_batches(made):
            answers.extend(each_alone_blocking(self._send, batch, renewal_refused))
        verdicts.update(zip(of, answers, strict=True))
        return verdicts

    def _send(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        try:
            return self._engine.renew_blocking(renewals)
        except _OF_THE_STORE:
            raise
        except Exception as error:
            raise Unwritable(f"{type(error).__name__}: {error}") from error

    def _judge(self, leases: Sequence[Lease], verdicts: Mapping[Lease, Verdict]) -> None:
        """A run whose lease could not be renewed: renew it without its handler's progress, or
        later."""
        for lease in leases:
            context = lease.context
            if verdicts[lease] is not Verdict.INVALID:
                lease.unsaid = context.percent, context.message
                logger.error(
                    "%s: its progress cannot be written and is left out: %d %%, %.200r.",
                    _name(lease),
                    context.percent or 0,
                    context.message,
                )
                continue
            if lease.backoff is None:
                lease.backoff = Backoff(self._rng)
                logger.error("%s cannot be renewed; the others are. Trying again.", _name(lease))
            lease.wait_until = self._clock() + lease.backoff.failed()

    def _beat(self, lease: Lease) -> float | None:
        # Clear the flag before reading: a mark made in between sets it again and is sent next.
        lease.context.unmark()
        return lease.context.beat_at


def _nobody(lease: Lease, verdict: Verdict) -> None:
    """The callback while the keeper has not been started."""


def _name(lease: Lease) -> str:
    return f"Run {lease.context.run} of task {lease.context.task_id}"


def _renewal(lease: Lease, *, heartbeat: bool, bare: bool) -> Renewal:
    context = lease.context
    percent, message = context.percent, context.message
    if bare or (percent, message) == lease.unsaid:
        percent = None
    return Renewal(
        task=context.task_id,
        run=lease.run,
        lease_ms=round(lease.renew_length * 1000),
        heartbeat=heartbeat,
        progress=percent,
        message=None if percent is None else message,
    )
