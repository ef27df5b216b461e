"""Helpers of all these routes: the caller, the bound on items, and the outcomes of items."""

from collections.abc import Sequence
from typing import cast

import msgspec

from andon.engine.base import ActionResult, Submitted
from andon.engine.http import wire
from andon.engine.http.errors import problem_of
from andon.engine.places import in_places
from andon.model.errors import InvalidSubmission
from andon.service.calls import Call
from andon.service.problems import Problem
from andon.service.trust.access import Caller

MOST_ITEMS = 10_000
MOST_PAGE = 1_000


class Nothing(msgspec.Struct, frozen=True):
    """A request without a body of its own."""


def caller_of(request: Call) -> Caller:
    """The caller. The answer will carry the store's time."""
    request.add_header(wire.TIME_HEADER, str(request.service.engine.now()))
    return cast("Caller", request.caller)


def check_few(request: Call, items: Sequence[object]) -> None:
    """Raise `InvalidSubmission` for more items than one request may have."""
    if len(items) + len(request.unread) > MOST_ITEMS:
        raise InvalidSubmission(f"One request takes at most {MOST_ITEMS:,} items.")


def outcomes_of(request: Call, done: Sequence[Submitted | ActionResult]) -> list[wire.Outcome]:
    """How each item ended, those that could not be read among them."""
    told = [
        wire.outcome_of(one, None if one.error is None else request.told(one.error)) for one in done
    ]
    return in_places(told, unread_of(request))


def unread_of(request: Call) -> dict[int, wire.Outcome]:
    """The outcomes of entries that could not be read."""
    return {
        place: wire.Outcome("", error=problem_of(_invalid(problem)))
        for place, problem in request.unread.items()
    }


def _invalid(problem: Problem) -> InvalidSubmission:
    said = problem.document
    return InvalidSubmission(said["detail"], field=said.get("field", ""))
