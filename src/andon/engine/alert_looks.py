"""Evaluates the alert rules once a minute, in whichever timekeeper comes first, at a bounded cost.

A look writes what it found and the notices to be sent in one step, by compare and set: of several
timekeepers that look, one writes. The notices are an outbox: each is submitted as a task whose id
is derived from it, and removed from the outbox once the task is stored. A crash anywhere in between
loses and doubles nothing: the next look goes on from there.

Without rules, each timekeeper reads one setting a minute. An error here is logged and costs one
look. It affects no timer, because this is a separate loop.
"""

import asyncio
import logging
from collections.abc import Awaitable, Iterable
from random import Random
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from andon.contract.notes import Note, NoteName, NotePut, PutNote
from andon.contract.queries import Query
from andon.contract.store import Store
from andon.engine.alert_requests import AlertPreview
from andon.engine.alerts import STATE_NOTE, Alerts, shown_of
from andon.engine.letter_groups import LOOK, letter_groups
from andon.engine.rollups import Rollups
from andon.lifecycle.alerts.judging import judged
from andon.lifecycle.alerts.seeing import Readings, ScheduleReading, missing_workers, needs
from andon.lifecycle.constants import SLOW_POLL_S
from andon.lifecycle.minutes import MINUTE_MS
from andon.model.alerts import LEFT_NOTES, AlertBook, AlertState, Notice
from andon.model.errors import AndonError, QueueFull, StoreError
from andon.model.fleet import WorkerInfo
from andon.model.task import Task
from andon.model.words import Event, State

log = logging.getLogger("andon.timekeeper")

MOST_SCHEDULES = 500
"""How many schedules a look reads, the oldest first."""

_FIRST_S, _SPREAD_S = 9.0, 10.0
"""When to look after a minute has ended: once it is rolled up; spread, so that mostly one
timekeeper finds it undone."""

_LEFT_KEPT_MS = 600_000
_MOST_LEFT = 500
_ATTEMPTS = 10
_TOUCHES = frozenset({Event.PAUSE, Event.RESUME, Event.REVISE})

T = TypeVar("T")

_encode = msgspec.msgpack.Encoder().encode


class AlertLooks:
    """Looks at the alert rules of one store."""

    def __init__(
        self,
        store: Store,
        alerts: Alerts,
        rollups: Rollups,
        random: Random,
        *,
        poll_s: float = SLOW_POLL_S,
    ) -> None:
        """`poll_s`: how often loops that wait for hints look without one. Where that is rarer than
        usual, as in tests in virtual time, so are looks."""
        self._left_out_ms = round(max(0.0, poll_s / SLOW_POLL_S - 1)) * MINUTE_MS
        self._store = store
        self._alerts = alerts
        self._rollups = rollups
        self._random = random

    async def keep(self) -> None:
        """Look once in each minute, for ever."""
        while True:
            ms = self._left_out_ms + MINUTE_MS - self._store.now() % MINUTE_MS
            await asyncio.sleep(ms / 1000 + _FIRST_S + self._random.random() * _SPREAD_S)
            try:
                await self.look()
            except (AndonError, OSError) as error:
                log.warning("Nobody looked at the alert rules this minute: %s", error)
            except Exception as error:
                log.error("Nobody looked at the alert rules this minute.", exc_info=error)

    async def look(self) -> bool:
        """Look at the rules and submit the notices, unless another timekeeper has in this minute.
        Returns whether this call did."""
        book = await self._alerts.book()
        if not book.rules:
            return False
        state, stored = await self._alerts.state()
        now = self._store.now()
        if stored is not None and state.at // MINUTE_MS >= now // MINUTE_MS:
            return False  # another timekeeper was first
        after = judged(book, state, await self._read(book, state, now))
        [outcome] = await self._store.put_notes([PutNote(STATE_NOTE, _encode(after), stored)])
        if outcome is NotePut.INVALID:
            log.error("What is kept of alerts cannot be written: there is too much of it.")
        if outcome is not NotePut.WRITTEN:
            return False
        if after.owed:
            await self._hand_over(book, after)
        if set(state.workers or ()) - set(after.workers or ()):  # a worker left
            await _alone(self._tidy(after, now), "those who left")
        return True

    async def preview(self, book: AlertBook) -> AlertPreview:
        """What a look would find now; nothing is written."""
        state, _ = await self._alerts.state()
        after = judged(book, state, await self._read(book, state, self._store.now()))
        owed = {notice.key for notice in state.owed}
        told = tuple(one for one in after.owed if one.key not in owed)
        return AlertPreview(shown=shown_of(book, replace(after, at=state.at)), notices=told)

    # --- reading ---

    async def _read(self, book: AlertBook, state: AlertState, now: int) -> Readings:
        """The values that the rules ask about. Each is read by itself: one that cannot be read
        leaves only the rules that ask for it as they are."""
        stats = tuple(await self._store.stats())
        wanted = needs(book.rules.values(), state, stats, now)
        minutes = letters = schedules = workers = None
        left = frozenset[str]()
        if wanted.minutes:
            minutes = await _alone(self._rollups.history(None, wanted.minutes), "the minutes")
        if wanted.letters:
            look = letter_groups(self._store, queue=None, name=None, look=LOOK, cursor="")
            letters = await _alone(look, "the dead letters")
        if wanted.schedules:
            schedules = await _alone(self._schedules(), "the schedules")
        if wanted.workers:
            found = await _alone(self._workers(state), "the workers")
            if found is not None:
                workers, left = found
        return Readings(
            now=now, stats=stats, minutes=minutes, letters=letters, schedules=schedules,
            workers=workers, left=left,
        )  # fmt: skip

    async def _schedules(self) -> tuple[ScheduleReading, ...]:
        query = Query(states=(State.RECURRING,), limit=MOST_SCHEDULES)
        page = await self._store.find(query)
        return tuple(_reading(page.tasks))

    async def _workers(self, state: AlertState) -> tuple[tuple[WorkerInfo, ...], frozenset[str]]:
        """The workers that are alive; and those that left, if one is missing."""
        workers = tuple(await self._store.workers())
        if not missing_workers(state, workers):
            return workers, frozenset()
        notes = await self._store.list_notes(LEFT_NOTES, "", "", _MOST_LEFT)
        heard = state.workers or {}
        # A worker that left, came back under its id and then died does not count as having left.
        left = (note.key for note in notes if _time_of(note) >= heard.get(note.key, 0))
        return workers, frozenset(left)

    async def _tidy(self, state: AlertState, now: int) -> None:
        """Delete the notes of workers that left long ago, before those that left lately are
        read."""
        if state.workers is None:
            return
        notes = await self._store.list_notes(LEFT_NOTES, "", "", _MOST_LEFT)
        old = [
            PutNote(NoteName(LEFT_NOTES, "", note.key), None, note.value)
            for note in notes
            if _time_of(note) < now - _LEFT_KEPT_MS
        ]
        if old:
            await self._store.put_notes(old)

    # --- telling ---

    async def _hand_over(self, book: AlertBook, state: AlertState) -> None:
        """Submit the notices in the outbox, and remove those that are stored or can never be."""
        wanted = [
            (notice, target)
            for notice in state.owed
            for target in notice.targets
            if target in book.targets
        ]
        outcomes = await self._alerts.submit(book, wanted) if wanted else []
        still: set[tuple[str, str]] = set()
        for (notice, target), outcome in zip(wanted, outcomes, strict=True):
            if isinstance(outcome.error, StoreError | QueueFull | OSError):
                still.add((notice.key, target))
                log.warning("Alert %s waits to be handed over: %s", notice.rule, outcome.error)
            elif outcome.error is not None:
                log.error("Alert %s is not told to %s: %s", notice.rule, target, outcome.error)
        handed = {notice.key for notice in state.owed}
        for _ in range(_ATTEMPTS):
            now, stored = await self._alerts.state()
            owed = tuple(_left_of(now.owed, handed, still))
            if owed == now.owed:
                return
            after = _encode(replace(now, owed=owed))
            [outcome] = await self._store.put_notes([PutNote(STATE_NOTE, after, stored)])
            if outcome is NotePut.WRITTEN:
                return


def _left_of(
    owed: Iterable[Notice], handed: set[str], still: set[tuple[str, str]]
) -> Iterable[Notice]:
    for notice in owed:
        if notice.key not in handed:
            yield notice
            continue
        targets = tuple(one for one in notice.targets if (notice.key, one) in still)
        if targets:
            yield replace(notice, targets=targets)


def _time_of(note: Note) -> int:
    return int(note.value) if note.value.isdigit() else 0


def _reading(tasks: Iterable[Task]) -> Iterable[ScheduleReading]:
    for task in tasks:
        schedule = task.status.schedule
        if schedule is not None:
            touched = [one.at for one in task.status.events if one.event in _TOUCHES]
            yield ScheduleReading(task.id, schedule, max(touched, default=0))


async def _alone(reading: Awaitable[T], what: str) -> T | None:
    try:
        return await reading
    except (AndonError, OSError) as error:
        log.warning("Alert rules go without %s this minute: %s", what, error)
    except Exception as error:
        log.error("Alert rules go without %s this minute.", what, exc_info=error)
    return None
