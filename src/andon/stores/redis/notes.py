"""Keeps notes: small values beside the tasks, those of a scope in one hash, in the scope's
partition."""

from collections.abc import Sequence
from typing import Any, cast

from andon.contract.notes import Note, NoteName, NotePut, PutNote
from andon.contract.refusals import note_refused
from andon.stores.redis.partitions import Partitions
from andon.stores.redis.records import body, damage


def _place(kind: str, scope: str) -> str:
    return f"{kind}:{scope}"


async def notes(at: Partitions, names: Sequence[NoteName]) -> list[bytes | None]:
    """Values of notes."""
    items = [(_place(name.kind, name.scope), name.key) for name in names]
    return await at.spread("notes", items, [place for place, _ in items])


async def put_notes(at: Partitions, puts: Sequence[PutNote]) -> list[NotePut]:
    """Compare and set each."""
    items = [
        (
            _place(put.name.kind, put.name.scope),
            put.name.key,
            None if put.value is None else body(put.value),
            None if put.expect is None else body(put.expect),
        )
        for put in puts
    ]
    replies: list[Any] = await at.spread("put_notes", items, [item[0] for item in items])
    return [
        note_refused(put, damage(cast("bytes", reply[1])))
        if isinstance(reply, list)
        else NotePut.WRITTEN
        if reply
        else NotePut.OTHER
        for put, reply in zip(puts, replies, strict=True)
    ]


async def page(at: Partitions, kind: str, scope: str, after: str, limit: int) -> list[Note]:
    """Notes of one kind and scope by key."""
    place = _place(kind, scope)
    reply = await at.run("list_notes", at.of(place), (place, after, limit))
    return [Note(key.decode(), value) for key, value in zip(reply[1::2], reply[2::2], strict=True)]
