"""Runs: claim tasks, keep them, report how they ended. For workers in any language.

docs/worker-protocol.md tells how a worker uses these.
"""

import asyncio
from typing import TYPE_CHECKING, Any, cast

import msgspec
from litestar import Router, get, post
from litestar.params import FromPath, JSONBody

from andon.contract.outcomes import Verdict
from andon.contract.topics import ready_topic
from andon.engine.places import in_places
from andon.engine.runs import Mark
from andon.lifecycle.constants import SLOW_POLL_S
from andon.model.code import Code
from andon.model.errors import (
    AndonError,
    AuthenticationFailed,
    InvalidSubmission,
    LeaseLost,
    PermissionRefused,
)
from andon.model.words import State
from andon.service.calls import Call
from andon.service.decoding import Items
from andon.service.problems import problem_of
from andon.service.remote.protocol import (
    Claim,
    Claimed,
    ClaimedRun,
    Renew,
    Renewals,
    Report,
    Reports,
    claimed_run,
    command_of,
    with_token,
)
from andon.service.remote.runs import Handed, Signed, Told
from andon.service.submitting import follow_ups_of
from andon.service.trust.runtokens import Claims
from andon.service.waiting import still_allowed
from andon.worker.dependency import Dependency

if TYPE_CHECKING:
    from andon.service.trust.access import Caller

_encode = msgspec.json.Encoder().encode


class Verdicts(msgspec.Struct):
    """One for each run, in order: ok, cancel (renewed, and asked to stop), lost, or invalid: this
    renewal cannot be, and changed nothing."""

    verdicts: list[str]


class Renewed(msgspec.Struct):
    """`ok`, or `cancel`: renewed, and asked to stop."""

    verdict: str


class Reported(msgspec.Struct, omit_defaults=True):
    """What became of the task; `state` is null when its record went with its end."""

    task_id: str
    run: int | None
    state: State | None
    error: dict[str, Any] | None = None  #: problem details: this report was not taken


class Outcomes(msgspec.Struct):
    """One for each report, in order."""

    outcomes: list[Reported]


# --- claiming ---


@post("/claim", status_code=200, summary="Claim tasks")
async def claim(request: Call, data: JSONBody[Claim]) -> Claimed:
    """Claim up to `limit` tasks, waiting up to `wait` seconds for the first.

    A claim that is sent again with its token gives the same runs while they are active, so that a
    lost reply leaves no task idle.
    """
    service, caller = request.service, cast("Caller", request.caller)
    for queue in data.queues:
        caller.require(f"queues:claim:{queue}")
    code = await service.runs.code_of(data.code, data.listed())
    service.presences.seen(caller, data.worker, data.queues, code)
    wait = min(data.wait, service.settings.max_wait)
    claimed = await _claim(request, with_token(data), code, wait)
    return Claimed(
        runs=cast("list[ClaimedRun]", claimed),
        code=None if code is None or data.types is None else code.digest,
    )


async def _claim(request: Call, data: Claim, code: Code | None, wait: float) -> list[msgspec.Raw]:
    service, caller = request.service, cast("Caller", request.caller)
    claimed = await _claim_now(request, data, code)
    if claimed or not wait:
        return claimed
    # None of these cuts off a claim under way: what it brings would lie idle for a lease.
    ends: list[asyncio.Task[Any]] = [
        asyncio.ensure_future(_gone(request)),
        asyncio.ensure_future(service.stopping.wait()),
        asyncio.ensure_future(asyncio.sleep(wait)),
    ]
    try:
        # Subscribe, then check, then sleep (docs/rulings.md, R30).
        with service.engine.listen([ready_topic(q) for q in data.queues]) as hints:
            while not any(end.done() for end in ends):
                await still_allowed(request)
                service.presences.seen(caller, data.worker, data.queues, code)
                if code is None or await service.readiness.has_some(code, data.queues):
                    claimed = await _claim_now(request, data, code)
                if claimed:
                    break
                hinted = asyncio.ensure_future(hints.wait(SLOW_POLL_S))
                try:
                    await asyncio.wait((hinted, *ends), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    hinted.cancel()
                    await asyncio.gather(hinted, return_exceptions=True)
    finally:
        for end in ends:
            end.cancel()
    return claimed


async def _claim_now(request: Call, data: Claim, code: Code | None) -> list[msgspec.Raw]:
    service, caller = request.service, cast("Caller", request.caller)
    claimed: list[msgspec.Raw] = []

    def written(run: Handed) -> msgspec.Raw:
        return msgspec.Raw(_encode(claimed_run(*run, statements=data.statements)))

    for partition in range(service.engine.store.partitions):
        asked = data.request(partition, code)
        asked = msgspec.structs.replace(asked, limit=data.limit - len(claimed))
        claimed += await service.runs.claim_json(caller, asked, written)
        if len(claimed) >= data.limit:
            break
    return claimed


async def _gone(request: Call) -> None:
    """Wait until the client has disconnected: tasks claimed for a client that has gone are idle for
    a lease."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


# --- many runs at once ---


@post("/renew", status_code=200, summary="Renew many runs")
async def renew(request: Call, data: Items[Renewals]) -> Verdicts:
    """Renew runs. Each needs its own run token."""
    runs = request.service.runs
    claims = await runs.claims_of([one.token for one in data.runs])
    signed = [_signed(one, who) for one, who in zip(data.runs, claims, strict=True)]
    invalid = dict.fromkeys(request.unread, Verdict.INVALID)
    return Verdicts([one.value for one in in_places(await runs.renew(signed), invalid)])


@post("/report", status_code=200, summary="Report many runs")
async def report(request: Call, data: Items[Reports]) -> Outcomes:
    """Report how runs ended. Each needs its own run token, and succeeds or fails alone. A report
    that is sent again is answered like the first."""
    runs = request.service.runs
    claims = await runs.claims_of([one.token for one in data.reports])
    outcomes: dict[int, Reported] = {}
    told: dict[int, Told] = {}
    for place, (one, who) in enumerate(zip(data.reports, claims, strict=True)):
        if isinstance(who, AuthenticationFailed):
            outcomes[place] = _refused(request, "", None, who)
            continue
        try:
            told[place] = _told(request, one, who)
        except AndonError as error:
            outcomes[place] = _refused(request, who.task, who.number, error)
    done = await runs.report(list(told.values()))
    for (place, one), state in zip(told.items(), done, strict=True):
        task_id, number = one.claims.task, one.claims.number
        if isinstance(state, AndonError):
            outcomes[place] = _refused(request, task_id, number, state)
        else:
            outcomes[place] = Reported(task_id, number, state)
    unread = {
        place: Reported("", None, None, problem.document)
        for place, problem in request.unread.items()
    }
    return Outcomes(in_places([outcomes[place] for place in sorted(outcomes)], unread))


def _refused(request: Call, task_id: str, number: int | None, error: AndonError) -> Reported:
    return Reported(task_id, number, None, problem_of(request.told(error)).document)


def _signed(one: Renew, who: Claims | AuthenticationFailed) -> Signed:
    return Signed(
        None if isinstance(who, AuthenticationFailed) else who,
        max(1, round(one.lease * 1000)),
        one.heartbeat or one.progress is not None,
        one.progress,
        one.message,
    )


def _told(request: Call, one: Report, who: Claims) -> Told:
    follow_ups = follow_ups_of(request, one.follow_ups, who.run)
    return Told(who, command_of(one), Mark(one.progress, one.message), follow_ups)


# --- one run, by its path ---


def of_path(request: Call, task_id: str, number: str) -> Claims:
    """The claims of the caller's run token, if it is that of the run in the path."""
    who = cast("Caller", request.caller).run
    if who is None:
        raise AuthenticationFailed(
            "This is for the run alone: send the run token of its claim as the bearer token."
        )
    if who.task != task_id or str(who.number) != number:
        raise PermissionRefused(
            "", f"The token is of run {who.number} of task {who.task!r}, and of no other."
        )
    return who


@post("/{task_id:str}/{number:str}/renew", status_code=200, summary="Renew a run")
async def renew_one(
    request: Call, task_id: FromPath[str], number: FromPath[str], data: JSONBody[Renew]
) -> Renewed:
    """Renew the run, with its progress. 409 when it no longer holds the task."""
    who = of_path(request, task_id, number)
    [verdict] = await request.service.runs.renew([_signed(data, who)])
    if verdict is Verdict.LOST:
        raise LeaseLost(who.task, who.run)
    if verdict is Verdict.INVALID:
        raise InvalidSubmission(f"The renewal of run {who.number} of {who.task!r} cannot be kept.")
    return Renewed(verdict.value)


@post("/{task_id:str}/{number:str}/report", status_code=200, summary="Report a run")
async def report_one(
    request: Call, task_id: FromPath[str], number: FromPath[str], data: JSONBody[Report]
) -> Reported:
    """Report how the run ended. 409 when it no longer holds the task; nothing was changed then."""
    who = of_path(request, task_id, number)
    [state] = await request.service.runs.report([_told(request, data, who)])
    if isinstance(state, AndonError):
        raise state
    return Reported(who.task, who.number, state)


@get("/{task_id:str}/{number:str}/dependencies", summary="Get a run's dependencies")
async def dependencies(
    request: Call, task_id: FromPath[str], number: FromPath[str]
) -> dict[str, Dependency]:
    """How the dependencies of the task ended: state, result, error."""
    who = of_path(request, task_id, number)
    found = await request.service.runs.dependencies(who)
    return {name: Dependency.of(task) for name, task in found.items()}


router = Router(
    "/api/v1/runs",
    route_handlers=[claim, renew, report, renew_one, report_one, dependencies],
    tags=["runs"],
)
