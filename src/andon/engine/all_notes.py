"""Lists all notes of a store, for a copy, by their known kinds and scopes."""

from collections.abc import AsyncIterator

from andon.contract.notes import Note, NoteName
from andon.contract.store import Store
from andon.engine.groups import SCOPES, scope_of
from andon.model.groups import GROUP_NOTES
from andon.model.registry import QUEUE_NOTES, WORKER_NOTES

_PAGE = 200


async def all_notes(store: Store) -> AsyncIterator[list[tuple[NoteName, bytes]]]:
    """Names and values, in pages."""
    for number in range(SCOPES):
        async for page in pages(store, GROUP_NOTES, scope_of(number)):
            yield [(NoteName(GROUP_NOTES, scope_of(number), n.key), n.value) for n in page]
    async for queues in pages(store, QUEUE_NOTES, ""):
        yield [(NoteName(QUEUE_NOTES, "", n.key), n.value) for n in queues]
        for queue in queues:
            async for page in pages(store, WORKER_NOTES, queue.key):
                yield [(NoteName(WORKER_NOTES, queue.key, n.key), n.value) for n in page]


async def pages(store: Store, kind: str, scope: str) -> AsyncIterator[list[Note]]:
    """Notes of one kind and scope, in pages."""
    after = ""
    while page := await store.list_notes(kind, scope, after, _PAGE):
        yield page
        if len(page) < _PAGE:
            return
        after = page[-1].key
