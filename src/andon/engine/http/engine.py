"""The engine behind a service: the same promises as `LocalEngine`, over HTTP.

The service applies the lifecycle; this end only asks. Single submits, reports and renewals share
requests that form by themselves under load. Runs are spoken for with the token that came with their
claim, so a run is reported by the engine that claimed it.
"""

import asyncio
import logging
import random as random_module
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec

from andon.artifacts.base import Artifacts
from andon.contract.isolation import Unwritable, each_alone, each_alone_blocking
from andon.contract.limits import MAX_BATCH, MAX_PAYLOAD
from andon.contract.outcomes import Verdict
from andon.contract.queries import EventPage, History, Page, Query
from andon.contract.requests import ClaimRequest, Renewal
from andon.contract.topics import EVENTS_TOPIC, Listener
from andon.engine.base import Acted, Submission, Submitted
from andon.engine.batching import Batcher
from andon.engine.ending import until_ended
from andon.engine.http import wire
from andon.engine.http.alerts import HttpAlerts
from andon.engine.http.artifacts import HttpArtifacts
from andon.engine.http.attention import Attention
from andon.engine.http.blocking import BlockingCalls
from andon.engine.http.errors import error_of, problem_of
from andon.engine.http.place import ClientCertificate, Place
from andon.engine.http.runtokens import RunTokens
from andon.engine.http.schedules import HttpSchedules
from andon.engine.http.transport import PATIENCE_S, Transport
from andon.engine.http.wire import Outcome, Packed, Report, Sign, Which
from andon.engine.letter_groups import LOOK, check_look
from andon.engine.places import in_places
from andon.engine.reading import check_days, check_page
from andon.engine.rollups import check_minutes
from andon.engine.telling import Telling, Then, Told
from andon.engine.waiting import KindWait
from andon.lifecycle.commands import Command
from andon.lifecycle.constants import SLOW_POLL_S
from andon.lifecycle.waiting import Wait
from andon.model.audit import AuditRecord
from andon.model.code import Code
from andon.model.errors import (
    ConfigurationError,
    InvalidSubmission,
    LeaseLost,
    PermissionRefused,
    StoreIncompatible,
    UnknownCode,
)
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
from andon.model.task import Task, TaskEvent
from andon.model.words import Event, State

logger = logging.getLogger("andon.http")

Item = TypeVar("Item")
Answer = TypeVar("Answer")

_MOST_SUBMITS = 500
_PAGE = 500

_REPORTS_IN_FLIGHT = 2
"""Requests with reports at once: one that the service works on, and the next on its way."""

_KEPT_S = 43_200.0
"""Seconds after which the service is told again what a worker has code for."""

_MOST_KEPT = 1_000

_SAFE_ACTS = frozenset({Event.REPRIORITISE, Event.RESCHEDULE, Event.ARCHIVE})
"""Acts that change nothing when they are done again."""

_decode_policies = msgspec.json.Decoder(dict[str, dict[str, Any]]).decode
_decode_policy = msgspec.json.Decoder(dict[str, Any]).decode
_decode_bool = msgspec.json.Decoder(bool).decode
_decode_tasks = msgspec.json.Decoder(list[Task | None]).decode
_decode_history = msgspec.json.Decoder(History).decode
_decode_page = msgspec.json.Decoder(Page).decode
_decode_stats = msgspec.json.Decoder(list[QueueStats]).decode
_decode_events = msgspec.json.Decoder(EventPage).decode
_decode_text = msgspec.json.Decoder(str).decode
_decode_int = msgspec.json.Decoder(int).decode
_decode_queues = msgspec.json.Decoder(list[QueueConfig]).decode
_decode_queue = msgspec.json.Decoder(QueueConfig).decode
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
_decode_results = msgspec.json.Decoder(dict[str, Task | None]).decode


class HttpEngine:
    """An `Engine` over the service at `url`.

    `token` is an API token; a service on loopback needs none. `certificate` is shown to a service
    that asks for one. `random` decides jitter only.
    `patience`: seconds for which a request that may be repeated is.
    """

    max_payload = MAX_PAYLOAD
    in_flight = 1
    claims_ahead = False
    at_once = MAX_BATCH
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
        self._transport = Transport(self.place, rng, patience=patience)
        self._blocking = BlockingCalls(self.place)
        self._attention = Attention(self._transport, rng)
        self._submits: Batcher[Submission, Submitted] = Batcher(
            self._send_submits, size=_MOST_SUBMITS
        )
        self._telling = Telling()
        self._reports: list[Batcher[Report, Outcome]] = [
            Batcher(self._send_reports, size=wire.MOST_RUNS) for _ in range(_REPORTS_IN_FLIGHT)
        ]
        self._bearing: Batcher[Report, Outcome] = Batcher(
            self._send_bearing, size=wire.MOST_RUNS, in_flight=_REPORTS_IN_FLIGHT
        )
        self._tokens = RunTokens()
        self.schedules = HttpSchedules(self._transport, self.find)
        self.alerts = HttpAlerts(self._transport)
        self._artifacts = HttpArtifacts(self._transport, self._tokens.at)
        self._opening: asyncio.Lock | None = None
        self._is_open = False
        self._partitions = 1
        self._kept: dict[str, float] = {}  # digests the service keeps, and since when

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
        """Flush what was handed over, then disconnect. Idempotent."""
        if not self._is_open:
            return
        self._is_open = False
        await self._submits.drain()
        for reports in (*self._reports, self._bearing):
            await reports.drain()
        await self._attention.close()
        await self._transport.close()
        self._blocking.close()

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
        return await self._in_groups(
            "submit",
            submissions,
            _MOST_SUBMITS,
            lambda answer: list(map(wire.submitted, wire.decode_outcomes(answer))),
            lambda one, why: Submitted(one.id, None, created=False, error=InvalidSubmission(why)),
        )

    async def _submit_all(self, submissions: Sequence[Submission]) -> list[Submitted]:
        # In one request: what depends on one another is accepted or refused together.
        good, bad = wire.packed(submissions)
        refused = {
            place: Submitted(submissions[place].id, None, created=False, error=InvalidSubmission(w))
            for place, w in bad.items()
        }
        answer = await self._transport.call("submit", wire.body_of(good))
        return in_places(list(map(wire.submitted, wire.decode_outcomes(answer))), refused)

    async def _in_groups(
        self,
        method: str,
        items: Sequence[Item],
        most: int,
        decode: Callable[[bytes], list[Answer]],
        refused: Callable[[Item, str], Answer],
    ) -> list[Answer]:
        """Send items in as few requests as take them; the answer to each. What cannot be sent, or
        makes the service refuse a whole request, fails alone (docs/rulings.md, R36)."""
        good, bad = wire.packed(items)

        async def send(group: Sequence[Packed]) -> list[Answer]:
            try:
                return decode(await self._transport.call(method, wire.body_of(group)))
            except (InvalidSubmission, ConfigurationError) as error:
                raise Unwritable(str(error)) from error

        told: list[Answer] = []
        for group in wire.in_groups(good, most):
            told += await each_alone(
                send, group, lambda one, why: refused(items[one.place], _said_alone(why))
            )
        return in_places(told, {place: refused(items[place], why) for place, why in bad.items()})

    # --- running ---

    async def claim(self, request: ClaimRequest) -> list[Task]:
        claimed = wire.decode_claimed(await self._claim(request))
        for one in claimed:
            self._tokens.keep(one.task, one.token)
        return [one.task for one in claimed]

    async def _claim(self, request: ClaimRequest) -> bytes:
        try:
            body = wire.encode(wire.claim_of(request, lists_code=False))
            return await self._transport.call("claim", body)
        except UnknownCode:
            body = wire.encode(wire.claim_of(request, lists_code=True))
            return await self._transport.call("claim", body)

    def on_handoff(self, worker: str, act: Callable[[list[Task]], None] | None) -> None:
        pass

    async def renew(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        known = [r for r in renewals if r.run in self._tokens]
        verdicts = await self._in_groups(
            "renew", self._signs(known), MAX_BATCH, wire.decode_verdicts, _invalid
        )
        return self._merged(renewals, known, verdicts)

    def renew_blocking(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        known = [r for r in renewals if r.run in self._tokens]
        good, bad = wire.packed(self._signs(known))

        def send(group: Sequence[Packed]) -> list[Verdict]:
            try:
                return wire.decode_verdicts(self._blocking.call("renew", wire.body_of(group)))
            except (InvalidSubmission, ConfigurationError) as error:
                raise Unwritable(str(error)) from error

        verdicts: list[Verdict] = []
        for group in wire.in_groups(good, MAX_BATCH):
            verdicts += each_alone_blocking(send, group, _invalid)
        told = in_places(verdicts, dict.fromkeys(bad, Verdict.INVALID))
        return self._merged(renewals, known, told)

    def _signs(self, renewals: Sequence[Renewal]) -> list[Sign]:
        return [
            Sign(self._tokens[r.run], r.lease_ms, r.heartbeat, r.progress, r.message)
            for r in renewals
        ]

    def _merged(
        self, renewals: Sequence[Renewal], known: Sequence[Renewal], verdicts: Sequence[Verdict]
    ) -> list[Verdict]:
        """A verdict for each; a run that was not claimed here, or is reported, is lost."""
        told = {r.run: verdict for r, verdict in zip(known, verdicts, strict=True)}
        for run, verdict in told.items():
            if verdict is Verdict.LOST:
                self._tokens.ended(run)
        return [told.get(r.run, Verdict.LOST) for r in renewals]

    async def report(
        self, task: Task, command: Command, follow_ups: Sequence[Submission] = ()
    ) -> State | None:
        report = self._said(task, command, follow_ups)
        outcome = await self._line_of(report).put(report)
        return self.followed(task.status.run, command.event, outcome)

    def report_then(
        self, task: Task, command: Command, then: Then, follow_ups: Sequence[Submission] = ()
    ) -> None:
        try:
            report = self._said(task, command, follow_ups)
        except Exception:
            self._telling.tell(self.report(task, command, follow_ups), then)
            return
        sent = _Sent(self, task.status.run, command.event, then)
        self._line_of(report).hand(report, sent)

    def _line_of(self, report: Report) -> Batcher[Report, Outcome]:
        return self._bearing if report.follow_ups else min(self._reports, key=_waiting)

    def _said(self, task: Task, command: Command, follow_ups: Sequence[Submission]) -> Report:
        """What is sent of a report. Raises `LeaseLost` for a run that was not claimed here."""
        run = task.status.run
        # A run that was reported keeps its token a while: the report may be repeated
        # (docs/rulings.md, R3).
        token = self._tokens.of(task)
        if token is None:
            raise LeaseLost(task.id, run)
        cell = task.cell
        report = Report(token, command.event, wire.fields_of(command))
        if cell is not None:
            report = Report(
                token, report.event, report.fields, cell.progress, cell.message, cell.heartbeat_at
            )
        if follow_ups and command.event is Event.COMPLETE:
            report = msgspec.structs.replace(report, follow_ups=tuple(follow_ups))
        return report

    def followed(self, run: str, event: Event, outcome: Outcome) -> State | None:
        """The state that follows, by the answer to a report; raises what it refuses it with."""
        if outcome.error is not None:
            error = error_of(outcome.error)
            # An expiry that crosses a cancel request is refused, and the run reported otherwise.
            if isinstance(error, LeaseLost) and event is not Event.EXPIRE:
                self._tokens.ended(run)
            raise error
        self._tokens.ended(run)
        return outcome.state

    async def _send_bearing(self, reports: Sequence[Report]) -> list[Outcome]:
        """Send reports with follow-ups, to a place of their own: a service of a release that does
        not know them would take the report, and leave them out without a word."""
        try:
            return await self._send_reports(reports, "report_bearing")
        except StoreIncompatible as error:
            raise StoreIncompatible(
                f"The service at {self.place.shown} is of an older release, which stores no "
                "follow-ups, so the end of the run was not reported. Update the service before "
                "its workers."
            ) from error

    async def _send_reports(
        self, reports: Sequence[Report], method: str = "report"
    ) -> list[Outcome]:
        return await self._in_groups(
            method,
            reports,
            wire.MOST_RUNS,
            wire.decode_outcomes,
            lambda one, why: Outcome("", error=problem_of(InvalidSubmission(why))),
        )

    async def dependency_results(self, task: Task) -> dict[str, Task | None]:
        token = self._tokens.get(task.status.run)
        if token is None:
            raise LeaseLost(task.id, task.status.run)
        return _decode_results(
            await self._transport.call("dependencies", wire.encode(wire.OfRun(token)))
        )

    # --- control ---

    async def cancel(self, ids: Sequence[str], *, force: bool = False) -> list[Acted]:
        return await self._act("cancel", ids, force=force)

    async def retry(self, ids: Sequence[str]) -> list[Acted]:
        return await self._act("retry", ids, safe=False)

    async def act(
        self, ids: Sequence[str], command: Command, *, force: bool = False
    ) -> list[Acted]:
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
    ) -> list[Acted]:
        done: list[Acted] = []
        for start in range(0, len(ids), MAX_BATCH):
            which = Which(list(ids[start : start + MAX_BATCH]), event, fields or {}, force)
            answer = await self._transport.call(method, wire.encode(which), safe=safe)
            done.extend(map(wire.acted, wire.decode_outcomes(answer)))
        return done

    async def acts(self, actor: str | None = None, limit: int = 100) -> list[AuditRecord]:
        body = wire.encode(wire.OfAudit(limit, actor))
        return _decode_acts(await self._transport.call("acts", body))

    # --- reading and watching ---

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

    async def quarantine_worker(
        self, queue: str, worker: str, until: int, *, by: str = "", info: str = ""
    ) -> ClaimingWorker:
        asked = wire.OfClaiming(queue=queue, worker=worker, until=until, by=by, info=info)
        reply = await self._transport.call("quarantine_worker", wire.encode(asked))
        return _decode_claiming(reply)

    async def group(self, name: str) -> GroupRecord:
        body = wire.encode(wire.OfGroup(name))
        return _decode_group(await self._transport.call("group", body))

    async def seal_group(self, name: str) -> GroupRecord:
        body = wire.encode(wire.OfGroup(name))
        return _decode_group(await self._transport.call("seal_group", body))

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

    async def wait_end(self, task_id: str, timeout: float | None = None) -> Task:
        return await until_ended(self.watch, task_id, timeout, self._rng)

    def watch(self, task_id: str) -> AsyncIterator[Task]:
        return self._attention.watch(task_id)

    async def events(self, cursor: str, limit: int = _PAGE) -> EventPage:
        body = wire.encode(wire.After(cursor, limit))
        return _decode_events(await self._transport.call("events", body))

    async def events_end(self) -> str:
        return _decode_text(await self._transport.call("events_end"))

    async def follow(self, cursor: str | None = None) -> AsyncIterator[TaskEvent]:
        with self.listen([EVENTS_TOPIC]) as hints:
            if cursor is None:
                cursor = await self.events_end()
            while True:
                page = await self.events(cursor, _PAGE)
                cursor = page.cursor
                for event in page.events:
                    yield event
                if not page.events:
                    await hints.wait(SLOW_POLL_S * (0.5 + self._rng.random()))

    def listen(self, topics: Sequence[str]) -> Listener:
        return self._attention.listen(topics)

    # --- the fleet ---

    async def queues(self) -> list[QueueConfig]:
        return _decode_queues(await self._transport.call("queues"))

    async def configure_queue(self, name: str, changes: dict[str, Any]) -> QueueConfig:
        body = wire.encode(wire.OfQueue(name, changes))
        return _decode_queue(await self._transport.call("configure_queue", body))

    async def delete_queue(self, name: str) -> None:
        await self._transport.call("delete_queue", wire.encode(wire.NamedQueue(name)))

    async def policies(self) -> dict[str, PolicyOptions]:
        found = _decode_policies(await self._transport.call("policies"))
        return cast("dict[str, PolicyOptions]", found)

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

    async def types(self) -> list[TypeInfo]:
        return _decode_types(await self._transport.call("types"))

    async def publish_types(self, types: Sequence[TypeInfo]) -> None:
        """Publish; a token that does not allow it leaves the types to the service, which is no
        reason not to run tasks."""
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

    async def waits(self, queues: Sequence[str] = ()) -> list[KindWait]:
        body = wire.encode(wire.OfWaits(list(queues)))
        return _decode_waits(await self._transport.call("waits", body))

    async def wait_of(self, task: Task) -> Wait | None:
        body = wire.encode(wire.OfWaits(task=task.id))
        found = _decode_waits(await self._transport.call("waits", body))
        return Wait(found[0].why, found[0].text) if found else None

    async def workers(self) -> list[WorkerInfo]:
        return _decode_workers(await self._transport.call("workers"))

    async def put_worker(self, info: WorkerInfo) -> None:
        await self._transport.call("put_worker", wire.encode(info))

    async def remove_worker(self, worker: str) -> None:
        await self._transport.call("remove_worker", wire.encode(Which([worker])))

    async def partitions(self) -> int:
        return self._partitions

    async def info(self) -> StoreInfo:
        return _decode_info(await self._transport.call("info"))

    async def artifacts(self) -> Artifacts:
        return self._artifacts

    async def keeps_logs(self) -> bool:
        return True


def _invalid(one: object, why: str) -> Verdict:
    logger.error("A renewal cannot be sent: %s", why)
    return Verdict.INVALID


def _said_alone(why: str) -> str:
    """Why the service refused it, without the name of the error that carried it here."""
    return why.removeprefix(f"{Unwritable.__name__}: ")


def _waiting(batcher: Batcher[Report, Outcome]) -> int:
    return batcher.waiting


class _Sent(Told[Outcome]):
    """A report that is on its way to the service."""

    __slots__ = ("_engine", "_event", "_run")

    def __init__(self, engine: HttpEngine, run: str, event: Event, then: Then) -> None:
        self._engine = engine
        self._run = run
        self._event = event
        self._then = then

    def follows(self, outcome: Outcome) -> State | None:
        return self._engine.followed(self._run, self._event, outcome)
