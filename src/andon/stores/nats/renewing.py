"""Renewing: a record's cell is written anew, guarded like every write; no revision, no move."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from andon.contract.isolation import AT_FAULT, renewal_refused, why_of
from andon.contract.outcomes import Verdict
from andon.contract.requests import Renewal
from andon.contract.topics import task_topic
from andon.model.task import RunCell
from andon.model.words import State
from andon.stores.kit.loop_thread import LoopThread
from andon.stores.kit.partitions import partition_of
from andon.stores.kit.server_clock import ServerClock
from andon.stores.nats.bodies import Body, Head
from andon.stores.nats.heads import Heads, same
from andon.stores.nats.hints import encoded
from andon.stores.nats.location import Location
from andon.stores.nats.names import Names, is_token
from andon.stores.nats.sheets import Notes
from andon.stores.nats.wire import CONFLICT, REFUSED, Wire

if TYPE_CHECKING:
    from andon.stores.nats.wire import Write


async def renew(
    partitions: Sequence[Heads], renewals: Sequence[Renewal], clock: ServerClock
) -> list[Verdict]:
    """Extend leases; verdicts in order."""
    verdicts = [Verdict.LOST] * len(renewals)
    possible = [i for i, r in enumerate(renewals) if is_token(r.task)]
    for number, heads in enumerate(partitions):
        waiting = [i for i in possible if partition_of(renewals[i].task, len(partitions)) == number]
        while waiting:
            found = await heads.read(renewals[i].task for i in waiting)
            chosen: list[tuple[int, Head]] = []
            writes: list[Write] = []
            for i in waiting:
                head = found.get(renewals[i].task)
                if head is None or not _holds(head, renewals[i]):
                    continue
                try:
                    body = _renewed(head, renewals[i], clock.now())
                    writes.append(heads.write(body, head.subject, guard=head.guard))
                    chosen.append((i, head))
                except AT_FAULT as error:
                    verdicts[i] = renewal_refused(renewals[i], why_of(error))
            seqs = await heads.wire.write(heads.names.stream, writes, each=True)
            waiting = list[int]()
            for (i, head), seq in zip(chosen, seqs, strict=True):
                heads.forget(renewals[i].task)
                if seq == REFUSED:
                    why = "the server refuses the message"
                    verdicts[i] = renewal_refused(renewals[i], why)
                    continue
                if seq <= CONFLICT:
                    waiting.append(i)
                    continue
                heads.notes.keep(seq)
                assert head.task is not None
                asked = head.task.status.cancel_requested_at is not None
                verdicts[i] = Verdict.CANCEL if asked else Verdict.OK
    return verdicts


def _holds(head: Head, renewal: Renewal) -> bool:
    task = head.task
    return (
        task is not None
        and task.state is State.ACTIVE
        and task.cell is not None
        and task.cell.run == renewal.run
    )


def _renewed(head: Head, renewal: Renewal, now: int) -> Body:
    cell = head.body.cell
    assert cell is not None
    body = same(head)
    body.cell = RunCell(
        run=cell.run,
        lease_until=max(cell.lease_until, now + renewal.lease_ms),
        heartbeat_at=now if renewal.heartbeat else cell.heartbeat_at,
        progress=cell.progress if renewal.progress is None else renewal.progress,
        message=cell.message if renewal.message is None else renewal.message,
    )
    return body


def progress_topics(renewals: Sequence[Renewal]) -> list[str]:
    """The tasks whose watchers have something to see."""
    return [task_topic(r.task) for r in renewals if r.progress is not None or r.message is not None]


class Keeper:
    """Renewals on a connection, a loop and a thread of their own."""

    def __init__(self, location: Location, notes: Sequence[Notes], clock: ServerClock) -> None:
        self._location = location
        self._notes = notes  #: of each partition
        self._clock = clock
        self._thread = LoopThread("andon-nats-keeper", location.shown)
        self._wire: Wire | None = None
        self._heads: list[Heads] = []

    def renew(self, renewals: Sequence[Renewal], hint_root: str) -> list[Verdict]:
        """Renew from any thread; blocks."""
        return self._thread.run(partial(self._renew, renewals, hint_root))

    async def _renew(self, renewals: Sequence[Renewal], hint_root: str) -> list[Verdict]:
        if self._wire is None:
            wire = Wire(self._location, name="andon-keeper")
            await wire.connect()
            self._wire = wire
            self._heads = [
                Heads(wire, Names(self._location.namespace, p), self._clock)
                for p in range(len(self._notes))
            ]
            for heads, notes in zip(self._heads, self._notes, strict=True):
                heads.notes = notes
        verdicts = await renew(self._heads, renewals, self._clock)
        topics = progress_topics(renewals)
        if topics:
            await self._wire.hint(f"{hint_root}task", encoded(topics))
        return verdicts

    def close(self) -> None:
        """End the thread and its connection; blocks for a moment."""
        self._thread.close(self._let_go)

    async def _let_go(self) -> None:
        if self._wire is not None:
            await self._wire.close()
