"""Claims runs from a service, renews and reports them.

A report carries the token that came with the run's claim, so a run is reported by the engine that
claimed it. Single reports share requests that form by themselves under load.
"""

import logging
from collections.abc import Sequence

import msgspec

from andon.contract.isolation import Unwritable, each_alone_blocking
from andon.contract.limits import MAX_BATCH
from andon.contract.outcomes import Verdict
from andon.contract.requests import ClaimRequest, Renewal
from andon.engine.base import Submission
from andon.engine.batching import Batcher
from andon.engine.completions import Completion, Completions, CompletionTaker
from andon.engine.http import wire
from andon.engine.http.blocking import BlockingCalls
from andon.engine.http.errors import error_of, problem_of
from andon.engine.http.place import Place
from andon.engine.http.runtokens import RunTokens
from andon.engine.http.sending import send_in_groups
from andon.engine.http.transport import Transport
from andon.engine.http.wire import Outcome, Packed, Report, Sign
from andon.engine.places import in_places
from andon.lifecycle.commands import Command
from andon.model.errors import (
    ConfigurationError,
    InvalidSubmission,
    LeaseLost,
    StoreIncompatible,
    UnknownCode,
)
from andon.model.task import Task
from andon.model.words import Event, State

logger = logging.getLogger("andon.http")

_REPORTS_IN_FLIGHT = 2
"""Requests with reports at once: one that the service works on, and the next on its way."""

_decode_results = msgspec.json.Decoder(dict[str, Task | None]).decode


class HttpRuns:
    """Claims runs at the service, renews and reports them."""

    def __init__(self, transport: Transport, place: Place) -> None:
        self.tokens = RunTokens()
        self._transport = transport
        self._place = place
        self._blocking = BlockingCalls(place)
        self._telling = Completions()
        self._reports: list[Batcher[Report, Outcome]] = [
            Batcher(self._send_reports, size=wire.MOST_RUNS) for _ in range(_REPORTS_IN_FLIGHT)
        ]
        self._bearing: Batcher[Report, Outcome] = Batcher(
            self._send_bearing, size=wire.MOST_RUNS, in_flight=_REPORTS_IN_FLIGHT
        )

    async def drain(self) -> None:
        """Wait until every report handed over so far is answered."""
        for reports in (*self._reports, self._bearing):
            await reports.drain()

    def close(self) -> None:
        self._blocking.close()

    async def claim(self, request: ClaimRequest) -> list[Task]:
        claimed = wire.decode_claimed(await self._claim(request))
        for one in claimed:
            self.tokens.keep(one.task, one.token)
        return [one.task for one in claimed]

    async def _claim(self, request: ClaimRequest) -> bytes:
        try:
            body = wire.encode(wire.claim_of(request, lists_code=False))
            return await self._transport.call("claim", body)
        except UnknownCode:
            body = wire.encode(wire.claim_of(request, lists_code=True))
            return await self._transport.call("claim", body)

    async def renew(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        known = [r for r in renewals if r.run in self.tokens]
        verdicts = await send_in_groups(
            self._transport,
            "renew",
            self._signs(known),
            MAX_BATCH,
            decode=wire.decode_verdicts,
            refused=_invalid,
        )
        return self._merged(renewals, known, verdicts)

    def renew_blocking(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        known = [r for r in renewals if r.run in self.tokens]
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
            Sign(self.tokens[r.run], r.lease_ms, r.heartbeat, r.progress, r.message)
            for r in renewals
        ]

    def _merged(
        self, renewals: Sequence[Renewal], known: Sequence[Renewal], verdicts: Sequence[Verdict]
    ) -> list[Verdict]:
        """A verdict for each; a run that was not claimed here, or is reported, is lost."""
        told = {r.run: verdict for r, verdict in zip(known, verdicts, strict=True)}
        for run, verdict in told.items():
            if verdict is Verdict.LOST:
                self.tokens.ended(run)
        return [told.get(r.run, Verdict.LOST) for r in renewals]

    async def report(
        self, task: Task, command: Command, follow_ups: Sequence[Submission] = ()
    ) -> State | None:
        report = self._said(task, command, follow_ups)
        outcome = await self._line_of(report).put(report)
        return self.followed(task.status.run, command.event, outcome)

    def report_nowait(
        self, task: Task, command: Command, then: Completion, follow_ups: Sequence[Submission] = ()
    ) -> None:
        try:
            report = self._said(task, command, follow_ups)
        except Exception:
            self._telling.tell(self.report(task, command, follow_ups), then)
            return
        sent = _Sent(then, self, task.status.run, command.event)
        self._line_of(report).hand(report, sent)

    def _line_of(self, report: Report) -> Batcher[Report, Outcome]:
        return self._bearing if report.follow_ups else min(self._reports, key=_waiting)

    def _said(self, task: Task, command: Command, follow_ups: Sequence[Submission]) -> Report:
        """What is sent of a report. Raises `LeaseLost` for a run that was not claimed here."""
        run = task.status.run
        # A run that was reported keeps its token a while: the report may be repeated
        # (docs/rulings.md, R3).
        token = self.tokens.of(task)
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
        """The state that follows, from the answer to a report. Raises the error with which the
        service refuses it."""
        if outcome.error is not None:
            error = error_of(outcome.error)
            # An expiry that crosses a cancel request is refused, and the run reported otherwise.
            if isinstance(error, LeaseLost) and event is not Event.EXPIRE:
                self.tokens.ended(run)
            raise error
        self.tokens.ended(run)
        return outcome.state

    async def _send_bearing(self, reports: Sequence[Report]) -> list[Outcome]:
        """Send reports with follow-ups to a route of their own: a service of a release that does
        not know follow-ups would accept the report and silently drop them."""
        try:
            return await self._send_reports(reports, "report_bearing")
        except StoreIncompatible as error:
            raise StoreIncompatible(
                f"The service at {self._place.shown} is of an older release, which stores no "
                "follow-ups, so the end of the run was not reported. Update the service before "
                "its workers."
            ) from error

    async def _send_reports(
        self, reports: Sequence[Report], method: str = "report"
    ) -> list[Outcome]:
        return await send_in_groups(
            self._transport,
            method,
            reports,
            wire.MOST_RUNS,
            decode=wire.decode_outcomes,
            refused=lambda one, why: Outcome("", error=problem_of(InvalidSubmission(why))),
        )

    async def dependency_results(self, task: Task) -> dict[str, Task | None]:
        token = self.tokens.get(task.status.run)
        if token is None:
            raise LeaseLost(task.id, task.status.run)
        return _decode_results(
            await self._transport.call("dependencies", wire.encode(wire.OfRun(token)))
        )


def _invalid(one: object, why: str) -> Verdict:
    logger.error("A renewal cannot be sent: %s", why)
    return Verdict.INVALID


def _waiting(batcher: Batcher[Report, Outcome]) -> int:
    return batcher.waiting


class _Sent(CompletionTaker):
    """A report that is on its way to the service."""

    runs: HttpRuns
    run: str
    event: Event

    def set_result(self, result: Outcome, /) -> None:
        try:
            state = self.runs.followed(self.run, self.event, result)
        except Exception as error:
            self.then(None, error)
        else:
            self.then(state, None)
