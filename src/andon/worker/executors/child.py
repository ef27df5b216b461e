"""A child process: imports the application once, then runs one handler after the other.

Frames come on stdin and go to stdout, both moved out of the handlers' reach first: what a handler
prints goes to stderr, which the worker logs. SIGTERM stops the handler in hand, not the child. A
child whose worker is gone ends at once, because its results would have no receiver.
"""

import asyncio
import contextlib
import importlib
import logging
import os
import queue
import runpy
import signal
import sys
import threading
from types import FrameType, ModuleType
from typing import Any, BinaryIO, cast

from andon.engine.base import Submission
from andon.lifecycle.commands import Command, Interrupted, UnknownTask
from andon.model.text import storable
from andon.worker import outcomes
from andon.worker.context import Context, running
from andon.worker.control import Stopped, control_in
from andon.worker.executors import frames
from andon.worker.executors.base import Resolved, RunInHand
from andon.worker.executors.childfiles import ChildFiles
from andon.worker.registry import Registry

MAIN = "__andon_main__"
"""Name under which the application's main file is run again: not `__main__`, so that its
`if __name__ == "__main__"` does not start another worker."""


class _Forward(logging.Handler):
    """Sends log records to the worker."""

    def __init__(self, outbox: "queue.SimpleQueue[bytes | None]") -> None:
        super().__init__()
        self._outbox = outbox

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = storable(self.format(record)[:65_536])
            frame = frames.Log(storable(record.name), record.levelno, message)
            self._outbox.put(frames.pack(frame))
        except Exception:
            self.handleError(record)


class Child:
    """The main thread runs handlers; one thread reads frames, one writes them.

    Frames are written by a thread of their own, so that the exception with which SIGTERM stops a
    handler can never cut one in half.
    """

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source = source
        self._sink = sink
        self._inbox: queue.SimpleQueue[frames.ToChild | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[frames.Kept] = queue.SimpleQueue()
        self._asking = threading.Lock()
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._writing = threading.Lock()
        self._context: Context | None = None
        self._interrupt = False  # whether SIGTERM may raise in the main thread now

    def run(self) -> None:
        """Serve until the worker closes the pipe."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the worker decides about shutdown
        signal.signal(signal.SIGTERM, self._on_term)
        threading.Thread(target=self._read, daemon=True).start()
        writer = threading.Thread(target=self._write, daemon=True)
        writer.start()
        hello = self._inbox.get()
        if isinstance(hello, frames.Hello):
            self._serve(hello)
        self._outbox.put(None)
        writer.join()

    def _serve(self, hello: frames.Hello) -> None:
        logging.root.addHandler(_Forward(self._outbox))
        logging.root.setLevel(hello.log_level)
        try:
            registry = load(hello)
        except BaseException as error:  # an application may call sys.exit while imported
            failure = outcomes.error_of(error)
            self._send(frames.Broken(f"{failure.type}: {failure.message}\n{failure.traceback}"))
            return
        self._send(frames.Ready())
        while isinstance(work := self._inbox.get(), frames.Work):
            self._write_now(frames.Begun())
            command = self._perform(registry, work)
            context, self._context = self._context, None
            _end_output(work.task.status.run)
            follow_ups = () if context is None else context.follow_ups
            self._outbox.put(_ended(command, follow_ups))

    def _perform(self, registry: Registry, work: frames.Work) -> Command:
        task = work.task
        kind = registry.route(task.definition.name, task.definition.version)
        if kind is None or kind.handler is None:
            return UnknownTask()
        context = Context(task, work.worker, self._mark, files=ChildFiles(self._ask))
        context.dependencies = work.dependencies
        run = RunInHand(context, task, task, kind, task.policy.on_shutdown)
        token = running.set(context)
        self._context = context
        try:
            args, kwargs = run.arguments()
            value = self._call(kind.handler, args, kwargs)
            return outcomes.completed(kind, value, work.max_payload)
        except Resolved as resolved:
            return resolved.command
        except BaseException as error:
            stopped = isinstance(control_in(error), Stopped | asyncio.CancelledError)
            if context.stop_reason and stopped:
                return Interrupted()
            return outcomes.raised(kind, task, error)
        finally:
            running.reset(token)

    def _call(self, handler: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            self._interrupt = True
            value = handler(*args, **kwargs)
        finally:
            self._interrupt = False
        return asyncio.run(self._await(value)) if asyncio.iscoroutine(value) else value

    async def _await(self, value: Any) -> Any:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        loop.add_signal_handler(signal.SIGTERM, self._cancel, task)
        try:
            return await value
        finally:
            loop.remove_signal_handler(signal.SIGTERM)
            signal.signal(signal.SIGTERM, self._on_term)

    def _cancel(self, task: "asyncio.Task[Any]") -> None:
        if self._context is not None:
            self._context.stop_reason = "cancel"
        task.cancel()

    def _on_term(self, number: int, frame: FrameType | None) -> None:
        context = self._context
        if context is None:
            return  # between runs: the run it was meant for has ended
        context.stop_reason = "cancel"
        if self._interrupt:
            self._interrupt = False  # once: the handler's own clean-up is not interrupted
            raise Stopped("cancel")

    def _mark(self, context: Context) -> None:
        context.unmark()
        self._send(frames.Mark(context.percent, context.message))

    def _ask(self, frame: frames.Keep) -> frames.Kept:
        with self._asking:
            self._send(frame)
            return self._answers.get()

    def _send(self, frame: Any) -> None:
        self._outbox.put(frames.pack(frame))

    def _write_now(self, frame: Any) -> None:
        """Write before anything else happens: a child that dies at once must have said this. No
        handler is in hand, so SIGTERM raises nothing that could cut the frame in half."""
        with self._writing:
            self._sink.write(frames.pack(frame))
            self._sink.flush()

    def _write(self) -> None:
        try:
            while (data := self._outbox.get()) is not None:
                with self._writing:
                    self._sink.write(data)
                    self._sink.flush()
        except OSError:
            os._exit(1)  # the worker is gone

    def _read(self) -> None:
        try:
            self._read_all()
        except BaseException:  # this thread alone notices the end of the worker
            logging.getLogger("andon.worker").exception("A frame could not be read.")
            os._exit(1)

    def _read_all(self) -> None:
        header = frames.HEADER
        while len(size := self._source.read(header.size)) == header.size:
            frame = frames.to_child.decode(self._source.read(header.unpack(size)[0]))
            if isinstance(frame, frames.Kept):
                self._answers.put(frame)
            else:
                self._inbox.put(frame)
        if self._context is not None:
            os._exit(1)  # the worker is gone: the result has no receiver
        self._inbox.put(None)


def _ended(command: Command, follow_ups: tuple[Submission, ...]) -> bytes:
    """The frame with which a run ends; its follow-ups may hold values that cannot be sent."""
    try:
        return frames.pack(frames.Ended.of(command, follow_ups))
    except (TypeError, ValueError, OverflowError) as error:
        return frames.pack(frames.Ended.of(outcomes.unwritten(command, error, of_value=True)))


def _end_output(run: str) -> None:
    """Mark where the run's output ends: it travels beside the frames, not in order with them."""
    with contextlib.suppress(
        OSError, ValueError, AttributeError
    ):  # a handler may close its streams
        sys.stdout.flush()
        sys.stderr.flush()
    with contextlib.suppress(OSError):
        os.write(2, f"{frames.END_OF_OUTPUT}{run}\n".encode())


def load(hello: frames.Hello) -> Registry:
    """The application's registry, found by import.

    Raises what the import raises, and `TypeError` when there is no registry at the place named.
    """
    sys.path[:] = hello.path
    module_name, _, attribute = hello.app.partition(":")
    if hello.main:
        module = ModuleType(MAIN)
        sys.modules[MAIN] = sys.modules["__main__"] = module
        module.__dict__.update(runpy.run_path(hello.main, run_name=MAIN))
    else:
        module = importlib.import_module(module_name)
    found: Any = module
    for part in attribute.split("."):
        found = getattr(found, part)
    return registry_of(found, hello.app)


def registry_of(found: Any, app: str) -> Registry:
    """The registry that `found` is or has."""
    registry = found if isinstance(found, Registry) else getattr(found, "registry", None)
    if not isinstance(registry, Registry):
        raise TypeError(f"{app!r} is a {type(found).__name__} without a registry of tasks.")
    return registry


def main() -> None:
    """Entry point of the child process."""
    source = os.fdopen(os.dup(0), "rb")
    sink = os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    Child(cast("BinaryIO", source), cast("BinaryIO", sink)).run()


if __name__ == "__main__":
    main()
