"""The interface of executors, and the run in hand that they carry out."""

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


class RunInHand(msgspec.Struct, eq=False):
    """One claimed run, from its claim until its report was taken."""

    context: Context
    task: Task
    handed: Task  #: what the handler is given: the same until results are filled in
    kind: TaskType | None  #: None: no handler
    on_shutdown: outcomes.OnShutdown
    asked_at: float = 0.0  #: when its claim was sent, or before; monotonic seconds
    handle: "asyncio.Task[None] | None" = None
    executor: "Executor | None" = None  #: set when the handler starts
    begun: bool = False
    asked_to_stop: bool = False  #: for the reason in `context.stop_reason`
    ended: bool = False  #: how the run ends is decided, by the handler's end or without it
    lost: bool = False  #: the lease was lost after the handler's end
    killed: bool = False  #: the handler was ended by force
    error: BaseException | None = None  #: what the handler raised here, for the log
    started_at: float = 0.0  #: when its handler started; monotonic seconds
    seconds: float = 0.0  #: how long its handler ran
    timers: "tuple[asyncio.TimerHandle, ...]" = ()
    where: Any = None  #: the executor's own: the child or process that runs it

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
        """Release every resource; handlers that still run are left behind or killed."""
        ...
