"""Prepares the follow-ups of a run for its report: checks and resolves them as a submit would be,
before anything is written (docs/rulings.md, R38)."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from andon.engine.base import Submission
from andon.engine.definitions import define
from andon.engine.graph import Graph
from andon.engine.policy_resolver import PolicyResolver
from andon.lifecycle.admission import check_own, check_times
from andon.lifecycle.births import FIELD, MOST_BIRTHS, check_births, too_many
from andon.lifecycle.joins import join_of
from andon.lifecycle.named import OPTION
from andon.model.errors import InvalidSubmission
from andon.model.task import Definition


class Bearing:
    """Makes definitions of follow-ups. `now` is the store's clock, ms UTC."""

    def __init__(
        self, resolver: PolicyResolver, now: Callable[[], int], *, max_payload: int
    ) -> None:
        self._resolver = resolver
        self._now = now
        self._max_payload = max_payload

    def at_once(
        self, bearer: str, follow_ups: Sequence[Submission]
    ) -> tuple[Definition, ...] | None:
        """The tasks that the report of this run bears, if nothing has to be read or put in order
        for that, which is the usual case; else None. Raises `InvalidSubmission` as `definitions`
        does."""
        if len(follow_ups) > MOST_BIRTHS:
            raise too_many(len(follow_ups))
        if any(one.dependencies or join_of(one.headers) is not None for one in follow_ups):
            return None
        try:
            births = self._defined(bearer, follow_ups)
        except InvalidSubmission as error:
            if error.field == OPTION:
                return None
            raise
        check_births(bearer, births)
        return births

    async def definitions(
        self, bearer: str, follow_ups: Sequence[Submission]
    ) -> tuple[Definition, ...]:
        """The tasks that the report of this run bears. Raises `InvalidSubmission`, naming the
        follow-up, if one of them can never be stored: then nothing is reported of any."""
        births = self.at_once(bearer, follow_ups)
        if births is not None:
            return births
        try:
            births = self._defined(bearer, follow_ups)
        except InvalidSubmission as error:
            if error.field != OPTION:
                raise
            await self._resolver.refresh()  # a retry policy whose name may be new
            births = self._defined(bearer, follow_ups)
        check_births(bearer, births)
        if any(d.dependencies for d in births):
            await _check_order(follow_ups)
        return births

    def _defined(self, bearer: str, follow_ups: Sequence[Submission]) -> tuple[Definition, ...]:
        now = self._now()
        return tuple(self._definition(bearer, one, now) for one in follow_ups)

    def _definition(self, bearer: str, follow_up: Submission, now: int) -> Definition:
        try:
            definition = define(follow_up, self._resolver, now, self._max_payload)
            check_own(definition)
            if follow_up.group_owner is not None:
                raise InvalidSubmission(
                    "group_owner does not go with follow-ups, which no group may refuse.",
                    field="group_owner",
                )
            if follow_up.invalid:
                raise InvalidSubmission(follow_up.invalid, field="args")
            check_times(definition, now)
        except InvalidSubmission as error:
            raise InvalidSubmission(
                f"Follow-up {follow_up.id[:80]!r} ({follow_up.name[:80]}): {error}",
                field=error.field if error.field == OPTION else FIELD,
            ) from None
        return replace(definition, bearer=bearer)


async def _check_order(follow_ups: Sequence[Submission]) -> None:
    graph = await Graph.of(follow_ups)
    for outcome in graph.outcomes.values():
        if outcome.error is not None:
            raise InvalidSubmission(str(outcome.error), field=FIELD)
