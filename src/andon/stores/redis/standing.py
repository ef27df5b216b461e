"""Claims that stand: a worker that found nothing has left word that it has room, and whoever
creates the next task that it would have got hands it over in the same step, as active already.

The server has one such claim for a queue at the most, for `STANDS_MS`, and it counts only while its
process is subscribed to its own channel. What is handed over is published there. What got lost on
its way is found by the claim's token, as a lost reply is: the next claim of that worker repeats it.
That repeat also takes the standing claim away, in one step with its own look, and whatever is
handed over to a claim that has been repeated since (by its number) comes with the repeat's reply.
"""

import contextlib
import secrets
from collections.abc import Callable
from typing import Any, NamedTuple

from andon.lifecycle.apply import stamped
from andon.model.task import Stamp, Task
from andon.stores.base import ClaimRequest
from andon.stores.codec import Undecodable, decode_definition, decode_status

STANDS_MS = 6_500
"""How long a claim stands if it is not repeated: somewhat longer than a slow poll may take."""

HANDED = "handed-"
"""What the kind of a process's own channel begins with."""


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
        self.kind = HANDED + secrets.token_hex(8)

    def hand_over_to(self, worker: str, act: Callable[[list[Task]], None] | None) -> None:
        """Who takes what is handed over to that worker."""
        if act is None:
            self._acts.pop(worker, None)
        else:
            self._acts[worker] = act

    def word(self, request: ClaimRequest) -> tuple[Any, Any]:
        """What a claim says when it is sent: how it will stand, and what stood before it."""
        before = self._by_worker.get(request.worker)
        stood = None if before is None else (before.request.token, tuple(before.queues))
        if request.stands and request.queues:
            self._number += 1
            # Until it is answered, what stood before may stand as well.
            queues = frozenset(request.queues).union(before.queues if before is not None else ())
            self._by_worker[request.worker] = _Stand(request, self._number, queues)
            return (self._number, self.kind, STANDS_MS), stood
        if before is not None:
            self._by_worker[request.worker] = before._replace(number=0)
        return None, stood

    def answered(self, request: ClaimRequest, *, found: bool) -> None:
        """The claim was answered: it stands only if it was to, and found nothing."""
        stand = self._by_worker.pop(request.worker, None)
        if stand is not None and request.stands and not found:
            queues = frozenset(request.queues)
            self._by_worker[request.worker] = stand._replace(queues=queues)

    def pushed(self, payload: bytes) -> None:
        """Something was handed over: five lines, then the bodies of a definition and a status."""
        token, number, now, fence, size, bodies = payload.split(b"\n", 5)
        for worker, (request, expected, _) in self._by_worker.items():
            if request.token == token.decode() and expected == int(number):
                act = self._acts.get(worker)
                if act is not None:
                    del self._by_worker[worker]
                    status_at = int(size)
                    with contextlib.suppress(*Undecodable):  # it is found when its lease runs out
                        act([_run(request, int(now), int(fence), bodies, status_at)])
                return


def _run(request: ClaimRequest, now: int, fence: int, bodies: bytes, status_at: int) -> Task:
    token = request.token
    until = now + request.lease_ms
    stamp = Stamp(f"{token}-1", fence, request.worker, token, now, until)
    definition = decode_definition(bodies[:status_at])
    return stamped(Task(definition=definition, status=decode_status(bodies[status_at:])), stamp)
