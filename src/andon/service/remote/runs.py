"""Runs of remote workers: claimed with a caller's scopes, renewed and reported with a run token.

Both sets of routes, `routes.engine` for `HttpEngine` and `routes.runs` for all others, call this. A
remote worker is not trusted: what it may send is bounded, and the lifecycle is applied here. The
store decides whether a run still holds its task, so a token needs no expiry of its own.
"""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from andon.contract.isolation import why_of
from andon.contract.limits import in_batches
from andon.contract.outcomes import Verdict
from andon.contract.requests import ClaimRequest, Renewal
from andon.engine.base import Submission
from andon.engine.local import LocalEngine
from andon.engine.runs import Mark
from andon.lifecycle import payloads
from andon.lifecycle.admission import check_moment, check_name, check_text
from andon.lifecycle.bounds import LARGEST_COUNT, LONGEST_DELAY_MS
from andon.lifecycle.commands import Command, Complete, Fail, Reject, Snooze, Terminate
from andon.lifecycle.describing import check_code, check_worker_id
from andon.lifecycle.leaving import ARTIFACT_GRACE_S, may_leave
from andon.lifecycle.placeholders import NotFillable, filled, names_in
from andon.model.code import Code
from andon.model.errors import (
    AndonError,
    AuthenticationFailed,
    InvalidSubmission,
    LeaseLost,
    PayloadTooLarge,
    UnknownCode,
)
from andon.model.task import Task, TaskError
from andon.model.text import storable
from andon.model.words import Reason, State
from andon.service.claimed import ClaimedRecords
from andon.service.trust.access import Access, Caller, holds
from andon.service.trust.runtokens import Claims
from andon.worker.outcomes import at_shutdown, internal

MOST_CLAIMED = 1_000
MOST_QUEUES = 1_000
LONGEST_LEASE_MS = 86_400_000
LAST_WORDS_MS = 60_000
"""How long after its end a run may still log."""

_MOST_MESSAGE = 4 * 1024
_MOST_CODE = 128
_MOST_TRACE = 16 * 1024
_MOST_PROGRESS = 1_024
_MOST_TOKEN = 128
_WHOLE = 100

log = logging.getLogger("andon.service")

T = TypeVar("T")


class Signed(msgspec.Struct, frozen=True):
    """A renewal whose token was checked; None: the token was invalid."""

    claims: Claims | None
    lease_ms: int
    heartbeat: bool = False
    progress: int | None = None
    message: str | None = None


class Told(msgspec.Struct, frozen=True):
    """How a run ended; its token was checked."""

    claims: Claims
    command: Command | None  #: None: the worker shuts down, and the task's policy decides
    mark: Mark = Mark()
    follow_ups: tuple[Submission, ...] = ()  #: that the caller may submit


class Handed(NamedTuple):
    """A run for a worker that decodes its arguments itself."""

    task: Task
    token: str  #: of the run
    args: bytes  #: JSON, with the results of dependencies where it has places for them


class RemoteRuns:
    """The worker's half of an engine, for remote callers. `max_payload` bounds results, and
    arguments with results in them, as it does at a worker."""

    def __init__(
        self,
        engine: LocalEngine,
        access: Access,
        *,
        max_payload: int,
        artifact_grace: float = ARTIFACT_GRACE_S,
    ) -> None:
        self._max_payload = max_payload
        self._engine = engine
        self._access = access
        self._grace_ms = round(artifact_grace * 1000)
        self._claimed = ClaimedRecords[str]()  # by run

    async def _claim(self, caller: Caller, request: ClaimRequest) -> list[Task]:
        """Claim, if the caller may."""
        _check_claim(request, self._engine.store.partitions)
        for queue in request.queues:
            caller.require(f"queues:claim:{queue}")
        tasks = await self._engine.claim(_of_caller(request, caller))
        for task in tasks:
            self._claimed.keep(task.status.run, task)
        return tasks

    async def claim(
        self, caller: Caller, request: ClaimRequest, write: Callable[[Task, str], T]
    ) -> list[T]:
        """Claim; each run as `write` has it, of the task and the token of the run.

        A run that cannot be written is not handed out but ended, as a worker that cannot hold it
        would end it: the others of the claim are not affected (docs/rulings.md, R36).
        """

        async def written(task: Task, token: str) -> T:
            return write(task, token)

        return await self._each_alone(await self._claim(caller, request), written)

    async def claim_json(
        self, caller: Caller, request: ClaimRequest, write: Callable[[Handed], T]
    ) -> list[T]:
        """The same for a worker that gets the arguments as they are stored, pasted into the answer.

        Arguments that are no JSON would let their submitter forge the rest of the answer, so such a
        run is not handed out but ended, as a worker that decodes them would end it
        (docs/rulings.md, R24). So is one whose placeholders cannot be filled in.
        """

        async def written(task: Task, token: str) -> T:
            return write(Handed(task, token, await self._args(task)))

        return await self._each_alone(await self._claim(caller, request), written)

    async def _each_alone(
        self, tasks: Sequence[Task], written: Callable[[Task, str], Awaitable[T]]
    ) -> list[T]:
        sign = await self._access.run_signer()
        good: list[T] = []
        bad: list[tuple[Task, Command]] = []
        for task in tasks:
            try:
                good.append(await written(task, sign(task)))
            except NotFillable as error:
                log.error("Task %s is not handed out: %s", task.id, error)
                no = TaskError(message=str(error), code="VALIDATION_ERROR")
                bad.append((task, Reject(error=no, reason=Reason.MALFORMED_PAYLOAD)))
            except (AndonError, OSError):
                raise  # the store's: the claim is sent again with its token
            except Exception as error:
                why = why_of(error)
                log.exception("Task %s is not handed out: %s", task.id, why)
                bad.append((task, internal(f"The run cannot be written for its worker: {why}")))
        if bad:
            await asyncio.gather(*(self._end(*one) for one in bad))
        return good

    async def _args(self, task: Task) -> bytes:
        """The arguments with the results of dependencies in them. Raises `NotFillable`."""
        definition = task.definition
        if not payloads.is_json(definition.args):
            raise NotFillable("The stored arguments are not JSON; nobody is given them.")
        names = names_in(definition.headers) if definition.load_dependencies else ()
        if not names:
            return definition.args
        found = await self._engine.dependency_results(task)
        results = {id: one.result for id, one in found.items() if one is not None}
        return filled(
            definition.args,
            names,
            definition.dependencies,
            results,
            max_payload=self._max_payload,
        )

    async def _end(self, task: Task, command: Command) -> None:
        try:
            await self._engine.report(task, command)
        except Exception as refused:  # its lease ends, and the next claim handles it again
            log.warning("The run of task %s could not be ended: %s", task.id, refused)

    async def code_of(self, digest: str, listed: Code | None) -> Code | None:
        """The list of types that a worker has code for, by its digest or as given; None if it names
        none.

        Raises `UnknownCode` for a digest whose list has to be sent (again).
        """
        codes = self._engine.codes
        check_text(digest, field="code")
        if listed is not None:
            check_code(listed)
            code = Code.of(listed.types)
            if digest and code.digest != digest:
                raise InvalidSubmission("The code is not that of the types.", field="code")
        elif not digest:
            return None
        else:
            code = (await codes.find([digest])).get(digest)
            if code is None:
                raise UnknownCode(digest[:64])
        await codes.keep(code)
        return code

    async def claims_of(self, tokens: Sequence[str]) -> list[Claims | AuthenticationFailed]:
        """The claims of run tokens. Raises `AuthenticationFailed` when none of them is valid."""
        found: list[Claims | AuthenticationFailed] = []
        for token in tokens:
            try:
                found.append(await self._access.claims(token))
            except AuthenticationFailed as error:
                found.append(error)
        if found and all(isinstance(one, AuthenticationFailed) for one in found):
            [error, *_] = found
            assert isinstance(error, AuthenticationFailed)
            raise error
        return found

    async def renew(self, signs: Sequence[Signed]) -> list[Verdict]:
        """Extend leases. A run without a valid token is lost, and a renewal that cannot be written
        is invalid."""
        known = [
            (sign, sign.claims)
            for sign in signs
            if sign.claims is not None and not what_is_wrong(sign)
        ]
        renewals = [
            Renewal(
                task=claims.task,
                run=claims.run,
                lease_ms=sign.lease_ms,
                heartbeat=sign.heartbeat,
                progress=sign.progress,
                message=None if sign.message is None else storable(sign.message[:_MOST_PROGRESS]),
            )
            for sign, claims in known
        ]
        verdicts = iter(await self._engine.renew(renewals) if renewals else ())
        told: list[Verdict] = []
        for sign in signs:
            if sign.claims is None:
                told.append(Verdict.LOST)
            else:
                told.append(Verdict.INVALID if what_is_wrong(sign) else next(verdicts))
        return told

    async def report(self, told: Sequence[Told]) -> list[State | AndonError | None]:
        """Resolve runs; the state that follows each, None where the record went with its end."""
        outcomes: list[State | AndonError | None] = []
        for batch in in_batches(told):
            current = await self._current(batch)
            outcomes += await asyncio.gather(
                *(self._report(one, task) for one, task in zip(batch, current, strict=True))
            )
        return outcomes

    async def _current(self, told: Sequence[Told]) -> list[Task | None]:
        """The records, as they were claimed where a worker says all that it knows of them since.

        An old record is no danger: a change decided on it is decided anew when it has moved.
        """
        found = [
            self._claimed.take(one.claims.run) if one.mark.heartbeat_at else None for one in told
        ]
        missing = [one.claims.task for one, task in zip(told, found, strict=True) if task is None]
        read = iter(await self._engine.get(missing) if missing else ())
        return [next(read) if task is None else task for task in found]

    async def _report(self, told: Told, current: Task | None) -> State | AndonError | None:
        claims = told.claims
        try:
            command = told.command
            _check_mark(told.mark)
            if command is None:
                rule = "resubmit" if current is None else current.policy.on_shutdown
                command = at_shutdown(rule)
            command = bounded(command, self._max_payload)
            resolved = await self._engine.report_run(
                claims.task,
                claims.run,
                current,
                command,
                told.mark,
                follow_ups=told.follow_ups,
            )
            return resolved.state
        except AndonError as error:
            return error
        except Exception:  # an internal error; the other reports of the request are not affected
            log.exception("the report of run %s of task %s failed", claims.number, claims.task)
            return AndonError("This should not have happened. The service's log says more.")

    async def held(self, claims: Claims) -> Task:
        """The task that a run holds. Raises `LeaseLost`."""
        [task] = await self._engine.get([claims.task])
        if task is None or not holds(task, claims):
            raise LeaseLost(claims.task, claims.run)
        return task

    async def leaving(self, claims: Claims) -> Task:
        """The task of a run that may leave files behind: it holds it, or lost it a while ago by no
        report of its own (`lifecycle.leaving`). Raises `LeaseLost`."""
        [task] = await self._engine.get([claims.task])
        runs = () if task is None else task.status.runs
        run = next((run for run in runs if run.id == claims.run), None)
        if task is None or run is None or not may_leave(run, self._engine.now(), self._grace_ms):
            raise LeaseLost(claims.task, claims.run)
        return task

    async def known(self, claims: Claims) -> Task:
        """The task that a run holds, or held until a moment ago: its last lines arrive after its
        end. Raises `LeaseLost`."""
        [task] = await self._engine.get([claims.task])
        run = None
        if task is not None:
            run = next((run for run in task.status.runs if run.id == claims.run), None)
        if task is None or run is None:
            raise LeaseLost(claims.task, claims.run)
        if run.resolved_at is not None and run.resolved_at + LAST_WORDS_MS < self._engine.now():
            raise LeaseLost(claims.task, claims.run)
        return task

    async def dependencies(self, claims: Claims) -> dict[str, Task | None]:
        """The dependencies of the task that a run holds."""
        return await self._engine.dependency_results(await self.held(claims))


def _of_caller(request: ClaimRequest, caller: Caller) -> ClaimRequest:
    """The claim under a token that no other caller can repeat, because that would give it the
    runs."""
    who = "\0".join((caller.name, request.worker, *sorted(request.queues), request.token))
    token = hashlib.blake2b(who.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
    return msgspec.structs.replace(request, token=token, parks=False)


def bounded(command: Command, max_payload: int) -> Command:
    """The command, with nothing in it that is larger or later than a worker may say.

    Raises `PayloadTooLarge`, `InvalidSubmission`.
    """
    if isinstance(command, Complete):
        if command.result is not None:
            if len(command.result) > max_payload:
                raise PayloadTooLarge("result", len(command.result), max_payload)
            try:
                payloads.parse(command.result)
            except ValueError as error:
                raise InvalidSubmission(
                    f"result-invalid: the result is not JSON: {error}.", field="result"
                ) from None
        return command
    if isinstance(command, Fail | Terminate | Reject):
        command = msgspec.structs.replace(command, error=_bounded_error(command.error))
    if isinstance(command, Fail | Snooze):
        delay = command.delay
        if delay is not None and not 0 <= delay <= LONGEST_DELAY_MS:
            raise InvalidSubmission(f"A delay is 0 to {LONGEST_DELAY_MS // 1000} s.", field="delay")
    return command


def _bounded_error(error: TaskError) -> TaskError:
    return TaskError(
        message=storable(error.message[:_MOST_MESSAGE]),
        code=storable(error.code[:_MOST_CODE]),
        type=storable(error.type[:_MOST_CODE]),
        traceback=storable(error.traceback[-_MOST_TRACE:]),
    )


def _check_claim(request: ClaimRequest, partitions: int) -> None:
    if not 1 <= request.limit <= MOST_CLAIMED:
        raise InvalidSubmission(f"limit is 1 to {MOST_CLAIMED}.", field="limit")
    if not 1 <= len(request.queues) <= MOST_QUEUES:
        raise InvalidSubmission(f"Name 1 to {MOST_QUEUES} queues.", field="queues")
    check_worker_id(request.worker)
    if not 1 <= len(request.token) <= _MOST_TOKEN:
        raise InvalidSubmission(f"token has 1 to {_MOST_TOKEN} characters.", field="token")
    for queue in request.queues:
        check_name(queue, field="queue")
    for name, room in request.room.items():
        check_text(name, field="room")
        if not 0 <= room <= LARGEST_COUNT:
            raise InvalidSubmission(f"room is 0 to {LARGEST_COUNT:,} runs.", field="room")
    if not 0 <= request.partition < partitions:
        raise InvalidSubmission(f"partition is 0 to {partitions - 1}.", field="partition")
    _check_lease(request.lease_ms)


def _check_lease(lease_ms: int) -> None:
    if not 1 <= lease_ms <= LONGEST_LEASE_MS:
        raise InvalidSubmission(
            f"A lease is more than 0 and at most {LONGEST_LEASE_MS // 1000} s.", field="lease"
        )


def what_is_wrong(sign: Signed) -> str:
    """Why a renewal cannot be kept; empty if it can."""
    try:
        _check_lease(sign.lease_ms)
        _check_progress(sign.progress)
    except InvalidSubmission as error:
        return str(error)
    return ""


def _check_mark(mark: Mark) -> None:
    _check_progress(mark.progress)
    check_moment(mark.heartbeat_at, field="heartbeat_at")
    if len(mark.message) > _MOST_PROGRESS:
        raise InvalidSubmission(
            f"A message has at most {_MOST_PROGRESS:,} characters.", field="message"
        )


def _check_progress(progress: int | None) -> None:
    if progress is not None and not 0 <= progress <= _WHOLE:
        raise InvalidSubmission("Progress is an integer from 0 to 100.", field="progress")
