"""Creates tasks whose groups have a record: each once its group has let it in.

Where a store writes a note and a record in one step (`CreatesWithNotes`), a single member is let in
by the remembered record of its group, which the store compares with its own: one write, and nothing
is read. If they differ, the caller decides again, by what the store has then.
"""

from collections.abc import Sequence
from typing import NamedTuple

from andon.contract.limits import MAX_BATCH
from andon.contract.optional import CreatesWithNotes, offered
from andon.contract.outcomes import Created, CreateKind
from andon.contract.requests import NotedTask
from andon.contract.store import Store
from andon.engine.base import Submission
from andon.engine.batching import Batcher
from andon.engine.groups import Groups, Wish
from andon.model.errors import AndonError
from andon.model.task import Task

_CHANGED = CreateKind.NOTE_CHANGED
_NOT_NOTED = frozenset((_CHANGED, CreateKind.INVALID))
"""Outcomes after which the stored note may differ from the one to be written."""


class Member(NamedTuple):
    """A record to be created, and the member for its group to let in."""

    task: Task
    wish: Wish


class Members:
    """Creates members, those that come at once together."""

    def __init__(self, store: Store, groups: Groups) -> None:
        self._store = store
        self._groups = groups
        self._noting = offered(store, CreatesWithNotes)
        create = self._after_letting_in if self._noting is None else self._in_one_step
        self._batcher: Batcher[Member, Created | None] = Batcher(
            create,
            size=MAX_BATCH,
            in_flight=store.in_flight,
            finishes=self._noting is not None,
        )

    async def create(self, task: Task, submission: Submission) -> Created | None:
        """The outcome of creating the record of this submission; None if it is to be decided again,
        because its group, as remembered here, does not let it in."""
        s = submission
        if s.group is None or s.group_owner is None:
            return None
        wish = Wish(s.group, s.group_owner, task.status.expires_at)
        return await self._batcher.put(Member(task, wish))

    async def drain(self) -> None:
        """Wait until everything handed over so far is written."""
        await self._batcher.drain()

    async def _in_one_step(self, members: Sequence[Member]) -> list[Created | None]:
        assert self._noting is not None
        now = self._store.now()
        noted: list[NotedTask | None] = []
        for task, wish in members:
            try:
                noted.append(NotedTask(task, self._groups.note_for(wish, now)))
            except AndonError:
                noted.append(None)
        let_in = [one for one in noted if one is not None]
        try:
            created = await self._noting.create_with_notes(let_in) if let_in else []
        except BaseException:
            self._groups.forget(wish.group for _, wish in members)
            raise
        self._groups.forget(
            one.note.name.key
            for one, outcome in zip(let_in, created, strict=True)
            if outcome.kind in _NOT_NOTED
        )
        outcomes = iter(created)
        answers = [None if one is None else next(outcomes) for one in noted]
        return [None if one is None or one.kind is _CHANGED else one for one in answers]

    async def _after_letting_in(self, members: Sequence[Member]) -> list[Created | None]:
        refused = await self._groups.let_in([wish for _, wish in members])
        tasks = [task for (task, _), error in zip(members, refused, strict=True) if error is None]
        outcomes = iter(await self._store.create(tasks) if tasks else ())
        return [next(outcomes) if error is None else None for error in refused]
