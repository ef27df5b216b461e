"""Schedules over HTTP.

A backfill is sent in many short requests: one whose answer is lost is repeated, and submits nothing
twice.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from andon.contract.queries import Page, Query
from andon.engine.base import ActionResult
from andon.engine.http import wire
from andon.engine.http.errors import Problem, error_of, problem_of
from andon.engine.http.transport import Transport
from andon.engine.places import in_places
from andon.engine.schedule_requests import (
    Backfilled,
    How,
    ScheduleAct,
    ScheduleOutcome,
    ScheduleRequest,
)
from andon.engine.schedule_views import declared_no_more, together
from andon.model.errors import AndonError, InvalidSubmission, PermissionRefused
from andon.model.task import Task
from andon.model.words import State

MOST_PUT = 100
"""Schedules that one request makes or acts on."""

_PAGE = 500


class ToPut(msgspec.Struct, frozen=True):
    """Schedules to make or revise; answered by a `Put` for each."""

    requests: list[ScheduleRequest]
    how: How


class Put(msgspec.Struct, frozen=True, omit_defaults=True):
    """How one schedule was made or revised."""

    name: str
    result: str
    error: Problem | None = None


class ToAct(msgspec.Struct, frozen=True):
    """Schedules, and what is to be done to them; answered by an `Outcome` for each."""

    names: list[str]
    act: ScheduleAct


class ToBackfill(msgspec.Struct, frozen=True, omit_defaults=True):
    """A range of a schedule's times, ms UTC; answered by a `Part`."""

    name: str
    start: int
    end: int
    yes: bool = False
    dry_run: bool = False


class Part(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a part of a backfill ended, and where the next begins; None: it was the last."""

    done: Backfilled
    next: int | None = None


_decode_puts = msgspec.json.Decoder(list[Put]).decode
_decode_part = msgspec.json.Decoder(Part).decode


def put_of(outcome: ScheduleOutcome, error: AndonError | None) -> Put:
    """The wire form of an outcome, with its error as the caller may read it."""
    return Put(outcome.name, outcome.result, None if error is None else problem_of(error))


class HttpSchedules:
    """A `ScheduleKeeper` over a service. `find` is the engine's."""

    def __init__(self, transport: Transport, find: Callable[[Query], Awaitable[Page]]) -> None:
        self._transport = transport
        self._find = find

    async def put(self, requests: Sequence[ScheduleRequest], how: How) -> list[ScheduleOutcome]:
        good, bad = wire.packed(requests)
        refused = {
            place: _refused(requests[place], InvalidSubmission(why)) for place, why in bad.items()
        }
        done: list[ScheduleOutcome] = []
        for group in wire.in_groups(good, MOST_PUT):
            body = b'{"how":%b,"requests":%b}' % (wire.encode(how), wire.body_of(group))
            try:
                # `add` refuses what exists already; after a lost answer, the request itself may
                # have made it
                answer = await self._transport.call("put_schedules", body, safe=how != "add")
            except PermissionRefused as error:
                done += [_refused(requests[one.place], error) for one in group]
                continue
            done += map(_outcome, _decode_puts(answer))
        return in_places(done, refused)

    async def act(self, names: Sequence[str], act: ScheduleAct) -> list[ActionResult]:
        done: list[ActionResult] = []
        for start in range(0, len(names), MOST_PUT):
            body = wire.encode(ToAct(list(names[start : start + MOST_PUT]), act))
            safe = act in ("pause", "resume")
            answer = await self._transport.call("act_on_schedules", body, safe=safe)
            done += map(wire.acted, wire.decode_outcomes(answer))
        return done

    async def backfill(
        self, name: str, start: int, end: int, *, yes: bool = False, dry_run: bool = False
    ) -> Backfilled:
        part = await self._part(ToBackfill(name, start, end, yes, dry_run))
        done = part.done
        while part.next is not None:
            part = await self._part(ToBackfill(name, part.next, end, yes=True))
            found, more = done.range, part.done.range
            done = together(done, part.done)
            done = replace(
                done,
                range=replace(found, count=found.count + more.count, last=more.last or found.last),
            )
        return done

    async def _part(self, asked: ToBackfill) -> Part:
        return _decode_part(await self._transport.call("backfill_schedule", wire.encode(asked)))

    async def prune(
        self, application: str, declared: Collection[str], *, dry_run: bool = False
    ) -> list[ActionResult]:
        gone = declared_no_more(await self.live(), application, declared)
        if dry_run:
            return [ActionResult(name, State.RECURRING, changed=False) for name in gone]
        return await self.act(gone, "delete")

    async def live(self) -> list[Task]:
        found: list[Task] = []
        query = Query(states=(State.RECURRING,), limit=_PAGE)
        while True:
            page = await self._find(query)
            found += page.tasks
            if not page.cursor:
                return sorted(found, key=lambda task: task.id)
            query = replace(query, cursor=page.cursor)


def _refused(request: ScheduleRequest, error: AndonError) -> ScheduleOutcome:
    return ScheduleOutcome(request.name, "refused", error)


def _outcome(put: Put) -> ScheduleOutcome:
    result: Any = put.result
    return ScheduleOutcome(put.name, result, None if put.error is None else error_of(put.error))
