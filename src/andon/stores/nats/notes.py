"""Keeps notes: small values beside the tasks, a message each, in partition 0.

The newest message of a subject is the note; a deleted note leaves an empty message for a moment.
Those of a scope stand together, and are listed by reading them all.
"""

from collections.abc import Sequence

import msgspec

from andon.contract.isolation import AT_FAULT, left_out, why_of
from andon.contract.notes import Note, NoteName, NotePut, PutNote
from andon.stores.nats.jetstream import CONFLICT, GUARD, UNSURE, Write, seq_of, subject_of
from andon.stores.nats.record_cache import RecordCache
from andon.stores.nats.subjects import hashed

_GONE = {"Nats-TTL": "1s"}


class _Note(msgspec.Struct, frozen=True, array_like=True):
    key: str  #: the subject has only its hash
    value: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Note).decode


class Notes:
    """The notes of a namespace."""

    def __init__(self, records: RecordCache) -> None:
        self._records = records

    def _subject(self, name: NoteName) -> str:
        return self._records.subjects.of("o", name.kind, hashed(name.scope), hashed(name.key))

    async def _there(self, subjects: Sequence[str]) -> dict[str, tuple[int, bytes | None]]:
        """Sequence and value of the note under each of these subjects."""
        found = await self._records.last(list(dict.fromkeys(subjects))) if subjects else []
        return {
            subject_of(msg): (seq_of(msg), _decode(msg.data).value if msg.data else None)
            for msg in found
        }

    async def get(self, names: Sequence[NoteName]) -> list[bytes | None]:
        """Values of notes."""
        subjects = [self._subject(name) for name in names]
        there = await self._there(subjects)
        return [there.get(subject, (0, None))[1] for subject in subjects]

    async def put(self, puts: Sequence[PutNote]) -> list[NotePut]:
        """Compare and set each. A write with an unknown outcome counts as written if its value is
        stored."""
        outcomes = [NotePut.OTHER] * len(puts)
        wanted: dict[int, tuple[str, bytes]] = {}
        for place, put in enumerate(puts):
            try:
                body = b"" if put.value is None else _encode(_Note(put.name.key, put.value))
                wanted[place] = self._subject(put.name), body
            except AT_FAULT as error:
                left_out("A note", put.name.key, why_of(error))
                outcomes[place] = NotePut.INVALID
        there = await self._there([subject for subject, _ in wanted.values()])
        writes: list[Write] = []
        places: list[int] = []
        for place, (subject, body) in wanted.items():
            seq, value = there.get(subject, (0, None))
            if value != puts[place].expect:
                continue
            if value is None and not body:
                outcomes[place] = NotePut.WRITTEN
                continue
            places.append(place)
            headers = {GUARD: str(seq), **({} if body else _GONE)}
            writes.append((subject, body, headers))
        stream = self._records.subjects.stream
        seqs = await self._records.js.write(stream, writes)
        unsure = [place for place, seq in zip(places, seqs, strict=True) if seq == UNSURE]
        now = await self._there([wanted[place][0] for place in unsure])
        for place, seq in zip(places, seqs, strict=True):
            value = now.get(wanted[place][0], (0, None))[1]
            if seq > CONFLICT or (seq == UNSURE and value == puts[place].value):
                outcomes[place] = NotePut.WRITTEN
        return outcomes

    async def page(self, kind: str, scope: str, after: str, limit: int) -> list[Note]:
        """Notes of one kind and scope by key."""
        subject = self._records.subjects.of("o", kind, hashed(scope), "*")
        found = [_decode(msg.data) for msg in await self._records.last([subject]) if msg.data]
        notes = sorted(
            (Note(one.key, one.value) for one in found if one.key > after),
            key=lambda note: note.key.encode(),
        )
        return notes[:limit]
