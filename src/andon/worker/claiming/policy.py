"""The claim policy: what the claim loop does next, decided from what it knows. Pure.

`next_step` takes a frozen view of the loop and returns one step. The loop (`claiming.loop`) keeps
the view up to date and executes the step. The rules, in the order in which they apply:

1. A worker that stops releases the tasks that it has not started, and ends the loop.
2. A claim whose reply was lost is repeated after a pause, before anything else is decided: the
   store may have granted it.
3. Claimed tasks start as soon as slots are free. If the last tasks ended quickly and the last claim
   was full, the next claim leaves before they start (prefetch), and asks for twice the slots, so
   that the store answers it while they run. Prefetched tasks that get no slot within a moment are
   released for other workers, and the worker does not prefetch for a minute.
4. A worker claims all that fits at once, or as much as keeps both this process and the store busy.
   It also claims while reports are on their way to the store, but never holds more reports than
   slots: otherwise it would claim on and on from a store that is slower than the worker.
5. After a full claim it claims again. After a short claim it asks the next partition, and when it
   has asked all partitions that it should, it sleeps until a hint or the slow poll.
6. A worker that has run nothing for a moment parks its claim, where the store can do that: the
   next task is then handed to it directly as the task is created.
7. A worker that hints wake again and again for nothing waits a moment before it claims, up to
   `LONGEST_COOLDOWN_S`, because a hint names a queue but not the types that the worker can run.
"""

import math
from typing import Literal

import msgspec

from andon.lifecycle.constants import SLOW_POLL_S

SHORTEST_POLL_S = 0.05
"""Seconds between claims from a rate-limited queue, at least."""

QUICK_S = 0.03
"""The tasks of a claim ended quickly if all of them ended so soon after its answer."""

NO_PREFETCH_S = 60.0
"""How long a worker does not prefetch after it had to release prefetched tasks."""

LONGEST_HOLD_S = 0.1
"""How long claimed tasks may wait for a slot after the last answer before they are released."""

PREFETCHED = 2
"""A prefetching claim asks for so many times the slots: the tasks of one answer start in two
halves, and each claim and each commit is for twice as many."""

REPORTED_AT_PREFETCH = 2 * PREFETCHED
"""A worker prefetches while it has at most so many times its slots in reports: the reports of one
claim are with the store while those of the next gather."""

LONGEST_COOLDOWN_S = 0.05
"""How long a worker waits at most before it claims, when hints wake it for nothing."""

EMPTY_WAKES = 2
"""After how many wakes in a row that brought nothing a worker waits before it claims."""

MOST_ROUNDS = 8
"""A worker that hints wake for nothing waits at most so many times as long as its round took."""


class ClaimSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What does not change while a claim loop runs."""

    concurrency: int  #: handlers that may run at once
    batch: int  #: tasks that one claim asks for at most, unless it is a prefetch
    prefetches: bool = False  #: the store is best asked while the last tasks run
    parks: bool = False  #: the store can park claims, and leases are long enough for that
    poll_s: float = SLOW_POLL_S  #: seconds between polls when no hint comes

    @property
    def prefetched(self) -> int:
        """How many tasks a prefetching claim asks for."""
        return PREFETCHED * self.concurrency


class ClaimView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a claim loop knows at one moment. Times are monotonic seconds."""

    now: float = 0.0

    stopping: bool = False
    quiet: bool = False  #: claims nothing until told otherwise
    has_queues: bool = True

    running: int = 0  #: handlers that were started and have not ended
    reporting: int = 0  #: runs whose reports are on their way to the store
    has_limited_types: bool = False  #: some types may run less often at once than there are slots

    unstarted: int = 0  #: tasks that were claimed and not started
    answered_at: float = 0.0  #: when the claim that brought them was answered

    retry_in: float | None = None  #: seconds to wait, after a failure
    is_unanswered: bool = False  #: the reply to the last claim was lost

    was_full: bool = False  #: the last claim brought all that it asked for
    was_quick: bool = False  #: the tasks of the last claim have ended, within `QUICK_S`
    released_at: float = -math.inf  #: when prefetched tasks were last released for want of a slot

    to_ask: int = 1  #: partitions to ask before the loop may sleep
    got: int = 0  #: tasks that came since the loop last slept
    hinted: bool = False  #: something changed since the loop began to ask

    rested: bool = False  #: nothing has run for a moment
    rate_interval: float | None = None  #: seconds between claims of the fastest rate-limited queue
    last_pause: float = SLOW_POLL_S  #: how long the loop last meant to sleep between polls

    empty_wakes: int = 0  #: wakes in a row after which nothing was found
    round_s: float = 0.0  #: how long it took to ask all partitions, and
    round_ended_at: float = -math.inf  #: when that was done


class Claim(msgspec.Struct, frozen=True):
    """Ask the store for up to `limit` tasks."""

    limit: int
    prefetch: bool = False
    """Send it first, then start the tasks of the last claim: as many as there are slots, and when
    those have ended the others."""


class Park(msgspec.Struct, frozen=True):
    """Claim, and leave the claim with the store if it finds nothing."""

    limit: int


class Repeat(msgspec.Struct, frozen=True):
    """Send the unanswered claim again."""


class Start(msgspec.Struct, frozen=True):
    """Start the first `count` tasks that were claimed."""

    count: int


class Release(msgspec.Struct, frozen=True):
    """Release the tasks that were claimed and not started, at no cost of a try."""

    late: bool = False  #: for want of slots


class Sleep(msgspec.Struct, frozen=True):
    """Do nothing until something happens or `seconds` have passed; None: without a bound."""

    reason: Literal["no-work", "no-capacity", "retry", "cooldown"]
    """What ends it early: a hint; a run that ended or a report that was taken; a change of what the
    worker is to do; nothing."""
    seconds: float | None


class Stop(msgspec.Struct, frozen=True):
    """End the loop."""


Step = Claim | Park | Repeat | Start | Release | Sleep | Stop


def next_step(settings: ClaimSettings, view: ClaimView) -> Step:
    """What the loop does next."""
    if view.stopping:
        return Release() if view.unstarted else Stop()
    if view.retry_in is not None and not view.unstarted:
        return Sleep("retry", view.retry_in)
    prefetch = settings.prefetches and should_prefetch(settings, view)
    if view.unstarted:
        return _with_claimed_tasks(settings, view, prefetch=prefetch)
    if view.is_unanswered:
        return Repeat()
    limit = _claim_limit(settings, view, prefetch=prefetch)
    if limit <= 0:
        return Sleep("no-capacity", None)
    if not view.to_ask and not view.hinted:
        return Sleep("no-work", _poll_pause(settings, view))
    if view.empty_wakes >= EMPTY_WAKES:
        cooldown = _cooldown(view)
        if cooldown > 0:
            return Sleep("cooldown", cooldown)
    if view.rested and may_park(settings, view.running, view.has_limited_types):
        return Park(limit)
    return Claim(limit)


def may_park(settings: ClaimSettings, running: int, has_limited_types: bool) -> bool:
    """Whether a claim may be parked. Only while nothing runs: a handler that blocks the event loop
    would keep what is handed over from idle workers. Only without limited types: what is handed
    over may be of any."""
    return settings.parks and not running and not has_limited_types


def should_prefetch(settings: ClaimSettings, view: ClaimView) -> bool:
    """Whether the next claim leaves before the claimed tasks start, and asks for more than can
    start now; of a store that is asked so."""
    return (
        view.was_quick
        and view.was_full
        and not view.running
        and not (view.quiet or view.stopping or view.has_limited_types)
        and view.has_queues
        and view.retry_in is None
        and view.reporting <= REPORTED_AT_PREFETCH * settings.concurrency
        and view.now > view.released_at + NO_PREFETCH_S
    )


def _with_claimed_tasks(settings: ClaimSettings, view: ClaimView, *, prefetch: bool) -> Step:
    if view.quiet:
        return Release()
    if prefetch:
        return Claim(settings.prefetched, prefetch=True)
    free = settings.concurrency - view.running
    if free > 0:
        return Start(min(free, view.unstarted))
    left = view.answered_at + LONGEST_HOLD_S - view.now
    return Sleep("no-capacity", left) if left > 0 else Release(late=True)


def _claim_limit(settings: ClaimSettings, view: ClaimView, *, prefetch: bool) -> int:
    """How many tasks to claim; 0: there is no room for a claim."""
    if view.quiet or not view.has_queues:
        return 0
    if prefetch:
        return settings.prefetched
    free = settings.concurrency - view.running
    batch = min(free, settings.batch)
    # Not a part of what is free: claims of one part each would go round and round.
    unreported = settings.concurrency - view.reporting
    return batch if free + unreported >= batch else 0


def _poll_pause(settings: ClaimSettings, view: ClaimView) -> float:
    """Seconds to sleep without a hint. No hint says that a rate limit allows more, so as long as a
    rate-limited queue yields tasks, it is asked again at its own rate."""
    if view.rate_interval is None:
        return settings.poll_s
    pause = max(view.rate_interval, SHORTEST_POLL_S) if view.got else view.last_pause * 2
    return min(pause, SLOW_POLL_S)


def _cooldown(view: ClaimView) -> float:
    """Seconds to wait after the last round, of several that were woken for nothing. Hints gather
    meanwhile."""
    pause = min(view.round_s * min(view.empty_wakes, MOST_ROUNDS), LONGEST_COOLDOWN_S)
    return view.round_ended_at + pause - view.now
