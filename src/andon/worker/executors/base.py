"""What every executor does, and what it is given: one run in hand."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from andon.lifecycle.commands import Command
from andon.lifecycle.placeholders import NotFillable, filled
from andon.model.task import Task
from andon.worker import outcomes
from andon.worker.context import Context
from andon.worker.registry import TaskType

if TYPE_CHECKING:
    import asyncio


class Resolved(Exception):
    """Ends a run with a command that was decided where the handler ran."""

    def __init__(self, command: Command) -> None:
        super().__init__(command.event.value)
        self.command = command


class RunInHand:
    """One claimed run, from its claim until its report was taken."""

    __slots__ = (
        "asked_at",
        "begun",
        "context",
        "ended",
        "error",
        "executor",
        "handed",
        "handle",
        "killed",
        "kind",
        "lost",
        "on_shutdown",
        "seconds",
        "started_at",
        "task",
        "timers",
        "told",
        "where",
    )

    def __init__(self, context: Context, task: Task, kind: TaskType | None) -> None:
        self.context = context
        self.task = task
        self.handed = task  #: what the handler is given: results filled in, where it has any
        self.kind = kind  #: None: no handler
        self.handle: asyncio.Task[None] | None = None
        self.executor: Executor | None = None  #: set when the handler starts
        self.asked_at = 0.0  #: when its claim was sent, or before; monotonic seconds
        self.begun = False
        self.told = False  #: the handler was told to stop
        self.ended = False  #: decided: by the handler's end, or without it
        self.lost = False  #: the lease was lost after the handler's end
        self.killed = False  #: the handler was ended by force
        self.error: BaseException | None = None  #: what the handler raised here, for the log
        self.started_at = 0.0  #: when its handler started; monotonic seconds
        self.seconds = 0.0  #: how long its handler ran
        self.on_shutdown: outcomes.OnShutdown = task.policy.on_shutdown
        self.timers: tuple[asyncio.TimerHandle, ...] = ()
        self.where: Any = None  #: the executor's own: the child or process that runs it

    def fill_in(
        self, names: Sequence[str], found: Mapping[str, Task | None], *, max_payload: int
    ) -> None:
        """Put the results of dependencies into the arguments that have these names. The handler
        sees them; what is reported and kept is the record as it was claimed. Raises `Resolved`."""
        definition = self.task.definition
        results = {id: one.result for id, one in found.items() if one is not None}
        try:
            args = filled(
                definition.args, names, definition.dependencies, results, max_payload=max_payload
            )
        except NotFillable as error:
            raise Resolved(outcomes.malformed(error)) from None
        self.handed = msgspec.structs.replace(
            self.task, definition=msgspec.structs.replace(definition, args=args)
        )
        self.context.task = self.handed

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The handler's arguments, the context among them. Raises `Resolved` if malformed."""
        kind = self.kind
        assert kind is not None
        codec = kind.codec
        try:
            args, kwargs = codec.decode(self.handed.definition.args)
        except Exception as error:  # MalformedPayload; a model's own validator may raise anything
            raise Resolved(outcomes.malformed(error)) from None
        if codec.context:
            kwargs[codec.context] = self.context
        return args, kwargs


class Executor(Protocol):
    """Runs handlers of one kind."""

    interrupts: bool  #: `stop` reaches a handler that does not look
    kills: bool  #: a handler that does not stop in time is killed by the executor itself

    async def execute(self, run: RunInHand) -> Any:
        """Run the handler; its result. Raises what it raised, `Stopped`, or `Resolved`."""
        ...

    def stop(self, run: RunInHand) -> None:
        """Tell the handler to stop."""
        ...

    async def close(self) -> None:
        """Let go of every resource; handlers that still run are left behind or killed."""
        ...
