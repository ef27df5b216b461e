"""Measures an engine whose store is behind a service, for the metrics of a remote worker.

The operations are those of the engine, and their times those of the requests; the rest is counted
as a measured store counts it (`andon.contract.measured_store`).
"""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from andon.contract.instruments import Instruments, Names, claimed_at, count_waits, timed
from andon.contract.outcomes import Verdict
from andon.contract.requests import ClaimRequest, Renewal
from andon.engine.base import Engine
from andon.engine.completions import Completion, Completions
from andon.lifecycle.commands import Command
from andon.model.errors import LeaseLost
from andon.model.words import DEFAULT_QUEUE, Event, State

if TYPE_CHECKING:
    from andon.engine.base import Submission, Submitted
    from andon.model.task import Task

_PLAIN = ("get", "find", "history", "events", "stats", "queue_history", "cancel", "retry", "act")


def measured_engine(engine: Engine, all_instruments: Sequence[Instruments]) -> Engine:
    """The same engine, measured with each of these."""
    for instruments in all_instruments:
        engine = cast("Engine", _Measured(engine, instruments))
    return engine


class _Measured:
    def __init__(self, engine: Engine, metrics: Instruments) -> None:
        self._engine = engine
        self._metrics = metrics
        self._names = Names()
        self._telling = Completions()
        for name in _PLAIN:
            setattr(self, name, timed(getattr(engine, name), metrics, name))
        self._submit = timed(engine.submit, metrics, "submit")
        self._claim = timed(engine.claim, metrics, "claim")
        self._report = timed(engine.report, metrics, "report", sized=False)
        self._renew = timed(engine.renew, metrics, "renew")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def submit(self, submissions: "Sequence[Submission]") -> "list[Submitted]":
        outcomes = await self._submit(submissions)
        for submission, outcome in zip(submissions, outcomes, strict=True):
            if outcome.created:
                queue = self._names.of(submission.queue or DEFAULT_QUEUE)
                self._metrics.submitted.labels(queue).inc()
        return outcomes

    async def claim(self, request: ClaimRequest) -> "list[Task]":
        tasks = await self._claim(request)
        count_waits(tasks, self._metrics, self._names)
        return tasks

    async def report(
        self, task: "Task", command: Command, follow_ups: "Sequence[Submission]" = ()
    ) -> State | None:
        name = self._names.of(task.definition.name)
        try:
            state: State | None = await self._report(task, command, follow_ups)
        except LeaseLost:
            self._metrics.lost.labels(name).inc()
            raise
        if state is State.RETRY or (state is State.PENDING and command.event is not Event.RELEASE):
            self._metrics.retries.labels(name).inc()
        claimed = claimed_at(task)
        if claimed is not None:
            outcome = "gone" if state is None else str(state)
            seconds = max(self._engine.now() - claimed, 0) / 1000
            self._metrics.runs.labels(name, outcome).observe(seconds)
        return state

    def report_nowait(
        self,
        task: "Task",
        command: Command,
        then: Completion,
        follow_ups: "Sequence[Submission]" = (),
    ) -> None:
        self._telling.tell(self.report(task, command, follow_ups), then)

    async def renew(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        return await self._renew(renewals)

    def renew_blocking(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        began = time.perf_counter()
        try:
            verdicts = self._engine.renew_blocking(renewals)
        except Exception:
            self._metrics.store_errors.labels("renew").inc()
            raise
        finally:
            self._metrics.store.labels("renew").observe(time.perf_counter() - began)
        self._metrics.batches.labels("renew").observe(len(renewals))
        return verdicts
