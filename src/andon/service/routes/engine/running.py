"""Submits, and the life of a run: claim, renew, report."""

from typing import cast

import msgspec
from litestar import post
from litestar.params import JSONBody

from andon.contract.outcomes import Verdict
from andon.engine.base import Submission
from andon.engine.http import wire
from andon.engine.http.errors import problem_of
from andon.engine.places import in_places
from andon.engine.runs import Mark
from andon.lifecycle.repeats import REPORTS
from andon.model.errors import AndonError, AuthenticationFailed, InvalidSubmission
from andon.model.task import Task
from andon.model.words import State
from andon.service.calls import Call
from andon.service.decoding import Items
from andon.service.remote.runs import Signed, Told
from andon.service.routes.engine.shared import caller_of, check_few, outcomes_of, unread_of
from andon.service.submitting import follow_ups_as_given, submit_as_given


@post("/submit", status_code=200)
async def submit(request: Call, data: Items[list[Submission]]) -> list[wire.Outcome]:
    """Submit one or many."""
    caller_of(request)
    check_few(request, data)
    return outcomes_of(request, await submit_as_given(request, data))


@post("/claim", status_code=200)
async def claim(request: Call, data: JSONBody[wire.Claim]) -> list[wire.Claimed]:
    """Claim what there is, without waiting."""
    caller, runs = caller_of(request), request.service.runs
    for queue in data.queues:
        caller.require(f"queues:claim:{queue}")
    code = await runs.code_of(data.digest, data.code)
    asked = msgspec.structs.replace(data, code=code)
    return cast("list[wire.Claimed]", await runs.claim(caller, asked, _written))


def _written(task: Task, token: str) -> msgspec.Raw:
    """A claimed task in the bytes of the answer."""
    return msgspec.Raw(wire.encode(wire.Claimed(task, token)))


@post("/renew", status_code=200)
async def renew(request: Call, data: Items[list[wire.Sign]]) -> list[str]:
    """Renew the leases of runs."""
    caller_of(request)
    check_few(request, data)
    runs = request.service.runs
    claims = await runs.claims_of([sign.token for sign in data])
    signed = [
        Signed(
            None if isinstance(one, AuthenticationFailed) else one,
            sign.lease_ms,
            sign.heartbeat,
            sign.progress,
            sign.message,
        )
        for sign, one in zip(data, claims, strict=True)
    ]
    invalid = dict.fromkeys(request.unread, Verdict.INVALID)
    return [verdict.value for verdict in in_places(await runs.renew(signed), invalid)]


@post(["/report", "/report_bearing"], status_code=200)
async def report(request: Call, data: Items[list[wire.Report]]) -> list[wire.Outcome]:
    """Resolve runs. Those with follow-ups come to the second path, which a service that knows none
    has not."""
    caller_of(request)
    check_few(request, data)
    runs = request.service.runs
    claims = await runs.claims_of([one.token for one in data])
    outcomes: dict[int, wire.Outcome] = {}
    told: list[Told] = []
    for place, (one, who) in enumerate(zip(data, claims, strict=True)):
        try:
            if isinstance(who, AuthenticationFailed):
                raise who
            if one.event not in REPORTS:
                raise InvalidSubmission(f"A run does not report {one.event}.", field="event")
            command = wire.command_of(one.event, one.fields)
            follow_ups = follow_ups_as_given(request, one.follow_ups)
        except AndonError as error:
            outcomes[place] = wire.Outcome("", error=problem_of(request.told(error)))
            continue
        mark = Mark(one.progress, one.message, one.heartbeat_at)
        told.append(Told(who, command, mark, follow_ups))
    done = await runs.report(told)
    reported = [_reported(request, *pair) for pair in zip(told, done, strict=True)]
    return in_places(in_places(reported, outcomes), unread_of(request))


def _reported(request: Call, one: Told, done: State | AndonError | None) -> wire.Outcome:
    task_id = one.claims.task
    if isinstance(done, AndonError):
        return wire.Outcome(task_id, error=problem_of(request.told(done)))
    return wire.Outcome(task_id, done, yes=True)


@post("/dependencies", status_code=200)
async def dependencies(request: Call, data: JSONBody[wire.OfRun]) -> dict[str, Task | None]:
    """The dependencies of the task that a run holds."""
    caller_of(request)
    runs = request.service.runs
    [claims] = await runs.claims_of([data.token])
    assert not isinstance(claims, AuthenticationFailed)
    return await runs.dependencies(claims)
