"""Notes: small values beside the tasks, in a dict for each kind and scope."""

from collections.abc import Sequence

from andon.contract.notes import Note, NoteName, NotePut, PutNote


class Notes:
    """All notes of a store."""

    def __init__(self) -> None:
        self._in: dict[tuple[str, str], dict[str, bytes]] = {}

    def get(self, name: NoteName) -> bytes | None:
        """The value of one note."""
        return self._in.get((name.kind, name.scope), {}).get(name.key)

    def put(self, put: PutNote) -> NotePut:
        """Compare and set."""
        kind, scope, key = put.name
        if self.get(put.name) != put.expect:
            return NotePut.OTHER
        if put.value is not None:
            self._in.setdefault((kind, scope), {})[key] = put.value
        elif put.expect is not None:
            del self._in[kind, scope][key]
            if not self._in[kind, scope]:
                del self._in[kind, scope]
        return NotePut.WRITTEN

    def page(self, kind: str, scope: str, after: str, limit: int) -> Sequence[Note]:
        """Notes of one kind and scope by key."""
        found = self._in.get((kind, scope), {})
        keys = sorted((key for key in found if key > after), key=lambda key: key.encode())
        return [Note(key, found[key]) for key in keys[:limit]]
