"""The engine: what clients and workers speak to, whether it is in this process or behind HTTP.

A worker does not know which it has (docs/design.md, 5). Everything is
async, safe to call from many coroutines of one event loop, and batched beneath.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from andon.artifacts.base import Artifacts
from andon.contract.outcomes import Verdict
from andon.contract.queries import EventPage, History, Page, Query
from andon.contract.requests import ClaimRequest, Renewal
from andon.contract.topics import Listener
from andon.engine.completions import Completion
from andon.engine.waiting import KindWait
from andon.lifecycle.commands import Command
from andon.lifecycle.waiting import Wait
from andon.model.audit import AuditRecord
from andon.model.code import Code
from andon.model.errors import AndonError, InvalidSubmission
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
from andon.model.words import State


class Submission(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What a caller asks for, before any default is filled in. Its hash is the definition's digest.

    Relative times stay relative here, so that a repeat is recognised (docs/rulings.md, R26):
    `delay` and `deadline_in` are seconds from the submit, `run_at` and `deadline` absolute ms UTC.

    Example:
        from andon import Andon

        class NothingAtNight:
            def on_submit(self, submission):
                if submission.queue == "night":
                    raise ValueError(f"Task {submission.id} is for the night; submit it then.")
                return submission

        app = Andon("memory://", middleware=[NothingAtNight()])
    """

    id: str  #: the id that the task will have
    name: str  #: of the task type
    version: int = 0  #: of the task type
    queue: str | None = None
    """None: the type's queue, as declared or as its workers published it, else "default"."""
    args: bytes = b"{}"  #: JSON
    priority: int = 0  #: -4 to 5, higher first
    delay: float | None = None  #: seconds until the task may start
    run_at: int | None = None  #: when the task may start
    deadline_in: float | None = None  #: seconds until the whole task must have ended
    deadline: int | None = None  #: when the whole task must have ended
    expires_at: int | None = None  #: when the record goes at the latest, ms UTC
    dependencies: tuple[str, ...] = ()  #: ids of tasks that must end first
    requires: Literal["all-completed", "all-resolved"] = "all-completed"  #: how they must end
    needs: int | None = None  #: how many of them must end so; None: all
    load_dependencies: bool = False  #: give the handler their results
    unique_key: str | None = None  #: no other task holds this key while this one does
    on_held: Literal["refuse", "supersede", "extend"] = "refuse"  #: what if that key is held
    supersede_active: bool = False  #: ask a holder that is active to cancel, too
    max_delay: float | None = None  #: seconds by which `extend` may put the start off at the most
    key: str | None = None  #: concurrency key
    group: str | None = None  #: a name that tasks share
    group_owner: str | None = None
    """Keep a record of the group, which refuses members of other owners, and all once it is sealed
    (docs/rulings.md, R41). None: nothing is kept of it, and nothing asked."""
    scopes: tuple[str, ...] = ()
    """A service's token must satisfy each of them (docs/rulings.md, R29)."""
    tags: tuple[str, ...] = ()  #: words to find it by
    headers: dict[str, str] = {}  #: go with the task to its handler
    options: dict[str, Any] = {}  #: this submission's layer of `PolicyOptions`
    profile: str | None = None  #: whose defaults and names it has; None: the application's
    invalid: str = ""
    """Why the submitter knows this can never work (arguments that do not fit); refused or
    recorded by `on_invalid` (docs/rulings.md, R25)."""


class Submitted(msgspec.Struct, frozen=True):
    """How one submission ended. `error` set: refused, and nothing was stored (or, with
    `on_invalid=record`, only its record as failed).

    Example:
        async for outcomes in app.submit_stream([charge.draft(7, 990)]):
            for outcome in outcomes:
                print(outcome.id, outcome.error or outcome.state)
    """

    id: str  #: of the task
    state: State | None  #: the task is in; None if it was refused, or is not kept
    created: bool  #: False if this exact submission had been accepted before
    error: AndonError | None = None  #: why it was refused; None if it was not

    @property
    def is_recorded(self) -> bool:
        """Whether there is a record of it, though it was refused (`on_invalid=record`)."""
        return isinstance(self.error, InvalidSubmission) and self.state is not None


class ActionResult(msgspec.Struct, frozen=True):
    """How one act of control on one task ended.

    Example:
        handle = await remind.submit_in(3600, "ann@example.org")
        for acted in await app.tasks.cancel([handle, "no-such-task"]):
            print(acted.id, acted.error or acted.state)
    """

    id: str  #: of the task
    state: State | None  #: after the act; None when the record is gone
    changed: bool  #: False if there was nothing to do
    error: AndonError | None = None  #: why it was refused; None if it was not


@runtime_checkable
class Joining(Protocol):
    """An engine whose store may live in a database whose transactions users have themselves."""

    def is_awaited(self, connection: Any) -> bool:
        """Whether the connection's calls are awaited. Raises `TypeError` for what is no connection
        and `ConfigurationError` where the store cannot join transactions."""
        ...

    async def join(self, submissions: Sequence[Submission]) -> "Joinable":
        """Make ready what submits in a user's transaction: visible if and when that commits. A
        full queue refuses, even if it could discard; dependencies may be of the same transaction,
        and are looked for soon after its commit."""
        ...


class Joinable(Protocol):
    """Submissions ready to join a transaction."""

    def submit(self, connection: Any) -> list[Submitted]:
        """On a connection whose calls block, in the thread that may use it."""
        ...

    async def submit_async(self, connection: Any) -> list[Submitted]:
        """On a connection whose calls are awaited, on the loop it belongs to."""
        ...


class Engine(Protocol):
    """All that can be asked about tasks."""

    in_flight: int  #: into how many claims a worker best divides its room; one under way at a time
    claims_ahead: bool  #: a worker whose runs are quick best claims before they begin
    bulk_size: int  #: how many submissions are best handed over in one call

    async def open(self) -> None:
        """Connect to the store or service. Idempotent."""
        ...

    async def close(self) -> None:
        """Write what was handed over, then disconnect. Idempotent."""
        ...

    def now(self) -> int:
        """The store's clock, ms UTC."""
        ...

    def keep_time(self) -> None:
        """Fire timers from this process until `close`, where that is not done elsewhere."""
        ...

    # --- submitting ---

    async def submit(self, submissions: Sequence[Submission]) -> list[Submitted]:
        """Submit one or many; each stands alone, except that a child of a refused parent in the
        same call is refused too. One call with many is bulk; many calls at once are batched."""
        ...

    # --- running ---

    async def claim(self, request: ClaimRequest) -> list[Task]:
        """Claim up to the room there is; tasks come stamped, policies filled in."""
        ...

    @property
    def parks_claims(self) -> bool:
        """Whether claims can be parked (`ClaimRequest.parks`)."""
        ...

    def on_handoff(self, worker: str, act: Callable[[list[Task]], None] | None) -> None:
        """Call `act` with the tasks that are handed to this worker's parked claim, as `claim` would
        return them; None: take no more of them."""
        ...

    async def renew(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        """Say that runs live; carries heartbeat and progress."""
        ...

    def renew_blocking(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        """The same from the lease keeper's own thread; works while a handler blocks the loop."""
        ...

    async def report(
        self, task: Task, command: Command, follow_ups: Sequence[Submission] = ()
    ) -> State | None:
        """Resolve the run that `task` was claimed with. Returns the state that follows, None if
        the record was discarded. Raises `LeaseLost` when the run no longer holds the task.
        `task.cell` should carry the newest heartbeat and progress. `follow_ups`: tasks that exist
        if and only if the run is written as completed (docs/rulings.md, R38); raises
        `InvalidSubmission` if they can never be stored, and then nothing is written."""
        ...

    def report_nowait(
        self, task: Task, command: Command, then: Completion, follow_ups: Sequence[Submission] = ()
    ) -> None:
        """The same for a caller that does not wait: the callback `then`, which must not raise, is
        called with the state or the error after this has returned."""
        ...

    async def dependency_results(self, task: Task) -> dict[str, Task | None]:
        """The dependencies of a task with `load_dependencies`, by id; None: deleted by force."""
        ...

    # --- control ---

    async def cancel(self, ids: Sequence[str], *, force: bool = False) -> list[ActionResult]:
        """Cancel waiting tasks, ask running ones to stop, or with `force` cancel those at once."""
        ...

    async def retry(self, ids: Sequence[str]) -> list[ActionResult]:
        """Rerun what has ended, run now what waits; nothing to do for pending (docs/rulings.md,
        R20)."""
        ...

    async def end_runs(self, worker: str, ids: Sequence[str]) -> list[ActionResult]:
        """End the runs that a worker has of these tasks, because it is gone for good: each is tried
        again while its budget lasts, as after a shutdown of the worker. Tasks that it does not run
        are left alone."""
        ...

    async def act(
        self, ids: Sequence[str], command: Command, *, force: bool = False
    ) -> list[ActionResult]:
        """Any other act of control: Rerun, RunNow, Schedule, Reschedule, Reprioritise, Archive,
        Delete. `force` deletes even what dependents still need (docs/rulings.md, R9)."""
        ...

    async def edit(self, task_id: str, args: bytes, successor: str) -> Submitted:
        """Give a task that has not begun other arguments (JSON): it is cancelled, and a successor
        with that id submitted, all else the same. Repeating it is safe. The outcome is the
        successor's; without a state it is not stored yet, but will be. Refused for a task that has
        begun or ended, or that others depend on: they would not follow."""
        ...

    async def acts(self, actor: str | None = None, limit: int = 100) -> list[AuditRecord]:
        """What was done by hand, newest first: by one actor or by all, of the newest 500. Acts on
        tasks are listed if an actor was named (`andon.acting_as`, a token, the command line);
        changes of queues, policies and tokens always."""
        ...

    # --- reading and watching ---

    async def get(self, ids: Sequence[str]) -> list[Task | None]:
        """Records, None where there is none."""
        ...

    async def history(self, task_id: str) -> History:
        """The task's moves."""
        ...

    async def find(self, query: Query) -> Page:
        """A page of tasks."""
        ...

    async def dependents(self, task_id: str, cursor: str = "", limit: int = 100) -> Page:
        """A page of the tasks that name this one as a dependency, in the order of their ids: those
        that wait for it, and those that do so no longer, as long as their records live
        (docs/rulings.md, R42). Raises `TaskNotFound`, and `InvalidSubmission` for a limit that is
        not 1 to 1,000."""
        ...

    async def stats(self) -> list[QueueStats]:
        """Counts per queue and state."""
        ...

    async def queue_history(self, queue: str | None = None, days: int = 7) -> list[QueueHistory]:
        """What happened in a queue, or in each, on the last `days` days, today among them: UTC
        days, the newest first, none left out (`lifecycle.daily`). Zeros for a queue that was never
        used. Raises `ConfigurationError` for a number of days that is not 1 to 90."""
        ...

    async def minutes(
        self, name: str | None = None, minutes: int = 60, *, by_type: bool = False
    ) -> MinuteHistory:
        """What happened in each of the last minutes that are over, up to 1,440: by queue, or by
        type, or of the one of that name (`lifecycle.minutes`). Rolled up by timekeepers: a minute
        in which none was there is missing. Raises `ConfigurationError` for a number of minutes
        that is not 1 to 1,440."""
        ...

    async def letter_groups(
        self,
        queue: str | None = None,
        name: str | None = None,
        *,
        look: int = 2_000,
        cursor: str = "",
    ) -> LetterGroups:
        """Dead letters by the fingerprint of their errors, of a bounded look at those of the newest
        tasks; `cursor` goes on with older ones. Raises `ConfigurationError` for a look that is not
        1 to 10,000."""
        ...

    async def wait_end(self, task_id: str, timeout: float | None = None) -> Task:
        """Wait until the task has ended; its record, also when it was discarded at once.
        Raises `TimeoutError`, or `TaskNotFound`."""
        ...

    def watch(self, task_id: str) -> AsyncIterator[Task]:
        """The task now, and again whenever it moved or progressed, until it has ended."""
        ...

    async def events(self, cursor: str, limit: int = 500) -> EventPage:
        """Events after a cursor."""
        ...

    async def events_end(self) -> str:
        """The cursor after the newest event."""
        ...

    def follow(self, cursor: str | None = None) -> AsyncIterator[TaskEvent]:
        """Events as they happen, from the cursor (None: from now), for ever. For showing them:
        unlike `events`, it does not report gaps."""
        ...

    def listen(self, topics: Sequence[str]) -> Listener:
        """Subscribe to hints (see `andon.contract.topics` for the topics)."""
        ...

    # --- groups of which a record is kept (docs/rulings.md, R41) ---

    async def group(self, name: str) -> GroupRecord:
        """The record of a group whose members name its owner. Raises `GroupNotFound`."""
        ...

    async def seal_group(self, name: str) -> GroupRecord:
        """Let no member into a group any more, for good. Returns its record. Repeating it changes
        nothing. Members that were let in before may be created until `open_until`. Raises
        `GroupNotFound`."""
        ...

    # --- workers that are known by their claims alone (`ClaimRequest.registers`) ---

    async def claiming_workers(
        self, queue: str, cursor: str = "", limit: int = 100, *, in_quarantine: bool | None = None
    ) -> tuple[list[ClaimingWorker], str]:
        """A page of the workers that claim from a queue, by id, and the cursor of the next page,
        empty if there is none. Optionally only those in quarantine, or only the others."""
        ...

    async def claiming_worker(self, queue: str, worker: str) -> ClaimingWorker:
        """One of them. Raises `WorkerNotFound`."""
        ...

    async def claimed_queues(
        self, cursor: str = "", limit: int = 100
    ) -> tuple[list[ClaimedQueue], str]:
        """A page of the queues that such workers claim from, by name, and the cursor of the
        next."""
        ...

    async def quarantine_worker(
        self, queue: str, worker: str, until: int, *, by: str = "", info: str = ""
    ) -> ClaimingWorker:
        """Give a worker no tasks of a queue until that moment (ms UTC); a moment that has passed
        lifts the quarantine. Processes follow within a second. Raises `WorkerNotFound`."""
        ...

    # --- the fleet ---

    async def queues(self) -> list[QueueConfig]:
        """Every queue known."""
        ...

    async def configure_queue(self, name: str, changes: dict[str, Any]) -> QueueConfig:
        """Change some settings of a queue; the configuration that follows."""
        ...

    async def delete_queue(self, name: str) -> None:
        """Delete the settings of a queue. It is listed no more until a task enters it or it is
        configured. Raises `QueueNotEmpty` while any task is in it, ended or not."""
        ...

    async def policies(self) -> dict[str, PolicyOptions]:
        """The named retry policies: what each name stands for, wherever options take `retry`."""
        ...

    async def put_policy(self, name: str, options: Mapping[str, Any]) -> PolicyOptions:
        """Set a named retry policy, in place of what it was; tasks that were submitted keep theirs.
        Raises `InvalidSubmission` naming the option at fault."""
        ...

    async def delete_policy(self, name: str) -> bool:
        """Delete a named retry policy; False if there is none. Raises `ConfigurationError` for one
        that a queue uses."""
        ...

    def know_types(self, types: Sequence[TypeInfo]) -> None:
        """Resolve the policies of submits from this process by its own task types (docs/rulings.md,
        R5)."""
        ...

    async def types(self) -> list[TypeInfo]:
        """Every task type published."""
        ...

    async def publish_types(self, types: Sequence[TypeInfo]) -> None:
        """Publish this process's task types (docs/rulings.md, R5)."""
        ...

    async def keep_code(self, code: Code) -> None:
        """Store the list of task types that a worker has code for, so that its digest names it
        (docs/rulings.md, R32). Call it repeatedly: lists that are not used are dropped. It writes
        once a day at most."""
        ...

    async def waits(self, queues: Sequence[str] = ()) -> list[KindWait]:
        """What keeps the ready kinds of tasks of these queues, or of all, from starting; kinds that
        are about to start are not listed."""
        ...

    async def wait_of(self, task: Task) -> Wait | None:
        """What one task waits for; None if it is not pending, or about to start."""
        ...

    async def workers(self) -> list[WorkerInfo]:
        """Workers alive."""
        ...

    async def put_worker(self, info: WorkerInfo) -> None:
        """Say that a worker lives."""
        ...

    async def remove_worker(self, worker: str) -> None:
        """Say that a worker has left."""
        ...

    async def partitions(self) -> int:
        """How many partitions claims go round. Costs nothing, which `info` may: it counts."""
        ...

    async def info(self) -> StoreInfo:
        """What the store is, holds and promises."""
        ...

    async def artifacts(self) -> Artifacts:
        """The artifacts and logs of runs. Raises `ConfigurationError` when no place for them is
        configured."""
        ...

    async def keeps_logs(self) -> bool:
        """Whether there is a place for artifacts and logs of runs, as far as is known here: a
        service that has none has said so in its own log."""
        ...
