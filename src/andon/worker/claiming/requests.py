"""The claims that a worker sends: what each asks for, and with which token."""

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from andon.contract.requests import ClaimRequest
from andon.worker.claiming.queues import QueueOrder
from andon.worker.type_limits import TypeLimits

if TYPE_CHECKING:
    from andon.model.code import Code


class SentClaim(NamedTuple):
    """One claim as it is sent, once or again."""

    request: ClaimRequest
    sent_at: float  #: monotonic seconds
    granted_after: float  #: earliest time at which its tasks may have been claimed


class ClaimRequests:
    """Makes the claims of one worker, whose runs have a lease of `lease` seconds."""

    def __init__(
        self,
        order: QueueOrder,
        limits: TypeLimits,
        *,
        worker: str,
        lease: float,
        clock: Callable[[], float],
    ) -> None:
        self._order = order
        self._limits = limits
        self._worker = worker
        self._lease = lease
        self._clock = clock
        self.code: Code | None = None  #: what the worker has code for; None: claims are for all

    def make(
        self, partition: int, limit: int, *, parks: bool, parked: SentClaim | None
    ) -> SentClaim:
        """A new claim; or, if one is parked, one that repeats its token and so takes it back."""
        request = ClaimRequest(
            worker=self._worker,
            token=secrets.token_hex(8) if parked is None else parked.request.token,
            queues=self._order.next(),
            limit=limit,
            lease_ms=round(self._lease * 1000),
            room=self._limits.room(),
            partition=partition,
            code=self.code,
            parks=parks,
        )
        now = self._clock()
        return SentClaim(request, now, now if parked is None else parked.granted_after)

    def repeated(self, claim: SentClaim, partition: int) -> SentClaim:
        """The claim to send when no answer came to `claim`: the same, with its token. After half a
        lease, what a lost reply granted is nearly over: then a new one."""
        if self._clock() <= claim.sent_at + self._lease / 2:
            return claim
        request = claim.request
        return self.make(partition, request.limit, parks=request.parks, parked=None)
