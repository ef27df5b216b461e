"""The engine in this process, over any store.

It is composed of parts, one for each task, and adds only opening and closing them. The read-only
methods are in `reads`.
"""

import asyncio
import logging
import random as random_module
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from andon.artifacts.base import ArtifactEntries
from andon.contract.limits import MAX_PAYLOAD
from andon.contract.optional import ParksClaims, offered
from andon.contract.outcomes import Changed, Verdict
from andon.contract.requests import ClaimRequest, Renewal
from andon.contract.store import Store
from andon.engine.actor import ACTOR
from andon.engine.alert_looks import AlertLooks
from andon.engine.alerts import Alerts
from andon.engine.artifacts import Keeping
from andon.engine.audit import Audit
from andon.engine.base import ActionResult, Joinable, Submission, Submitted
from andon.engine.bearing import Bearing
from andon.engine.codes import CodeBook
from andon.engine.completions import Completion
from andon.engine.control import Control
from andon.engine.debts import Debts
from andon.engine.dependencies import Dependencies
from andon.engine.editing import Editing
from andon.engine.ending import until_ended
from andon.engine.extending import Extending
from andon.engine.group_news import NewsOfGroups
from andon.engine.groups import Groups
from andon.engine.holding import Holding
from andon.engine.naming import RetryPolicies
from andon.engine.policy_resolver import PolicyResolver
from andon.engine.queue_settings import QueueSettings
from andon.engine.reading import check_asked
from andon.engine.reads import StoreReads
from andon.engine.registry import Registry
from andon.engine.rollups import Rollups
from andon.engine.runs import Mark, Resolved, Runs
from andon.engine.schedules import Schedules
from andon.engine.submitting import Submitting
from andon.engine.timekeeper import Timekeeper
from andon.engine.waiting import KindWait, Waits
from andon.engine.watching import Watching
from andon.lifecycle.commands import Command
from andon.lifecycle.constants import SLOW_POLL_S
from andon.lifecycle.waiting import Wait
from andon.model.audit import AuditRecord
from andon.model.code import Code
from andon.model.fleet import QueueConfig, TypeInfo, WorkerInfo
from andon.model.groups import GroupRecord
from andon.model.minutes import MinuteHistory
from andon.model.policy import PolicyOptions
from andon.model.registry import ClaimedQueue, ClaimingWorker
from andon.model.task import Task, TaskEvent
from andon.model.words import State

if TYPE_CHECKING:
    from types import CoroutineType

log = logging.getLogger("andon.engine")


class LocalEngine(StoreReads):
    """An `Engine` over a store in this process.

    `random` decides jitter only; give a seeded one to replay a run. `max_payload` bounds arguments
    and results, in bytes. `artifacts` is the URL of the place for artifacts, if the application
    names one. `poll_s`: how often loops that wait for hints look without one (hints may be lost).
    """

    def __init__(
        self,
        store: Store,
        *,
        profile: str = "native",
        max_payload: int = MAX_PAYLOAD,
        dead_letter_limit: int | None = None,
        random: random_module.Random | None = None,
        artifacts: str | None = None,
        poll_s: float = SLOW_POLL_S,
    ) -> None:
        jitter = self._jitter = random or random_module.Random()
        super().__init__(store)
        self.max_payload = max_payload
        self.in_flight = store.in_flight
        self.claims_ahead = store.claims_ahead
        self._parking_store = offered(store, ParksClaims)
        self.resolver = PolicyResolver(store, profile)
        self.codes = CodeBook(store)
        self.audit = Audit(store)
        self._policies = RetryPolicies(store, self.resolver, self.audit)
        self._queue_settings = QueueSettings(store, self.resolver, self.audit)
        self._waits = Waits(store, self.codes)
        self._dependencies = Dependencies(store)
        self._runs = Runs(
            store,
            self.resolver,
            jitter.random,
            self._ended,
            bearing=Bearing(self.resolver, store.now, max_payload=max_payload),
            owes=self._owes,
            extend=self._extend,
        )
        self._control = Control(
            store,
            jitter.random,
            self._runs.commits,
            self._ended,
            link=self._dependencies.verify,
            released=self._dependencies.released,
        )
        self._dependencies.acting_through(self._control)
        self._extending = Extending(store, self._control)
        self._groups = Groups(store)
        self.registry = Registry(store)
        self._submitting = Submitting(
            store,
            self.resolver,
            self._dependencies,
            self._control,
            groups=self._groups,
            max_payload=max_payload,
        )
        self.bulk_size = self._submitting.bulk_size
        self._debts = Debts(store, self._submitting.store_births, self._control, self._dependencies)
        self._submitting.superseding_through(
            Holding(
                store,
                self._control,
                self._dependencies,
                jitter.random,
                create=self._submitting.batcher.put,
                commit=self._runs.commits.put,
                ended=self._ended,
                pay=self._debts.pay,
            )
        )
        self._editing = Editing(store, self._control, self._debts, max_payload=max_payload)
        self.schedules = Schedules(
            store,
            self.resolver,
            self._control,
            self._debts,
            self._submitting.store_births,
            audit=self.audit,
            max_payload=max_payload,
        )
        self._poll_s = poll_s
        self._watching = Watching(store, jitter, poll_s=poll_s)
        self._keeping = Keeping(store, store.url, artifacts, poll_s=poll_s)
        self.rollups = Rollups(store, jitter, poll_s=poll_s)
        self.alerts = Alerts(store, self.audit, self.submit)
        self.alert_looks = AlertLooks(store, self.alerts, self.rollups, jitter, poll_s=poll_s)
        self.alerts.previewing_by(self.alert_looks.preview)
        limit = dead_letter_limit
        if limit is None:
            limit = self.resolver.profile.dead_letter_limit
        self.timekeeper = Timekeeper(
            store,
            self._dependencies,
            self._ended,
            random=jitter,
            dead_letter_limit=limit,
            pay=self._debts.pay_due,
            also=(
                lambda: self._keeping.keep_swept(jitter),
                self.rollups.keep,
                self.alert_looks.keep,
            ),
            sweep=(self._groups.sweep, self._groups.news.trim, self.registry.sweep),
            poll_s=poll_s,
        )
        self._opening: asyncio.Lock | None = None
        self._following: asyncio.Task[None] | None = None
        self._is_open = False

    async def open(self) -> None:
        """Open the store and read its configuration. Idempotent."""
        if self._opening is None:
            self._opening = asyncio.Lock()
        async with self._opening:
            if self._is_open:
                return
            try:
                await self.store.open()
                await self.resolver.refresh()
            except BaseException:
                await self._close_store()  # a second try opens it anew
                raise
            self._watching.open()
            self._following = asyncio.ensure_future(self.resolver.follow(self._poll_s))
            self._is_open = True

    async def close(self) -> None:
        """Write what was handed over, then close the store. Idempotent."""
        if not self._is_open:
            return
        self._is_open = False
        await self.timekeeper.stop()
        await self._submitting.drain()
        await self._runs.commits.drain()
        await self._debts.drain()
        await self._runs.commits.drain()
        await self._dependencies.drain()
        await self._watching.close()
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        await self._keeping.close()
        await self.registry.close()
        await self.store.close()

    async def _close_store(self) -> None:
        """Close what may be half open, and ignore errors: the caller gets the error of opening."""
        try:
            await self.store.close()
        except Exception as error:
            log.warning("The store could not be closed: %r", error)

    def keep_time(self) -> None:
        self.timekeeper.start()

    async def settled(self) -> None:
        """Wait until the tasks that runs have borne are stored, and the dependents of every end
        written so far have been notified."""
        await self._debts.drain()
        await self._dependencies.drain()

    async def artifacts(self) -> ArtifactEntries:
        return await self._keeping.artifacts()

    async def keeps_logs(self) -> bool:
        """Whether there is a place for artifacts and logs of runs."""
        return await self._keeping.has_place()

    def submit(
        self, submissions: Sequence[Submission]
    ) -> "CoroutineType[Any, Any, list[Submitted]]":
        return self._submitting.submit(submissions)

    async def create(self, submission: Submission) -> tuple[Submitted, Task | None]:
        """Submit one. Returns the outcome, and its record as it was created, so that the caller
        need not read it. None: it was not created just now, or it waits for others, whose ends may
        have changed it since."""
        if not submission.dependencies:
            made: list[Task] = []
            [submitted] = await self._submitting.submit_alone(submission, made.append)
            return submitted, made[0] if made else None
        [submitted] = await self.submit([submission])
        return submitted, None

    def is_awaited(self, connection: Any) -> bool:
        """Whether a user's connection is one whose calls are awaited."""
        return self._submitting.joinable_store().is_awaited(connection)

    async def join(self, submissions: Sequence[Submission]) -> Joinable:
        """Make ready what submits in a user's transaction."""
        return await self._submitting.join(submissions)

    def claim(self, request: ClaimRequest) -> "CoroutineType[Any, Any, list[Task]]":
        if request.registers:
            return self.registry.claim(request, self._runs.claim)
        return self._runs.claim(request)

    @property
    def parks_claims(self) -> bool:
        """Whether claims can be parked."""
        return self._parking_store is not None and self._parking_store.parks_claims

    def on_handoff(self, worker: str, act: Callable[[list[Task]], None] | None) -> None:
        if self._parking_store is None:
            return
        if act is None:
            self._parking_store.on_handoff(worker, None)
            return
        taker = act

        def filled_in(tasks: list[Task]) -> None:
            taker(self._runs.filled_in(tasks))

        self._parking_store.on_handoff(worker, filled_in)

    async def renew(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        return await self._runs.renew(renewals)

    def renew_blocking(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        return self.store.renew_blocking(renewals)

    def report(
        self, task: Task, command: Command, follow_ups: Sequence[Submission] = ()
    ) -> "CoroutineType[Any, Any, State | None]":
        return self._runs.report(task, command, follow_ups)

    def report_nowait(
        self, task: Task, command: Command, then: Completion, follow_ups: Sequence[Submission] = ()
    ) -> None:
        self._runs.report_nowait(task, command, then, follow_ups)

    async def report_run(
        self,
        task_id: str,
        run: str,
        current: Task | None,
        command: Command,
        mark: Mark,
        *,
        follow_ups: Sequence[Submission] = (),
    ) -> Resolved:
        """Resolve a run of which only the ids are known, as a service does for a worker elsewhere.
        `current` is the record as it was just read, or as it was claimed. Raises `LeaseLost`."""
        return await self._runs.report_run(
            task_id, run, current, command, mark, follow_ups=follow_ups
        )

    async def cancel(self, ids: Sequence[str], *, force: bool = False) -> list[ActionResult]:
        acted = await self._control.cancel(ids, force=force, actor=ACTOR.get())
        await self.audit.done("cancel", acted, force=force or None)
        return acted

    async def retry(self, ids: Sequence[str]) -> list[ActionResult]:
        acted = await self._control.retry(ids, actor=ACTOR.get())
        await self.audit.done("retry", acted)
        return await self.schedules.delivered(acted)

    async def end_runs(self, worker: str, ids: Sequence[str]) -> list[ActionResult]:
        acted = await self._control.end_runs(worker, ids, actor=ACTOR.get())
        await self.audit.done("end-runs", acted, worker=worker)
        return acted

    async def act(
        self, ids: Sequence[str], command: Command, *, force: bool = False
    ) -> list[ActionResult]:
        acted = await self._control.act(ids, command, force=force, actor=ACTOR.get())
        await self.audit.done(command.event.value, acted, force=force or None)
        return await self.schedules.delivered(acted)

    async def edit(self, task_id: str, args: bytes, successor: str) -> Submitted:
        edited = await self._editing.edit(task_id, args, successor)
        if edited.created:
            done = ActionResult(task_id, None, changed=True)
            await self.audit.done("edit", [done], successor=successor)
        return edited

    async def acts(self, actor: str | None = None, limit: int = 100) -> list[AuditRecord]:
        return await self.audit.acts(actor, limit)

    async def claiming_workers(
        self, queue: str, cursor: str = "", limit: int = 100, *, in_quarantine: bool | None = None
    ) -> tuple[list[ClaimingWorker], str]:
        return await self.registry.workers(queue, cursor, limit, in_quarantine=in_quarantine)

    async def claiming_worker(self, queue: str, worker: str) -> ClaimingWorker:
        return await self.registry.worker(queue, worker)

    async def claimed_queues(
        self, cursor: str = "", limit: int = 100
    ) -> tuple[list[ClaimedQueue], str]:
        return await self.registry.queues(cursor, limit)

    async def quarantine_worker(
        self, queue: str, worker: str, until: int, *, by: str = "", info: str = ""
    ) -> ClaimingWorker:
        return await self.registry.quarantine(queue, worker, until, by=by, info=info)

    async def group(self, name: str) -> GroupRecord:
        return await self._groups.get(name)

    async def seal_group(self, name: str) -> GroupRecord:
        return await self._groups.seal(name)

    async def tell_reprioritised(self, group: str, priority: int, changed: int) -> None:
        """Write to the group log that so many members were given this priority. Raises
        `GroupNotFound`."""
        await self._groups.reprioritised(group, priority, changed)

    @property
    def group_news(self) -> NewsOfGroups:
        """What happened to groups as a whole."""
        return self._groups.news

    async def code_lists(self, digests: Iterable[str]) -> dict[str, Code]:
        """What workers have code for, by the digests that they name."""
        return await self.codes.find(digests)

    async def minutes(
        self, name: str | None = None, minutes: int = 60, *, by_type: bool = False
    ) -> MinuteHistory:
        if name is not None:
            check_asked(name, field="name" if by_type else "queue")
        return await self.rollups.history(name, minutes, by_type=by_type)

    def wait_end(
        self, task_id: str, timeout: float | None = None
    ) -> "CoroutineType[Any, Any, Task]":
        return until_ended(self._watching.end_of, task_id, timeout, self._jitter)

    def watch(self, task_id: str) -> AsyncIterator[Task]:
        return self._watching.watch(task_id)

    def follow(self, cursor: str | None = None) -> AsyncIterator[TaskEvent]:
        return self._watching.follow(cursor)

    async def configure_queue(self, name: str, changes: dict[str, Any]) -> QueueConfig:
        return await self._queue_settings.change(name, changes)

    async def delete_queue(self, name: str) -> None:
        await self._queue_settings.delete(name)

    async def policies(self) -> dict[str, PolicyOptions]:
        return await self._policies.all()

    async def put_policy(self, name: str, options: Mapping[str, Any]) -> PolicyOptions:
        return await self._policies.put(name, options)

    async def delete_policy(self, name: str) -> bool:
        return await self._policies.delete(name)

    def know_types(self, types: Sequence[TypeInfo]) -> None:
        self.resolver.add_types(types)

    async def publish_types(self, types: Sequence[TypeInfo]) -> None:
        self.know_types(types)
        await self.store.put_types(types)

    async def keep_code(self, code: Code) -> None:
        await self.codes.keep(code)

    async def waits(self, queues: Sequence[str] = ()) -> list[KindWait]:
        return await self._waits.of_queues(queues)

    async def wait_of(self, task: Task) -> Wait | None:
        return await self._waits.of_task(task)

    async def put_worker(self, info: WorkerInfo) -> None:
        await self.store.put_worker(info)

    async def remove_worker(self, worker: str) -> None:
        await self.alerts.left(worker)
        await self.store.remove_worker(worker)

    async def _extend(self, task: Task, command: Command) -> None:
        await self._extending.extend(task, command)

    def _owes(self, task: Task) -> None:
        self._debts.pay_soon(task)

    def _ended(self, task: Task, state: State | None, changed: Changed) -> None:
        self._dependencies.ended(task, state, has_dependents=changed.has_dependents)
