"""Follow-ups, fan-outs and schedules of a simulated fleet, and the checks of what must hold for
them after any fault."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from andon.contract.store import Store
from andon.engine.base import Submission
from andon.engine.local import LocalEngine
from andon.engine.schedule_requests import Overlap, ScheduleRequest
from andon.lifecycle.fan_out import run_header
from andon.lifecycle.recurrence.occurrences import between
from andon.model.errors import StoreUnavailable
from andon.model.recurrence import Recurrence
from andon.model.task import Task
from andon.testing.ledger import Ledger, Unbalanced
from andon.worker.context import Context

LEASE = 10.0
"""Seconds that a simulated run is held unrenewed."""

SCHEDULES: dict[Overlap, int] = {"allow": 23, "skip": 11, "queue": 29}
"""Schedules by their overlap rule, which is their name too, and the seconds between their times."""

_PATIENT = {"max_retries": 20, "retry_delay": 1.0, "lease": LEASE, "on_lost": "retry"}
_TRIES = 1_000


@dataclass
class Borne:
    """The births that were requested."""

    follow_ups: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    """By id, the task and the run whose handler asked for it."""
    fanned_out: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    """By id, the task and the run that submitted it; some submits may have failed."""
    occurrences: int = 0  #: of schedules, once all was checked


class _FollowUp:
    """A follow-up, as a handler gives it."""

    def __init__(self, submission: Submission) -> None:
        self._submission = submission

    def follow(self, before: str = "", group: str | None = None) -> tuple[Submission, str]:
        return self._submission, self._submission.id


class Bearing:
    """Bears tasks of the type "leaf". `engine` chooses a machine's; `ledger` has what happened."""

    def __init__(self, store: Store, engine: Callable[[], LocalEngine], ledger: Ledger) -> None:
        self.borne = Borne()
        self._store = store
        self._engine = engine
        self._ledger = ledger

    def bear(self, ctx: Context) -> None:
        """Ask for a follow-up, whose id names the run."""
        child = f"{ctx.task_id}-f{ctx.run}"
        self.borne.follow_ups[child] = (ctx.task_id, ctx.run)
        ctx.follow_up(_FollowUp(Submission(id=child, name="leaf", options=_PATIENT)))

    async def fan_out(self, ctx: Context, count: int) -> None:
        """Submit tasks that wait for the end of this run, and one that takes any end of theirs."""
        tie = run_header(ctx.task_id, ctx.task.status.run)
        ids = tuple(f"{ctx.task_id}-o{ctx.run}-{n}" for n in range(count))
        closing = f"{ctx.task_id}-o{ctx.run}-closing"
        leaf = Submission(id="", name="leaf", options=_PATIENT, headers=tie)
        wishes = [replace(leaf, id=one, dependencies=(ctx.task_id,)) for one in ids]
        wishes.append(replace(leaf, id=closing, dependencies=ids, requires="all-resolved"))
        self.borne.fanned_out.update(dict.fromkeys((*ids, closing), (ctx.task_id, ctx.run)))

        async def acknowledged() -> None:
            for outcome in await self._engine().submit(wishes):
                if outcome.error is not None:
                    raise outcome.error

        await insist(acknowledged)

    async def schedule(self, seconds: float) -> None:
        """Make schedules that fire for so long."""
        end = self._store.now() + round(seconds * 1000)
        for overlap, every in SCHEDULES.items():
            request = ScheduleRequest(
                name=overlap,
                recurrence=Recurrence(every=every, jitter=3.0, catch_up="all", end=end),
                task=Submission(id="", name="leaf", options=_PATIENT),
                overlap=overlap,
                application="simulated",
                release="1",
            )

            async def made(request: ScheduleRequest = request) -> None:
                [outcome] = await self._engine().schedules.put([request], "declare")
                if outcome.error is not None:
                    raise outcome.error

            await insist(made)

    # --- what must hold ---

    async def check(self) -> set[str]:
        """What was borne, schedules among it, once all has ended. Raises `Unbalanced`."""
        tasks = self._ledger.tasks
        self._check_follow_ups()
        fanned_out = [child for child in self.borne.fanned_out if child in tasks]
        for task in await self._store.get(fanned_out):
            assert task is not None
            self._check_fanned_out(task)
        for record in await self._store.get([*SCHEDULES]):
            assert record is not None
            self._check_occurrences(record)
        occurrences = {one for one in tasks if _schedule_of(one)}
        follow_ups = self.borne.follow_ups.keys() & tasks.keys()
        return {*fanned_out, *follow_ups, *occurrences, *SCHEDULES}

    def _check_follow_ups(self) -> None:
        """They exist if and only if the run that asked for them completed."""
        tasks = self._ledger.tasks
        for child, (bearer, run) in self.borne.follow_ups.items():
            if (run in tasks[bearer].completed_runs) is not (child in tasks):
                there = "is there" if child in tasks else "is missing"
                raise Unbalanced(f"follow-up {child} {there}")

    def _check_fanned_out(self, task: Task) -> None:
        """It ran if and only if its run completed."""
        bearer, run = self.borne.fanned_out[task.id]
        completed = run in self._ledger.tasks[bearer].completed_runs
        if completed is not (task.status.started_at is not None):
            raise Unbalanced(
                f"{task.id} is {task.state} {task.status.reason}, and its run {run} has "
                f"{'' if completed else 'not '}completed"
            )

    def _check_occurrences(self, record: Task) -> None:
        """Each time has its occurrence, but for what overlapped."""
        schedule = record.status.schedule
        assert schedule is not None
        begun, end = record.status.created_at, schedule.recurrence.end or 0
        times = between(schedule.recurrence, record.id, start=begun + 1, end=end)
        wanted = {one.id for one in times}
        there = {one for one in self._ledger.tasks if _schedule_of(one) == record.id}
        self.borne.occurrences += len(there)
        if there - wanted or (wanted - there and record.id != "skip"):
            raise Unbalanced(f"schedule {record.id}: {there ^ wanted} too many or too few")


def _schedule_of(task_id: str) -> str:
    """The schedule whose occurrence it is; empty if it is none."""
    name, colon, _ = task_id.partition(":")
    return name if colon else ""


async def insist(act: Callable[[], Awaitable[Any]]) -> None:
    """Do it again until the store has answered."""
    for _ in range(_TRIES):
        try:
            await act()
        except StoreUnavailable:
            await asyncio.sleep(0.2)
        else:
            return
    raise Unbalanced("the store never answered")
