"""The reads of the engine over HTTP: tasks, moves, counts, configuration, workers."""

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from andon.contract.limits import MAX_BATCH
from andon.contract.queries import EventPage, History, Page, Query
from andon.engine.http import wire
from andon.engine.http.transport import Transport
from andon.engine.http.wire import Which
from andon.engine.letter_groups import LOOK, check_look
from andon.engine.reading import check_days, check_page
from andon.engine.rollups import check_minutes
from andon.engine.waiting import KindWait
from andon.lifecycle.waiting import Wait
from andon.model.audit import AuditRecord
from andon.model.fleet import (
    QueueConfig,
    QueueHistory,
    QueueStats,
    StoreInfo,
    TypeInfo,
    WorkerInfo,
)
from andon.model.groups import GroupRecord
from andon.model.letters import LetterGroups
from andon.model.minutes import MinuteHistory
from andon.model.policy import PolicyOptions
from andon.model.registry import ClaimedQueue, ClaimingWorker
from andon.model.task import Task

PAGE = 500
"""Events that are read at once."""

_decode_policies = msgspec.json.Decoder(dict[str, dict[str, Any]]).decode
_decode_tasks = msgspec.json.Decoder(list[Task | None]).decode
_decode_history = msgspec.json.Decoder(History).decode
_decode_page = msgspec.json.Decoder(Page).decode
_decode_stats = msgspec.json.Decoder(list[QueueStats]).decode
_decode_events = msgspec.json.Decoder(EventPage).decode
_decode_text = msgspec.json.Decoder(str).decode
_decode_queues = msgspec.json.Decoder(list[QueueConfig]).decode
_decode_types = msgspec.json.Decoder(list[TypeInfo]).decode
_decode_workers = msgspec.json.Decoder(list[WorkerInfo]).decode
_decode_group = msgspec.json.Decoder(GroupRecord).decode
_decode_claiming = msgspec.json.Decoder(ClaimingWorker).decode
_decode_claiming_workers = msgspec.json.Decoder(tuple[list[ClaimingWorker], str]).decode
_decode_claimed_queues = msgspec.json.Decoder(tuple[list[ClaimedQueue], str]).decode
_decode_info = msgspec.json.Decoder(StoreInfo).decode
_decode_histories = msgspec.json.Decoder(list[QueueHistory]).decode
_decode_acts = msgspec.json.Decoder(list[AuditRecord]).decode
_decode_minutes = msgspec.json.Decoder(MinuteHistory).decode
_decode_groups = msgspec.json.Decoder(LetterGroups).decode
_decode_waits = msgspec.json.Decoder(list[KindWait]).decode


class HttpReads:
    """The part of an engine that changes nothing, each method a request to the service."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def acts(self, actor: str | None = None, limit: int = 100) -> list[AuditRecord]:
        body = wire.encode(wire.OfAudit(limit, actor))
        return _decode_acts(await self._transport.call("acts", body))

    async def get(self, ids: Sequence[str]) -> list[Task | None]:
        tasks: list[Task | None] = []
        for start in range(0, len(ids), MAX_BATCH):
            which = Which(list(ids[start : start + MAX_BATCH]))
            tasks += _decode_tasks(await self._transport.call("get", wire.encode(which)))
        return tasks

    async def history(self, task_id: str) -> History:
        body = wire.encode(Which([task_id]))
        return _decode_history(await self._transport.call("history", body))

    async def find(self, query: Query) -> Page:
        return _decode_page(await self._transport.call("find", wire.encode(query)))

    async def dependents(self, task_id: str, cursor: str = "", limit: int = 100) -> Page:
        check_page(limit)
        body = wire.encode(wire.OfDependents(task_id, cursor, limit))
        return _decode_page(await self._transport.call("dependents", body))

    async def claiming_workers(
        self, queue: str, cursor: str = "", limit: int = 100, *, in_quarantine: bool | None = None
    ) -> tuple[list[ClaimingWorker], str]:
        asked = wire.OfClaiming(
            queue=queue, cursor=cursor, limit=limit, in_quarantine=in_quarantine
        )
        reply = await self._transport.call("claiming_workers", wire.encode(asked))
        return _decode_claiming_workers(reply)

    async def claiming_worker(self, queue: str, worker: str) -> ClaimingWorker:
        asked = wire.OfClaiming(queue=queue, worker=worker)
        return _decode_claiming(await self._transport.call("claiming_worker", wire.encode(asked)))

    async def claimed_queues(
        self, cursor: str = "", limit: int = 100
    ) -> tuple[list[ClaimedQueue], str]:
        asked = wire.OfClaiming(cursor=cursor, limit=limit)
        reply = await self._transport.call("claimed_queues", wire.encode(asked))
        return _decode_claimed_queues(reply)

    async def group(self, name: str) -> GroupRecord:
        body = wire.encode(wire.OfGroup(name))
        return _decode_group(await self._transport.call("group", body))

    async def stats(self) -> list[QueueStats]:
        return _decode_stats(await self._transport.call("stats"))

    async def queue_history(self, queue: str | None = None, days: int = 7) -> list[QueueHistory]:
        check_days(days)
        body = wire.encode(wire.OfQueueHistory(days, queue))
        return _decode_histories(await self._transport.call("queue_history", body))

    async def minutes(
        self, name: str | None = None, minutes: int = 60, *, by_type: bool = False
    ) -> MinuteHistory:
        check_minutes(minutes)
        body = wire.encode(wire.OfMinutes(minutes, name, by_type))
        return _decode_minutes(await self._transport.call("minutes", body))

    async def letter_groups(
        self,
        queue: str | None = None,
        name: str | None = None,
        *,
        look: int = LOOK,
        cursor: str = "",
    ) -> LetterGroups:
        check_look(look)
        body = wire.encode(wire.OfLetterGroups(look, queue, name, cursor))
        return _decode_groups(await self._transport.call("letter_groups", body))

    async def events(self, cursor: str, limit: int = PAGE) -> EventPage:
        body = wire.encode(wire.After(cursor, limit))
        return _decode_events(await self._transport.call("events", body))

    async def events_end(self) -> str:
        return _decode_text(await self._transport.call("events_end"))

    async def queues(self) -> list[QueueConfig]:
        return _decode_queues(await self._transport.call("queues"))

    async def policies(self) -> dict[str, PolicyOptions]:
        found = _decode_policies(await self._transport.call("policies"))
        return cast("dict[str, PolicyOptions]", found)

    async def types(self) -> list[TypeInfo]:
        return _decode_types(await self._transport.call("types"))

    async def waits(self, queues: Sequence[str] = ()) -> list[KindWait]:
        body = wire.encode(wire.OfWaits(list(queues)))
        return _decode_waits(await self._transport.call("waits", body))

    async def wait_of(self, task: Task) -> Wait | None:
        body = wire.encode(wire.OfWaits(task=task.id))
        found = _decode_waits(await self._transport.call("waits", body))
        return Wait(found[0].why, found[0].text) if found else None

    async def workers(self) -> list[WorkerInfo]:
        return _decode_workers(await self._transport.call("workers"))

    async def info(self) -> StoreInfo:
        return _decode_info(await self._transport.call("info"))
