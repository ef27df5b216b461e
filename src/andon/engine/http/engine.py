"""The engine behind a service: the same promises as `LocalEngine`, over HTTP.

The service applies the lifecycle; this side only sends requests. The module `reads` has the reads,
`runs` claims and reports runs. Single submits share requests that form by themselves under load.
"""

import asyncio
import logging
import random as random_module
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, cast

import msgspec

from andon.artifacts.base import Artifacts
from andon.contract.limits import MAX_BATCH, MAX_PAYLOAD, in_batches
from andon.contract.outcomes import Verdict
from andon.contract.requests import ClaimRequest, Renewal
from andon.contract.topics import EVENTS_TOPIC, Listener
from andon.engine.base import ActionResult, Submission, Submitted
from andon.engine.batching import Batcher
from andon.engine.completions import Completion
from andon.engine.ending import until_ended
from andon.engine.http import wire
from andon.engine.http.alerts import HttpAlerts
from andon.engine.http.artifacts import HttpArtifacts
from andon.engine.http.attention import Attention
from andon.engine.http.place import ClientCertificate, Place
from andon.engine.http.reads import PAGE, HttpReads
from andon.engine.http.runs import HttpRuns
from andon.engine.http.schedules import HttpSchedules
from andon.engine.http.sending import send_in_groups
from andon.engine.http.transport import PATIENCE_S, Transport
from andon.engine.http.wire import Which
from andon.engine.places import in_places
from andon.lifecycle.births import is_over
from andon.lifecycle.commands import Command
from andon.lifecycle.constants import SLOW_POLL_S
from andon.model.code import Code
from andon.model.errors import InvalidSubmission, PermissionRefused, TaskNotFound
from andon.model.fleet import QueueConfig, TypeInfo, WorkerInfo
from andon.model.groups import GroupRecord
from andon.model.policy import PolicyOptions
from andon.model.registry import ClaimingWorker
from andon.model.task import Task, TaskEvent
from andon.model.words import Event, State

logger = logging.getLogger("andon.http")

_MOST_SUBMITS = 500

_KEPT_S = 43_200.0
"""Seconds after which a worker sends the list of its task types to the service again."""

_MOST_KEPT = 1_000

_SAFE_ACTS = frozenset({Event.REPRIORITISE, Event.RESCHEDULE, Event.ARCHIVE})
"""Acts that have no further effect when they are repeated."""

_decode_policy = msgspec.json.Decoder(dict[str, Any]).decode
_decode_bool = msgspec.json.Decoder(bool).decode
_decode_int = msgspec.json.Decoder(int).decode
_decode_queue = msgspec.json.Decoder(QueueConfig).decode
_decode_group = msgspec.json.Decoder(GroupRecord).decode
_decode_claiming = msgspec.json.Decoder(ClaimingWorker).decode


class HttpEngine(HttpReads):
    """An `Engine` over the service at `url`.

    `token` is an API token; a service on loopback needs none. `certificate` is shown to a service
    that asks for one. `random` decides jitter only. `patience`: seconds for which a request that
    may be repeated is repeated.
    """

    max_payload = MAX_PAYLOAD
    in_flight = 1
    claims_ahead = False
    bulk_size = MAX_BATCH
    parks_claims = False

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        certificate: ClientCertificate | None = None,
        random: random_module.Random | None = None,
        patience: float = PATIENCE_S,
    ) -> None:
        rng = random or random_module.Random()
        self.place = Place(url, token, certificate)
        self._rng = rng
        super().__init__(Transport(self.place, rng, patience=patience))
        self._attention = Attention(self._transport, rng)
        self._submits: Batcher[Submission, Submitted] = Batcher(
            self._send_submits, size=_MOST_SUBMITS
        )
        self._runs = HttpRuns(self._transport, self.place)
        self.schedules = HttpSchedules(self._transport, self.find)
        self.alerts = HttpAlerts(self._transport)
        self._artifacts = HttpArtifacts(self._transport, self._runs.tokens.at)
        self._opening: asyncio.Lock | None = None
        self._is_open = False
        self._partitions = 1
        self._kept: dict[str, float] = {}  # digests that the service has, and since when

    async def open(self) -> None:
        """Connect, and learn the service's time. Idempotent."""
        if self._opening is None:
            self._opening = asyncio.Lock()
        async with self._opening:
            if self._is_open:
                return
            self._transport.open()
            try:
                self._partitions = _decode_int(await self._transport.call("partitions"))
            except BaseException:
                await self._transport.close()
                raise
            self._is_open = True

    async def close(self) -> None:
        """Send what was handed over, then disconnect. Idempotent."""
        if not self._is_open:
            return
        self._is_open = False
        await self._submits.drain()
        await self._runs.drain()
        await self._attention.close()
        await self._transport.close()
        self._runs.close()

    def now(self) -> int:
        return self._transport.clock.now()

    def keep_time(self) -> None:
        """Nothing to do: the service fires the timers."""

    # --- submitting ---

    async def submit(self, submissions: Sequence[Submission]) -> list[Submitted]:
        if any(s.dependencies for s in submissions):
            return await self._submit_all(submissions)
        if len(submissions) == 1:
            return [await self._submits.put(submissions[0])]
        return await self._send_submits(submissions)

    async def _send_submits(self, submissions: Sequence[Submission]) -> list[Submitted]:
        return await send_in_groups(
            self._transport,
            "submit",
            submissions,
            _MOST_SUBMITS,
            decode=lambda answer: list(map(wire.submitted, wire.decode_outcomes(answer))),
            refused=_refused,
        )

    async def _submit_all(self, submissions: Sequence[Submission]) -> list[Submitted]:
        # In one request, because submissions that depend on one another are accepted or refused
        # together.
        good, bad = wire.packed(submissions)
        refused = {place: _refused(submissions[place], why) for place, why in bad.items()}
        answer = await self._transport.call("submit", wire.body_of(good))
        return in_places(list(map(wire.submitted, wire.decode_outcomes(answer))), refused)

    # --- running ---

    async def claim(self, request: ClaimRequest) -> list[Task]:
        return await self._runs.claim(request)

    def on_handoff(self, worker: str, act: Callable[[list[Task]], None] | None) -> None:
        pass

    async def renew(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        return await self._runs.renew(renewals)

    def renew_blocking(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        return self._runs.renew_blocking(renewals)

    async def report(
        self, task: Task, command: Command, follow_ups: Sequence[Submission] = ()
    ) -> State | None:
        return await self._runs.report(task, command, follow_ups)

    def report_nowait(
        self, task: Task, command: Command, then: Completion, follow_ups: Sequence[Submission] = ()
    ) -> None:
        self._runs.report_nowait(task, command, then, follow_ups)

    async def dependency_results(self, task: Task) -> dict[str, Task | None]:
        return await self._runs.dependency_results(task)

    # --- control ---

    async def cancel(self, ids: Sequence[str], *, force: bool = False) -> list[ActionResult]:
        return await self._act("cancel", ids, force=force)

    async def retry(self, ids: Sequence[str]) -> list[ActionResult]:
        return await self._act("retry", ids, safe=False)

    async def end_runs(self, worker: str, ids: Sequence[str]) -> list[ActionResult]:
        done: list[ActionResult] = []
        for batch in in_batches(ids):
            asked = wire.encode(wire.OfRuns(worker, list(batch)))
            answer = await self._transport.call("end_runs", asked)
            done.extend(map(wire.acted, wire.decode_outcomes(answer)))
        return done

    async def act(
        self, ids: Sequence[str], command: Command, *, force: bool = False
    ) -> list[ActionResult]:
        return await self._act(
            "act",
            ids,
            event=command.event,
            fields=wire.fields_of(command),
            force=force,
            safe=command.event in _SAFE_ACTS,
        )

    async def edit(self, task_id: str, args: bytes, successor: str) -> Submitted:
        good, bad = wire.packed([wire.OfEdit(task_id, args, successor)])
        for why in bad.values():
            return Submitted(successor, None, created=False, error=InvalidSubmission(why))
        answer = await self._transport.call("edit", good[0].body)
        return wire.submitted(wire.decode_outcome(answer))

    async def _act(
        self,
        method: str,
        ids: Sequence[str],
        *,
        event: Event | None = None,
        fields: dict[str, Any] | None = None,
        force: bool = False,
        safe: bool = True,
    ) -> list[ActionResult]:
        done: list[ActionResult] = []
        for start in range(0, len(ids), MAX_BATCH):
            which = Which(list(ids[start : start + MAX_BATCH]), event, fields or {}, force)
            answer = await self._transport.call(method, wire.encode(which), safe=safe)
            done.extend(map(wire.acted, wire.decode_outcomes(answer)))
        return done

    # --- watching ---

    async def wait_end(self, task_id: str, timeout: float | None = None) -> Task:
        return await until_ended(self._end_of, task_id, timeout, self._rng)

    async def _end_of(self, task_id: str) -> Task:
        async for task in self.watch(task_id):
            if is_over(task.status):
                return task
        raise TaskNotFound(task_id)

    def watch(self, task_id: str) -> AsyncIterator[Task]:
        return self._attention.watch(task_id)

    async def follow(self, cursor: str | None = None) -> AsyncIterator[TaskEvent]:
        with self.listen([EVENTS_TOPIC]) as hints:
            if cursor is None:
                cursor = await self.events_end()
            while True:
                page = await self.events(cursor, PAGE)
                cursor = page.cursor
                for event in page.events:
                    yield event
                if not page.events:
                    await hints.wait(SLOW_POLL_S * (0.5 + self._rng.random()))

    def listen(self, topics: Sequence[str]) -> Listener:
        return self._attention.listen(topics)

    # --- the fleet ---

    async def quarantine_worker(
        self, queue: str, worker: str, until: int, *, by: str = "", info: str = ""
    ) -> ClaimingWorker:
        asked = wire.OfClaiming(queue=queue, worker=worker, until=until, by=by, info=info)
        reply = await self._transport.call("quarantine_worker", wire.encode(asked))
        return _decode_claiming(reply)

    async def seal_group(self, name: str) -> GroupRecord:
        body = wire.encode(wire.OfGroup(name))
        return _decode_group(await self._transport.call("seal_group", body))

    async def configure_queue(self, name: str, changes: dict[str, Any]) -> QueueConfig:
        body = wire.encode(wire.OfQueue(name, changes))
        return _decode_queue(await self._transport.call("configure_queue", body))

    async def delete_queue(self, name: str) -> None:
        await self._transport.call("delete_queue", wire.encode(wire.NamedQueue(name)))

    async def put_policy(self, name: str, options: Mapping[str, Any]) -> PolicyOptions:
        body = wire.encode(wire.OfPolicy(name, dict(options)))
        stored = _decode_policy(await self._transport.call("put_policy", body))
        return cast("PolicyOptions", stored)

    async def delete_policy(self, name: str) -> bool:
        body = wire.encode(wire.OfPolicy(name))
        return _decode_bool(await self._transport.call("delete_policy", body, safe=False))

    def know_types(self, types: Sequence[TypeInfo]) -> None:
        """Nothing to do: the service resolves policies, by its own application's types and by
        those that workers publish."""

    async def publish_types(self, types: Sequence[TypeInfo]) -> None:
        """Publish the types. If the token does not allow it, the service's own types apply, and the
        worker runs all the same."""
        try:
            await self._transport.call("publish_types", wire.encode(wire.OfTypes(list(types))))
        except PermissionRefused as error:
            logger.warning("The task types of this worker were not published: %s", error)

    async def keep_code(self, code: Code) -> None:
        kept_at = self._kept.get(code.digest)
        if kept_at is not None and time.monotonic() < kept_at + _KEPT_S:
            return
        await self._transport.call("keep_code", wire.encode(code))
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        self._kept[code.digest] = time.monotonic()

    async def put_worker(self, info: WorkerInfo) -> None:
        await self._transport.call("put_worker", wire.encode(info))

    async def remove_worker(self, worker: str) -> None:
        await self._transport.call("remove_worker", wire.encode(Which([worker])))

    async def partitions(self) -> int:
        return self._partitions

    async def artifacts(self) -> Artifacts:
        return self._artifacts

    async def keeps_logs(self) -> bool:
        return True


def _refused(submission: Submission, why: str) -> Submitted:
    return Submitted(submission.id, None, created=False, error=InvalidSubmission(why))
