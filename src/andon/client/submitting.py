"""Submits drafts: one, many in few round trips, or a stream of them."""

import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from functools import cached_property
from typing import Any, TypeVar

from andon.client.bridge import in_calling_thread, is_called_blocking
from andon.client.drafts import Draft, check_draft
from andon.client.handle import TaskHandle
from andon.client.signing import Signing
from andon.client.store_access import StoreAccess
from andon.client.streaming import streamed
from andon.client.unawaited import awaited_as
from andon.engine.base import Joining, Submission, Submitted
from andon.model.errors import ConfigurationError, SubmissionsRefused, UniqueKeyHeld
from andon.worker.registry import TaskType

R = TypeVar("R")


class Submitting(StoreAccess):
    """The part of an application that submits drafts."""

    signing: Signing | None
    _on_submit: list[Callable[[Submission], Submission]]

    @awaited_as("Andon.submit_many")
    async def submit_many(self, drafts: Iterable[Draft[R]]) -> list[TaskHandle[R]]:
        """Submit many drafts in few round trips; handles in the order given.

        Drafts may depend on one another. Each stands alone: if some are refused, the others are
        accepted all the same and `SubmissionsRefused` says which is which. If one is no draft,
        `TypeError` is raised and none is submitted.

        Example:
            handles = await app.submit_many([charge.draft(order, 990) for order in range(100)])
            assert len(handles) == 100
        """
        # Drawn in the caller's thread: a cursor or a session may be used in its own thread only.
        many = await in_calling_thread(lambda: list(drafts))
        for draft in many:
            check_draft(draft)
        outcomes = await self.send_drafts(many)
        pairs = list(zip(many, outcomes, strict=True))
        errors = {o.id: o.error for draft, o in pairs if o.error and not _is_held(draft, o)}
        if errors:
            accepted = tuple(o.id for o in outcomes if o.id not in errors)
            raise SubmissionsRefused(errors, accepted)
        return [self.sent(*pair) for pair in pairs]

    def submit_stream(
        self, drafts: Iterable[Draft[Any]] | AsyncIterable[Draft[Any]]
    ) -> AsyncGenerator[list[Submitted]]:
        """Submit any number of drafts, drawing more while the store writes those before; yields
        how each ended, some hundred at a time, in the order given.

        None is raised for: a refusal is the `error` of its outcome, and the others are accepted all
        the same. What is yielded is stored. If the iterable raises, or gives what is no draft
        (`TypeError`), what it gave before is stored and yielded first. To store nothing if a draft
        cannot be made, make a list first, and submit that. A draft that depends on others of the
        stream comes after them.

        Example:
            drafts = (charge.draft(order, 990) for order in range(1_000))
            async for outcomes in app.submit_stream(drafts):
                for outcome in outcomes:
                    assert outcome.error is None, outcome.error
        """
        return streamed(self.send_drafts, self._bulk_size, drafts)

    async def submit_draft(self, draft: Draft[R]) -> TaskHandle[R]:
        """Submit one draft. Raises like `TaskFunction.submit`."""
        [outcome] = await self.sending(draft)
        return self.sent(draft, outcome)

    def follow_draft(self, draft: Draft[R]) -> tuple[Submission, TaskHandle[R]]:
        """The submission that a run makes with its end, after middleware has seen it, and its
        handle."""
        if draft.connection is not None:
            raise ConfigurationError(
                "A follow-up is written with the end of its run, and not in a transaction of "
                "yours; leave connection= out, or submit it."
            )
        submission = self.as_sent(draft.submission)
        if self.signing:
            engine = self.connections.at_hand()
            now = round(time.time() * 1000) if engine is None else engine.now()
            submission = self.signing.signed_one(submission, now)
        return submission, TaskHandle(self, submission.id, draft.codec)

    def as_sent(self, submission: Submission) -> Submission:
        """A submission as middleware leaves it."""
        for hook in self._on_submit:
            submission = hook(submission)
        return submission

    def sending(self, draft: Draft[Any]) -> Awaitable[list[Submitted]]:
        """An awaitable that submits one draft, with as few coroutines as possible."""
        engine = self.connections.at_hand()
        if engine is None or draft.connection is not None or self._on_submit or self.signing:
            return self._send([draft.submission], draft.connection)
        return engine.submit([draft.submission])

    def sent(self, draft: Draft[R], outcome: Submitted) -> TaskHandle[R]:
        """The handle on what was submitted, or on the holder of its key. Raises why not."""
        if outcome.error is not None:
            if _is_held(draft, outcome) and isinstance(outcome.error, UniqueKeyHeld):
                return TaskHandle(self, outcome.error.holder, draft.codec, created=False)
            raise outcome.error
        return TaskHandle(self, outcome.id, draft.codec, outcome.created)

    def records_invalid(self, task_type: TaskType, options: Mapping[str, Any]) -> bool:
        """Whether a submission with these options is kept, as failed, if its arguments do not fit
        (docs/rulings.md, R25)."""
        chosen = options.get("on_invalid") or task_type.options.get("on_invalid")
        return (chosen or self._profile_on_invalid) == "record"

    @cached_property
    def _profile_on_invalid(self) -> str:
        return self.profile_default("on_invalid", "refuse")

    async def _bulk_size(self) -> int:
        engine = self.connections.at_hand() or await self.connections.engine()
        return engine.bulk_size

    async def send_drafts(self, drafts: Sequence[Draft[Any]]) -> list[Submitted]:
        """Submit drafts in one call; how each ended, in the order given."""
        connection = drafts[0].connection if drafts else None
        submissions = [draft.submission for draft in drafts if draft.connection is connection]
        if len(submissions) < len(drafts):
            raise TypeError(
                "These drafts are for several connections; submit those of each in a call of "
                "their own."
            )
        return await self._send(submissions, connection)

    async def _send(self, submissions: list[Submission], connection: Any = None) -> list[Submitted]:
        for hook in self._on_submit:
            submissions = [hook(submission) for submission in submissions]
        engine = self.connections.at_hand() or await self.connections.engine()
        if self.signing:
            submissions = await self.signing.signed(submissions, engine)
        if connection is None:
            return await engine.submit(submissions)
        joining: Any = engine  # a service's engine is none
        if not isinstance(joining, Joining):
            raise ConfigurationError(
                "connection= needs the PostgreSQL store itself; the application's URL leads to a "
                "service, which cannot be part of a transaction."
            )
        is_awaited = joining.is_awaited(connection)
        joinable = await joining.join(submissions)
        if is_awaited:
            if is_called_blocking():
                raise TypeError(
                    "A connection whose calls are awaited belongs to its event loop: await the "
                    "async method there, or give the sync face a connection that blocks."
                )
            return await joinable.submit_async(connection)
        return await in_calling_thread(lambda: joinable.submit(connection))


def _is_held(draft: Draft[Any], outcome: Submitted) -> bool:
    """Whether another task holds the key of a draft that means that task then."""
    return draft.returns_holder and isinstance(outcome.error, UniqueKeyHeld)
