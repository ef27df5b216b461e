"""Renews leases: writes a record's lease record anew, guarded like every write; no revision, no
move."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from andon.contract.isolation import AT_FAULT, why_of
from andon.contract.outcomes import Verdict
from andon.contract.refusals import renewal_refused
from andon.contract.requests import Renewal
from andon.contract.topics import run_topic
from andon.model.task import RunCell
from andon.model.words import State
from andon.stores.kit.loop_thread import LoopThread
from andon.stores.kit.partitions import partition_of
from andon.stores.kit.server_clock import ServerClock
from andon.stores.nats.hints import encoded
from andon.stores.nats.jetstream import CONFLICT, REFUSED, JetStream
from andon.stores.nats.location import Location
from andon.stores.nats.record_cache import RecordCache, unchanged
from andon.stores.nats.record_codec import RecordBody, StoredRecord
from andon.stores.nats.subjects import Subjects, is_token
from andon.stores.nats.write_summaries import WriteNotes

if TYPE_CHECKING:
    from andon.stores.nats.jetstream import Write


async def renew(
    partitions: Sequence[RecordCache], renewals: Sequence[Renewal], clock: ServerClock
) -> list[Verdict]:
    """Extend leases; verdicts in order."""
    verdicts = [Verdict.LOST] * len(renewals)
    possible = [i for i, r in enumerate(renewals) if is_token(r.task)]
    for number, records in enumerate(partitions):
        waiting = [i for i in possible if partition_of(renewals[i].task, len(partitions)) == number]
        while waiting:
            found = await records.read(renewals[i].task for i in waiting)
            chosen: list[tuple[int, StoredRecord]] = []
            writes: list[Write] = []
            for i in waiting:
                stored = found.get(renewals[i].task)
                if stored is None or not _holds(stored, renewals[i]):
                    continue
                try:
                    body = _renewed(stored, renewals[i], clock.now())
                    writes.append(records.write(body, stored.subject, guard=stored.guard))
                    chosen.append((i, stored))
                except AT_FAULT as error:
                    verdicts[i] = renewal_refused(renewals[i], why_of(error))
            seqs = await records.js.write(records.subjects.stream, writes, each=True)
            waiting = list[int]()
            for (i, stored), seq in zip(chosen, seqs, strict=True):
                records.forget(renewals[i].task)
                if seq == REFUSED:
                    why = "the server refuses the message"
                    verdicts[i] = renewal_refused(renewals[i], why)
                    continue
                if seq <= CONFLICT:
                    waiting.append(i)
                    continue
                records.notes.note_quietly(seq)
                assert stored.task is not None
                asked = stored.task.status.cancel_requested_at is not None
                verdicts[i] = Verdict.CANCEL if asked else Verdict.OK
    return verdicts


def _holds(stored: StoredRecord, renewal: Renewal) -> bool:
    task = stored.task
    return (
        task is not None
        and task.state is State.ACTIVE
        and task.cell is not None
        and task.cell.run == renewal.run
    )


def _renewed(stored: StoredRecord, renewal: Renewal, now: int) -> RecordBody:
    cell = stored.body.cell
    assert cell is not None
    body = unchanged(stored)
    body.cell = RunCell(
        run=cell.run,
        lease_until=max(cell.lease_until, now + renewal.lease_ms),
        heartbeat_at=now if renewal.heartbeat else cell.heartbeat_at,
        progress=cell.progress if renewal.progress is None else renewal.progress,
        message=cell.message if renewal.message is None else renewal.message,
    )
    return body


def progress_topics(renewals: Sequence[Renewal]) -> list[str]:
    """The tasks whose watchers get a hint."""
    return [run_topic(r.task) for r in renewals if r.progress is not None or r.message is not None]


class RenewalThread:
    """Renewals on a connection, a loop and a thread of their own."""

    def __init__(self, location: Location, notes: Sequence[WriteNotes], clock: ServerClock) -> None:
        self._location = location
        self._notes = notes  #: of each partition
        self._clock = clock
        self._thread = LoopThread("andon-nats-keeper", location.shown)
        self._js: JetStream | None = None
        self._records: list[RecordCache] = []

    def renew(self, renewals: Sequence[Renewal], hint_root: str) -> list[Verdict]:
        """Renew from any thread; blocks."""
        return self._thread.run(partial(self._renew, renewals, hint_root))

    async def _renew(self, renewals: Sequence[Renewal], hint_root: str) -> list[Verdict]:
        if self._js is None:
            js = JetStream(self._location, name="andon-keeper")
            await js.connect()
            self._js = js
            self._records = [
                RecordCache(js, Subjects(self._location.namespace, p), self._clock)
                for p in range(len(self._notes))
            ]
            for records, notes in zip(self._records, self._notes, strict=True):
                records.notes = notes
        verdicts = await renew(self._records, renewals, self._clock)
        topics = progress_topics(renewals)
        if topics:
            self._js.hint({f"{hint_root}task": encoded(topics)})
        return verdicts

    def close(self) -> None:
        """End the thread and its connection; blocks for a moment."""
        self._thread.close(self._disconnect)

    async def _disconnect(self) -> None:
        if self._js is not None:
            await self._js.close()
