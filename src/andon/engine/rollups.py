"""One-minute roll-ups: written by whichever timekeeper comes first, once a minute, at a fixed cost.

Each timekeeper wakes up a moment after the minute and looks whether it is rolled up. If not, it
reads the daily history and the queue's counts (which moves keep anyway), looks at a bounded sample
of the event log for wait and run times, and writes the minute into its hour by compare-and-set: of
several who try, one writes. A minute in which nothing happened is not written at all: the next one
says since when it was quiet, or a reader sees that nothing has changed since.

The cost is a dozen reads and one write a minute, however many tasks and events there are. An error
here is logged and costs one minute. It affects no timer, because this is a separate loop.
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from random import Random
from typing import Any, TypeVar

import msgspec

from andon.contract.limits import MAX_BATCH
from andon.contract.store import Store
from andon.lifecycle.constants import DAY_MS, SLOW_POLL_S
from andon.lifecycle.daily import first_day
from andon.lifecycle.minutes import (
    KEPT_HOURS,
    LATE_MS,
    MINUTE_MS,
    MOST_MINUTES,
    SLOT_VERSION,
    Sample,
    base_from,
    ends_a_run,
    hour_of,
    is_near,
    is_quiet,
    minute_history,
    row_of,
    slot_of,
    slot_with,
)
from andon.model.errors import AndonError, ConfigurationError
from andon.model.fleet import QueueStats, Tallied
from andon.model.minutes import MinuteBase, MinuteHistory, MinuteRow, MinuteSlot
from andon.model.settings import MINUTES_SETTINGS
from andon.model.task import TaskEvent

log = logging.getLogger("andon.timekeeper")

MOST_EVENTS = 2_000
"""How many events of the log are read from the beginning of a minute. A minute that follows one
with more has a few pages besides, from moments at random."""

MOST_SAMPLED = MAX_BATCH
"""How many runs' records are read for the bands of a minute."""

T = TypeVar("T")

_PAGE = 500
_PROBES = 4
_FIRST_S, _SPREAD_S = 0.5, 8.0
"""When to look after a minute has ended; spread, so that mostly one timekeeper finds it undone."""

_Slots = dict[int, tuple[MinuteSlot | None, bytes | None]]
"""By setting, the hour that is stored there, and its bytes."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(MinuteSlot).decode


class _Read:
    """What is counted at one moment."""

    def __init__(self, found: list[Tallied], stats: list[QueueStats], now: int) -> None:
        self.found = found
        self.stats = stats
        self.now = now

    def base(self, cursor: str) -> MinuteBase:
        return base_from(self.found, self.stats, self.now, cursor)


class Rollups:
    """The minutes of one store."""

    def __init__(self, store: Store, random: Random, *, poll_s: float = SLOW_POLL_S) -> None:
        """`poll_s`: how often loops that wait for hints look without one. Where that is rarer than
        usual, as in tests in virtual time, minutes are rolled up more rarely, too."""
        self._left_out_ms = round(max(0.0, poll_s / SLOW_POLL_S - 1)) * MINUTE_MS
        self._store = store
        self._random = random
        self._newest: int | None = None  #: slot of the newest minute, as last seen
        self._mine: MinuteBase | None = None
        """What this process has read in a minute that was not written: nothing had happened in it,
        or it was not known when."""
        self._quiet_from = 0  #: nothing was counted from this time to that
        self._is_busy = False  #: the newest minute had more events than are looked at
        self._probes: list[str] = []  #: places within the log, taken at random in a busy minute

    # --- writing ---

    async def keep(self) -> None:
        """Roll up each minute, for ever."""
        while True:
            if self._is_busy:
                await self._alone(self._take_probes())
            ms = self._left_out_ms + MINUTE_MS - self._store.now() % MINUTE_MS
            await asyncio.sleep(ms / 1000 + _FIRST_S + self._random.random() * _SPREAD_S)
            await self._alone(self.roll_up())

    async def _alone(self, work: Coroutine[Any, Any, T]) -> T | None:
        """The result of the awaitable; None if it failed, which is logged."""
        try:
            return await work
        except (AndonError, OSError) as error:
            log.warning("A minute is not rolled up: %s", error)
        except Exception as error:
            log.error("A minute is not rolled up, for a reason not foreseen.", exc_info=error)
        return None

    async def _take_probes(self) -> None:
        """Note the end of the log at a few moments, one at random in each part of what is left of
        the minute."""
        left = MINUTE_MS - self._store.now() % MINUTE_MS - 1_000
        for _ in range(_PROBES):
            moment = self._random.random()
            await asyncio.sleep(moment * left / _PROBES / 1000)
            self._probes.append(await self._store.events_end())
            await asyncio.sleep((1 - moment) * left / _PROBES / 1000)

    async def roll_up(self) -> MinuteRow | None:
        """Write the minute that has just ended, if no timekeeper has and something happened in
        it."""
        store, now = self._store, self._store.now()
        probes, self._probes = self._probes, []
        if now % MINUTE_MS > LATE_MS:
            return None  # so late that the next reading would lie too near
        slots = await self._slots_at_hand(now)
        newest = max((slot for slot, _ in slots.values() if slot), key=_hour, default=None)
        self._is_busy = newest is not None and any(not row.whole for row in newest.rows[-1:])
        if newest is not None and newest.base.at // MINUTE_MS >= now // MINUTE_MS:
            return None  # another timekeeper was first
        read = await self._read(now if newest is None else min(newest.base.at, now))
        row = None
        if newest is None:
            cursor = await store.events_end()
        else:
            base, quiet_from = newest.base, newest.base.at
            if is_quiet(base, read.found, read.stats):
                self._mine, self._quiet_from = read.base(base.cursor), base.at
                return None
            if not is_near(base, read.now):
                mine = self._mine
                if mine is None or mine.at < base.at or not is_near(mine, read.now):
                    # It is unknown which minutes these counts belong to; the next one begins here.
                    self._mine = read.base(await store.events_end())
                    self._quiet_from = read.now
                    return None
                base, quiet_from = mine, self._quiet_from
            cursor, sample = await self._sample(base, probes)
            row = row_of(base, read.found, read.stats, sample, quiet_from=quiet_from, now=read.now)
        after = read.base(cursor)
        place = slot_of(hour_of(after.at))
        there, stored = slots[place]
        written = _encode(slot_with(there, after, row))
        won = await store.put_setting(MINUTES_SETTINGS[place], written, expect=stored)
        self._newest = place
        self._is_busy = row is not None and not row.whole
        return row if won else None

    async def _read(self, since: int) -> _Read:
        found, stats = await asyncio.gather(
            self._store.tallies(None, max(since // DAY_MS, first_day(self._store.now()))),
            self._store.stats(),
        )
        return _Read(found, stats, self._store.now())

    async def _sample(self, base: MinuteBase, probes: Sequence[str]) -> tuple[str, Sample]:
        """The end of the log now, and the runs that a bounded look at it found since `base`."""
        ends, cursor, whole = await self._look(base.cursor, MOST_EVENTS)
        if not whole:
            for probe in probes:
                more, _, _ = await self._look(probe, _PAGE)
                ends += more
            cursor = await self._store.events_end()
        distinct = list({(one.task, one.revision): one for one in ends}.values())
        whole = whole and len(distinct) <= MOST_SAMPLED
        chosen = _spread(distinct, MOST_SAMPLED)
        sample = Sample(whole=whole)
        ids = list(dict.fromkeys(one.task for one in chosen))
        tasks = dict(zip(ids, await self._store.get(ids) if ids else (), strict=True))
        for event in chosen:
            task = tasks.get(event.task)
            if task is not None:
                try:
                    sample.add(event, task)
                except Exception as error:  # an error of this run only: the others are counted
                    log.warning("A run of task %s is not counted: %r", event.task, error)
        return cursor, sample

    async def _look(self, cursor: str, most: int) -> tuple[list[TaskEvent], str, bool]:
        """Runs that ended after a place in the log, where the look ended, and whether at its
        end."""
        ends: list[TaskEvent] = []
        looked = 0
        while looked < most:
            page = await self._store.events(cursor, _PAGE)
            cursor = page.cursor
            looked += len(page.events)
            ends += [event for event in page.events if ends_a_run(event)]
            if not page.events:
                return ends, cursor, True
        return ends, cursor, False

    # --- reading ---

    async def history(
        self, name: str | None, minutes: int, *, by_type: bool = False
    ) -> MinuteHistory:
        """The last minutes."""
        check_minutes(minutes)
        now = self._store.now()
        slots = await self._slots_at_hand(now) if minutes <= 60 else await self._all_slots()
        kept = [slot for slot, _ in slots.values() if slot is not None]
        since = min((max(kept, key=_hour).base.at if kept else now), now)
        read = await self._read(since)
        return minute_history(
            kept, read.found, read.stats, now=now, minutes=minutes, by_type=by_type, name=name
        )

    async def _slots_at_hand(self, now: int) -> _Slots:
        """This hour, the last one, and the newest if it is older."""
        hour = hour_of(now)
        places = {slot_of(hour), slot_of(hour - 1)}
        if self._newest is not None:
            places.add(self._newest)
        slots = await self._slots(sorted(places))
        recent = [slot for slot, _ in slots.values() if slot is not None]
        if self._newest is None and not any(slot.hour >= hour - 1 for slot in recent):
            slots = await self._all_slots()
            recent = [slot for slot, _ in slots.values() if slot is not None]
        if recent:
            self._newest = slot_of(max(recent, key=_hour).hour)
        return slots

    async def _all_slots(self) -> _Slots:
        return await self._slots(range(KEPT_HOURS + 1))

    async def _slots(self, places: Sequence[int]) -> _Slots:
        stored = await asyncio.gather(
            *(self._store.setting(MINUTES_SETTINGS[place]) for place in places)
        )
        return {
            place: (_slot(body, MINUTES_SETTINGS[place]), body)
            for place, body in zip(places, stored, strict=True)
        }


def check_minutes(minutes: int) -> None:
    """Raise `ConfigurationError` for a number of minutes that there is no history of."""
    if not 1 <= minutes <= MOST_MINUTES:
        raise ConfigurationError(
            f"The history by minutes has 1 to {MOST_MINUTES} minutes, not {minutes}: older ones "
            "are dropped; ask for days."
        )


def _slot(stored: bytes | None, name: str) -> MinuteSlot | None:
    if not stored:
        return None
    try:
        slot = _decode(stored)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        log.warning("The setting %s is damaged, and is written anew: %s", name, error)
        return None
    return slot if slot.v == SLOT_VERSION else None


def _hour(slot: MinuteSlot) -> int:
    return slot.hour


def _spread(ends: list[TaskEvent], most: int) -> list[TaskEvent]:
    """So many of them, evenly spread."""
    if len(ends) <= most:
        return ends
    return [ends[place * len(ends) // most] for place in range(most)]
