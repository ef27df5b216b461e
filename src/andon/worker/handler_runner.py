"""Runs the handler of one run, and decides how the run ended: by its result, or by what it raised
(docs/rulings.md, R7, R24).

Before the handler starts: the signature of the task is checked, its timeout and deadline are armed,
and the results of its dependencies are read. Middleware is called around the handler.
"""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from andon.engine.base import Engine
from andon.lifecycle.commands import Command, Expire, UnknownTask
from andon.lifecycle.placeholders import names_in
from andon.lifecycle.timers import run_timeout
from andon.model.errors import StoreUnavailable
from andon.model.words import Reason
from andon.worker import outcomes
from andon.worker.backoff import Backoff
from andon.worker.context import Context, StopReason, running
from andon.worker.control import Stopped, control_in
from andon.worker.dependency import Dependency
from andon.worker.executors.base import Executor, Resolved, RunInHand
from andon.worker.logs import activity

if TYPE_CHECKING:
    from andon.signing import TrustedKeys

_MAY_COMPLETE = frozenset(("", "cancel", "shutdown"))
"""A handler that was told to stop for these and completes all the same, completes (docs/rulings.md,
R7)."""


class Middleware(Protocol):
    """Wraps every run of a worker.

    Example:
        import time
        from andon import Andon

        class Timed:
            async def around(self, context, call_next):
                began = time.monotonic()
                try:
                    return await call_next()
                finally:
                    print(context.name, "took", time.monotonic() - began)

        app = Andon("memory://", middleware=[Timed()])

        @app.task
        async def double(number: int) -> int:
            return 2 * number

        async with app, app.working():
            assert await (await double.submit(21)).result(timeout=60) == 42
    """

    async def around(self, context: Context, call_next: Callable[[], Any]) -> Any:
        """Await `call_next()` for the handler's result, and return what is to be reported.

        A sync handler is wrapped from the loop's side. The result of a child process or command
        is a `msgspec.Raw`; one that ended otherwise raises through here.
        """
        ...


class HandlerRunner:
    """Runs the handlers of one worker. `arm` is called with a run, seconds, and the reason with
    which its handler is asked to stop when they have passed."""

    def __init__(
        self,
        engine: Engine,
        executors: Mapping[str, Executor],
        *,
        arm: Callable[[RunInHand, float, StopReason], None],
        max_payload: int,
        middleware: Sequence[Middleware],
        trusted_keys: "TrustedKeys | None",
        rng: random.Random,
        clock: Callable[[], float],
    ) -> None:
        self._engine = engine
        self._executors = executors
        self._arm = arm
        self._max_payload = max_payload
        self._middleware = tuple(middleware)
        self._trusted_keys = trusted_keys
        self._rng = rng
        self._clock = clock

    async def run(self, run: RunInHand) -> Command | None:
        """Run the handler. Returns the command that ends its run; None: nothing is to be reported.
        Raises what the handler raises."""
        kind, context, task = run.kind, run.context, run.task
        if kind is None:
            return UnknownTask()
        if self._trusted_keys is not None:  # before any code of the user's
            refusal = self._trusted_keys.refusal(task.definition, self._engine.now())
            if refusal is not None:
                return outcomes.unsigned(refusal)
        running.set(context)
        if task.status.deadline is not None and self._past_deadline(run):
            return Expire()
        timeout = run_timeout(task.status, task.policy)
        if timeout is not None:
            self._arm(run, timeout / 1000 - self._since_claim(run), "timeout")
        if task.definition.load_dependencies:
            await self._load_dependencies(run)
        if context.stop_reason:
            raise Stopped(context.stop_reason)
        executor = self._executors[kind.kind]
        run.executor = executor
        run.started_at = self._clock()
        activity.started(run)
        if self._middleware:
            value = await self._wrapped(run, executor)
        else:
            value = await executor.execute(run)
        reason = context.stop_reason
        if reason in _MAY_COMPLETE:
            return outcomes.completed(kind, value, self._max_payload)
        return outcomes.told(kind, task, reason, run.on_shutdown, None)

    async def _wrapped(self, run: RunInHand, executor: Executor) -> Any:
        call: Callable[[], Any] = partial(executor.execute, run)
        for middleware in reversed(self._middleware):
            call = partial(middleware.around, run.context, call)
        return await call()

    def raised(self, run: RunInHand, error: BaseException) -> Command | None:
        """The command that ends a run whose handler raised `error`."""
        kind, reason = run.kind, run.context.stop_reason
        assert kind is not None
        own: Command | None
        if isinstance(error, Resolved):
            own = error.command
        elif reason and isinstance(control_in(error), asyncio.CancelledError | Stopped):
            own = None
        else:
            own = outcomes.raised(kind, run.task, error)
            run.error = error
        if not reason:
            return own
        cancelled = Reason.HANDLER_KILLED if run.killed else Reason.CANCEL_REQUESTED
        return outcomes.told(kind, run.task, reason, run.on_shutdown, own, cancelled=cancelled)

    def _since_claim(self, run: RunInHand) -> float:
        """Seconds by the store's clock. That may have been set, or be another server's since, so it
        is never more than has passed here since the claim was sent."""
        now = self._engine.now()
        told = (now - (run.task.status.runs[-1].claimed_at or now)) / 1000
        return min(max(told, 0.0), self._clock() - run.asked_at)

    def _past_deadline(self, run: RunInHand) -> bool:
        """Arm the deadline where it covers the run; True if it has passed already (docs/rulings.md,
        R6)."""
        if run.task.policy.deadline_covers != "task":
            return False
        left = (run.task.status.deadline or 0) - self._engine.now()
        if left <= 0:
            return True
        self._arm(run, left / 1000, "deadline")
        return False

    async def _load_dependencies(self, run: RunInHand) -> None:
        backoff = Backoff(self._rng)
        while True:
            try:
                found = await self._engine.dependency_results(run.task)
            except StoreUnavailable:
                await asyncio.sleep(backoff.failed())
                continue
            try:
                run.context.dependencies = {id: Dependency.of(task) for id, task in found.items()}
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                # Another try would find the same result.
                raise Resolved(outcomes.malformed(error)) from None
            names = names_in(run.task.definition.headers)
            if names:
                run.fill_in(names, found, max_payload=self._max_payload)
            return
