"""Claims that stand: a worker that found nothing has left word that it has room, and whoever
creates the next task that it would have got hands it over in the same step, as active already.

The server has one such claim for a queue at the most, for `STANDS_MS`, and it counts only while its
process hears its own channel. What is handed over is told there. What got lost on its way is found
by the claim's token, as a lost reply is: the next claim of that worker repeats it. That repeat also
takes the standing claim away, in one step with its own look, and whatever is handed over to a claim
that has been repeated since (by its number) comes with the repeat's reply.
"""

import contextlib
from collections.abc import Callable
from typing import NamedTuple

from andon.contract.requests import ClaimRequest
from andon.lifecycle.apply import stamped
from andon.model.task import Stamp, Task
from andon.stores.codec import Undecodable, decode_definition, decode_status

STANDS_MS = 6_500
"""How long a claim stands if it is not repeated: somewhat longer than a slow poll may take."""


class Handed(NamedTuple):
    """A run as it is told to whom it was handed over."""

    token: str
    number: int  #: of the claim's sending
    run: str
    fence: int
    now: int
    definition: bytes
    status: bytes
    ref: int = 0


class Word(NamedTuple):
    """What a claim says when it is sent."""

    number: int  #: under which it is to stand; 0: it is not to
    stood: str | None  #: token of the claim that stood before it, or may have
    queues: tuple[str, ...]  #: where that one may stand


class _Stand(NamedTuple):
    """The claim that one worker of this process has, or may have, standing."""

    request: ClaimRequest
    number: int  #: of its newest sending; 0: nothing is taken from it any more
    queues: frozenset[str]  #: where it may stand


class Standing:
    """The standing claims of one process."""

    def __init__(self) -> None:
        self._by_worker: dict[str, _Stand] = {}
        self._acts: dict[str, Callable[[list[Task]], None]] = {}
        self._number = 0

    def hand_over_to(self, worker: str, act: Callable[[list[Task]], None] | None) -> None:
        """Who takes what is handed over to that worker."""
        if act is None:
            self._acts.pop(worker, None)
        else:
            self._acts[worker] = act

    @property
    def any(self) -> bool:
        """Whether a claim stands, or may."""
        return bool(self._by_worker)

    def word(self, request: ClaimRequest) -> Word:
        """What a claim says: how it will stand, and what stood before it."""
        before = self._by_worker.get(request.worker)
        stood = None if before is None else before.request.token
        places = () if before is None else tuple(before.queues)
        if request.stands and request.queues:
            self._number += 1
            # Until it is answered, what stood before may stand as well.
            queues = frozenset(request.queues).union(places)
            self._by_worker[request.worker] = _Stand(request, self._number, queues)
            return Word(self._number, stood, places)
        if before is not None:
            self._by_worker[request.worker] = before._replace(number=0)
        return Word(0, stood, places)

    def answered(self, request: ClaimRequest, *, found: bool) -> None:
        """The claim was answered: it stands only if it was to, and found nothing."""
        stand = self._by_worker.pop(request.worker, None)
        if stand is not None and request.stands and not found:
            queues = frozenset(request.queues)
            self._by_worker[request.worker] = stand._replace(queues=queues)

    def heard(self, handed: Handed) -> None:
        """Something was handed over to a claim of this process."""
        for worker, (request, expected, _) in self._by_worker.items():
            if request.token == handed.token and expected == handed.number:
                act = self._acts.get(worker)
                if act is not None:
                    del self._by_worker[worker]
                    with contextlib.suppress(*Undecodable):  # it is found when its lease runs out
                        act([_run(request, handed)])
                return


def _run(request: ClaimRequest, handed: Handed) -> Task:
    token, now = request.token, handed.now
    stamp = Stamp(handed.run, handed.fence, request.worker, token, now, now + request.lease_ms)
    definition, status = decode_definition(handed.definition), decode_status(handed.status)
    return stamped(Task(definition=definition, status=status, ref=handed.ref), stamp)
