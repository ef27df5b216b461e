"""Claiming: what is asked for, and the records that come back stamped."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from andon.contract.requests import ClaimRequest
from andon.contract.topics import EVENTS_TOPIC, TIMER_TOPIC, ready_topic
from andon.lifecycle.apply import stamped
from andon.lifecycle.constants import NEAR_TIMER_MS, SLOW_POLL_S
from andon.model.task import Stamp, Status, Task
from andon.model.words import State
from andon.stores.kit.codec import Undecodable, decode_definition, decode_status, task_of_row
from andon.stores.kit.parked_claims import PARKED_MS
from andon.stores.postgres.arrays import numbers
from andon.stores.postgres.codes import Codes
from andon.stores.postgres.server import Server

_UNDECIDED = "undecided"
_TURNS = 4


class _Stamping:
    """Makes records of the rows of a claim; values that are the same for the whole claim are not in
    the rows."""

    def __init__(self, request: ClaimRequest) -> None:
        self._request = request
        self._body = b""  # of the newest status: tasks submitted together mostly share it
        self._status: Status | None = None

    def task_of(self, row: Any) -> Task | None:
        """The record as claimed; None if it does not decode."""
        body = row["status"]
        try:
            if self._status is None or body != self._body:
                self._status, self._body = decode_status(body), body
            definition = decode_definition(row["definition"])
        except Undecodable:
            return None
        request, at = self._request, row["told"]
        stamp = Stamp(
            row["run"], row["fence"], request.worker, request.token, at, at + request.lease_ms
        )
        return stamped(Task(definition=definition, status=self._status, ref=row["seq"]), stamp)


def _limits(request: ClaimRequest, ids: Mapping[str, int]) -> tuple[list[int], ...]:
    """Numbers of the task types that there is no room for, of those that there is little room for,
    and how much of each of these. A type without a number has no tasks."""
    full: list[int] = []
    limited: list[int] = []
    left: list[int] = []
    for name, room in request.room.items():
        number = ids.get(name)
        if number is None or room >= request.limit:
            continue
        if room <= 0:
            full.append(number)
        else:
            limited.append(number)
            left.append(room)
    return full, limited, left


class Claiming:
    """Claims tasks: the one move that the store makes itself."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._codes = Codes(server.run, server.calls, server.clock)

    async def claim(self, request: ClaimRequest) -> list[Task]:
        """Stamp pending tasks in the order that the request asks for."""
        server = self._server
        ids = server.names.ids
        await server.names.know_if_there((*request.queues, *request.room))
        queues = [ids[name] for name in request.queues if name in ids]
        ear = server.wake.ear
        if request.parks and (ear is None or not queues):
            request = msgspec.structs.replace(request, parks=False)
        intent = server.wake.parked.intent(request)
        if not queues and intent.before is None:
            return []
        rows = await self._rows(
            request,
            numbers(queues),
            request.limit,
            request.lease_ms,
            *_limits(request, ids),
            request.partition,
            [ids[name] for name in intent.queues if name in ids],
            intent.number,
            PARKED_MS if intent.number else 0,
            ear or 0,
        )
        claimed: list[Task] = []
        broken: list[int] = []
        last: Any = None
        stamping = _Stamping(request)
        for row in rows:
            if row["seq"] is None:
                if row["lease_until"] is not None:
                    self._hint_when_rate_allows(request.queues, row["lease_until"])
                if row["progress"]:
                    server.wake.tell({TIMER_TOPIC}, row["wanted"])
                continue
            last = row
            task = stamping.task_of(row) if row["state"] is None else task_of_row(row)
            if task is None or task.state is State.UNKNOWN:
                broken.append(row["seq"])
            else:
                claimed.append(task)
        if last is not None:
            server.clock.tell(last["told"])
            topics = {EVENTS_TOPIC}
            if request.lease_ms < NEAR_TIMER_MS:
                topics.add(TIMER_TOPIC)
            if last["pos"] is not None:
                server.wake.newest_own = max(server.wake.newest_own, last["pos"])
                begun = [task.definition.id for task in claimed]
                server.wake.tell(topics, last["wanted"], begun=begun)
        server.wake.parked.answered(request, found=bool(claimed or broken))
        await server.set_aside(broken)
        return claimed

    async def _rows(self, request: ClaimRequest, *arguments: Any) -> list[Any]:
        """The server's answer, after the kinds that the worker's code covers have been decided."""
        server, code = self._server, request.code
        number = await self._codes.number(code)
        asked = server.clock.argument(), server.instance, request.worker, request.token, *arguments
        for turn in range(_TURNS):
            # Kinds that turn up while others are decided are left to the next claim in the end.
            rows = await server.write_here(
                server.calls.claim, *asked, number, code is None or turn == _TURNS - 1
            )
            if code is None or not rows or rows[0]["state"] != _UNDECIDED:
                return rows
            number = await self._codes.decide(code, rows[0]["wanted"])
        raise AssertionError("the last turn is answered")

    def _hint_when_rate_allows(self, queues: Sequence[str], wait_ms: int) -> None:
        """Wake the claimers of a rate-limited queue when its next token is there."""
        loop = asyncio.get_running_loop()
        wait = min(max(wait_ms / 1000, 0.001), SLOW_POLL_S)
        topics = {ready_topic(name) for name in queues}
        loop.call_later(wait, self._server.hub.hint_all, topics)
