"""Notes: small values beside the tasks, a row each."""

from collections.abc import Sequence

from andon.contract.isolation import each_alone
from andon.contract.notes import Note, NoteName, NotePut, PutNote
from andon.contract.refusals import note_refused
from andon.stores.postgres.server import Server


class Notes:
    """The store's operations on notes."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def get(self, names: Sequence[NoteName]) -> list[bytes | None]:
        """Values of notes."""
        kinds, scopes, keys = _columns(names)
        rows = await self._server.run(self._server.sql.notes, kinds, scopes, keys)
        return [value for (value,) in rows]

    async def put(self, puts: Sequence[PutNote]) -> list[NotePut]:
        """Compare and set each."""
        return await each_alone(self._put, puts, note_refused) if puts else []

    async def _put(self, puts: Sequence[PutNote]) -> list[NotePut]:
        ((written,),) = await self._server.write(
            self._server.calls.put_notes,
            *_columns([put.name for put in puts]),
            [put.value for put in puts],
            [put.expect for put in puts],
        )
        return [NotePut.WRITTEN if one else NotePut.OTHER for one in written]

    async def page(self, kind: str, scope: str, after: str, limit: int) -> list[Note]:
        """Notes of one kind and scope by key."""
        rows = await self._server.run(self._server.sql.list_notes, kind, scope, after, limit)
        return [Note(*row) for row in rows]


def _columns(names: Sequence[NoteName]) -> tuple[list[str], list[str], list[str]]:
    return [n.kind for n in names], [n.scope for n in names], [n.key for n in names]
