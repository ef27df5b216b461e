"""Parked claims, and the direct hand-off of new tasks to them.

A worker that found nothing may leave its claim with the server. The process that creates the next
task that fits makes it active at once, as a run of that worker, in the same step. The server has at
most one parked claim for a queue, for `PARKED_MS`, and only while the process of the claim listens
to its hand-off channel, which brings the run.

A hand-off that is lost on its way is recovered like a lost reply, by the token of the claim: the
next claim of that worker repeats it. The repeat also withdraws the parked claim, in one step with
its own search. A task that is handed to a claim which has been repeated since (its number says so)
comes with the answer to the repeat.
"""

import contextlib
from collections.abc import Callable
from typing import NamedTuple

from andon.contract.requests import ClaimRequest
from andon.lifecycle.apply import stamped
from andon.model.task import Stamp, Task
from andon.stores.kit.codec import Undecodable, decode_definition, decode_status

PARKED_MS = 6_500
"""How long a claim stays parked if it is not repeated: somewhat longer than a slow poll takes."""


class Handoff(NamedTuple):
    """A run that was handed to a parked claim, as the hand-off channel brings it."""

    token: str
    number: int  #: under which the claim was parked
    run: str
    fence: int
    now: int
    definition: bytes
    status: bytes
    ref: int = 0


class ClaimIntent(NamedTuple):
    """What a claim asks of the server beside tasks."""

    number: int  #: under which it is to be parked; 0: it is not to be parked
    before: str | None  #: token of the worker's claim that is parked already, or may be
    queues: tuple[str, ...]  #: where that one may be parked


class _Parked(NamedTuple):
    """The claim that one worker of this process has parked, or may have."""

    request: ClaimRequest
    number: int  #: of its newest sending; 0: nothing is taken from it any more
    queues: frozenset[str]  #: where it may be parked


class ParkedClaims:
    """The parked claims of one process."""

    def __init__(self) -> None:
        self._by_worker: dict[str, _Parked] = {}
        self._takers: dict[str, Callable[[list[Task]], None]] = {}
        self._number = 0

    def on_handoff(self, worker: str, take: Callable[[list[Task]], None] | None) -> None:
        """Call `take` with the tasks that are handed to this worker's parked claim; None: take no
        more of them."""
        if take is None:
            self._takers.pop(worker, None)
        else:
            self._takers[worker] = take

    @property
    def any(self) -> bool:
        """Whether a claim is parked, or may be."""
        return bool(self._by_worker)

    def intent(self, request: ClaimRequest) -> ClaimIntent:
        """Whether a claim is to be parked, and which claim of the worker may be parked already."""
        parked = self._by_worker.get(request.worker)
        before = None if parked is None else parked.request.token
        places = () if parked is None else tuple(parked.queues)
        if request.parks and request.queues:
            self._number += 1
            # Until this one is answered, the one before may be parked as well.
            queues = frozenset(request.queues).union(places)
            self._by_worker[request.worker] = _Parked(request, self._number, queues)
            return ClaimIntent(self._number, before, places)
        if parked is not None:
            self._by_worker[request.worker] = parked._replace(number=0)
        return ClaimIntent(0, before, places)

    def answered(self, request: ClaimRequest, *, found: bool) -> None:
        """The claim was answered: it is parked only if it asked for that and found nothing."""
        parked = self._by_worker.pop(request.worker, None)
        if parked is not None and request.parks and not found:
            queues = frozenset(request.queues)
            self._by_worker[request.worker] = parked._replace(queues=queues)

    def handed_off(self, handoff: Handoff) -> None:
        """The hand-off channel brought a run: give it to the worker of its claim."""
        for worker, (request, expected, _) in self._by_worker.items():
            if request.token == handoff.token and expected == handoff.number:
                take = self._takers.get(worker)
                if take is not None:
                    del self._by_worker[worker]
                    with contextlib.suppress(*Undecodable):  # it is found when its lease runs out
                        take([_run(request, handoff)])
                return


def _run(request: ClaimRequest, handoff: Handoff) -> Task:
    token, now = request.token, handoff.now
    stamp = Stamp(handoff.run, handoff.fence, request.worker, token, now, now + request.lease_ms)
    definition, status = decode_definition(handoff.definition), decode_status(handoff.status)
    return stamped(Task(definition=definition, status=status, ref=handoff.ref), stamp)
