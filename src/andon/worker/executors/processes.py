"""Handlers in child processes: truly killed when they must end, and a crash costs one run.

Children are spawned (never forked), live on after a run, and are used again; as many as run at
once, of which up to `keep` stay while idle. A child does one run at a time. One that dies in a run
costs that run a try (`internal-error`), and another takes its place when needed.
"""

import asyncio
import logging
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from typing import Any

import msgspec

from andon.lifecycle.commands import Command, Complete, Interrupted
from andon.model.errors import ConfigurationError
from andon.worker import outcomes
from andon.worker.context import Stopped
from andon.worker.executors import frames
from andon.worker.executors.base import Resolved, RunInHand
from andon.worker.executors.killing import KILL_AFTER_S, signal_group, stop_group
from andon.worker.executors.lines import each_line

logger = logging.getLogger("andon.worker")

_CLOSE_S = 2.0
"""How long idle children may take to end by themselves."""

_DONE = object()


class _Died(Exception):
    """The child ended, or broke the protocol, in the middle of a run."""


class _Child:
    """One child process, and the run it has in hand."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.process = process
        self.run: RunInHand | None = None
        self.timer: asyncio.TimerHandle | None = None
        self._writer = process.stdin
        self._reader = process.stdout
        self._output = asyncio.ensure_future(each_line(process.stderr, self._printed))

    async def send(self, frame: Any) -> None:
        self._writer.write(frames.pack(frame))
        await self._writer.drain()

    async def receive(self) -> Any:
        header = frames.HEADER
        (size,) = header.unpack(await self._reader.readexactly(header.size))
        return frames.to_parent.decode(await self._reader.readexactly(size))

    async def greet(self, hello: frames.Hello) -> None:
        """Wait until the child has imported the application. Raises `_Died`."""
        try:
            await self.send(hello)
            while not isinstance(frame := await self.receive(), frames.Ready):
                self._handle(frame)
        except (OSError, asyncio.IncompleteReadError, msgspec.DecodeError):
            raise _Died(f"it {await self._how()} while it imported {hello.app}") from None

    async def carry_out(self, run: RunInHand, work: frames.Work) -> Command:
        """Do one run. Raises `_Died`."""
        self.run = run
        try:
            await self.send(work)
            while not isinstance(frame := await self.receive(), frames.Ended):
                self._handle(frame)
            return frame.decode()
        except (OSError, asyncio.IncompleteReadError, msgspec.DecodeError):
            raise _Died(f"it {await self._how()}") from None
        finally:
            self.run = None
            if self.timer is not None:
                self.timer.cancel()
                self.timer = None

    async def close(self, *, kill: bool) -> None:
        """End the child: by closing its pipe, or by force."""
        if kill:
            signal_group(self.process.pid, signal.SIGKILL)
        self._writer.close()
        try:
            await asyncio.wait_for(self.process.wait(), _CLOSE_S)
        except TimeoutError:
            signal_group(self.process.pid, signal.SIGKILL)
            await self.process.wait()
        await asyncio.wait((self._output,), timeout=_CLOSE_S)
        self._output.cancel()
        await asyncio.gather(self._output, return_exceptions=True)

    async def _how(self) -> str:
        signal_group(self.process.pid, signal.SIGKILL)  # one that broke the protocol still lives
        status = await self.process.wait()
        if status < 0:
            return f"was killed by {signal.Signals(-status).name}"
        return f"ended with status {status}"

    def _handle(self, frame: Any) -> None:
        run = self.run
        if isinstance(frame, frames.Broken):
            raise _Died(f"it could not import the application: {frame.message}")
        if isinstance(frame, frames.Mark) and run is not None:
            if frame.percent is None:
                run.context.heartbeat()
            else:
                run.context.progress(frame.percent, frame.message)
        elif isinstance(frame, frames.Log):
            extra = run.context.log.extra if run is not None else None
            logging.getLogger(frame.logger).log(frame.level, "%s", frame.message, extra=extra)

    def _printed(self, line: str) -> None:
        if self.run is not None:
            self.run.context.log.info("%s", line)
        else:
            logger.info("Child process %d: %s", self.process.pid, line)


class ProcessExecutor:
    """A pool of child processes."""

    interrupts = True
    kills = True

    def __init__(self, *, app: str, max_payload: int, keep: int) -> None:
        """`app` is `module:attribute` of a registry, or of an object that has one."""
        self._hello = hello(app)
        self._max_payload = max_payload
        self._keep = keep
        self._idle: list[_Child] = []
        self._children: set[_Child] = set()
        self._dead: set[asyncio.Future[None]] = set()
        self._closed = False

    async def execute(self, run: RunInHand) -> Any:
        context = run.context
        try:
            child = self._take_idle() or await self._spawn()
        except (_Died, OSError) as error:
            raise Resolved(outcomes.internal(f"No child process: {error}.")) from None
        run.where = child
        work = frames.Work(
            task=run.task,
            worker=context.worker,
            max_payload=self._max_payload,
            dependencies=dict(context.dependencies),
        )
        died = True
        try:
            if context.stop_reason:  # told while the child was being started
                died = False
                raise Stopped(context.stop_reason)
            command = await child.carry_out(run, work)
            died = False
        except _Died as error:
            if context.stop_reason:
                raise Stopped(context.stop_reason) from None
            raise Resolved(outcomes.internal(f"The child process died: {error}.")) from None
        finally:
            run.where = _DONE  # the child may have another run soon: never signal it for this one
            await self._put_back(child, died=died)
        if isinstance(command, Complete):
            return msgspec.Raw(command.result or b"null")
        if isinstance(command, Interrupted):
            raise Stopped(context.stop_reason or "cancel")
        raise Resolved(command)

    def stop(self, run: RunInHand) -> None:
        child = run.where
        if child is None and run.handle is not None:
            run.handle.cancel()  # the child is still being started
        if not isinstance(child, _Child):
            return

        def killed() -> None:
            run.killed = True

        within = min(KILL_AFTER_S, run.task.policy.cancel_grace)
        child.timer = stop_group(child.process.pid, within=within, killed=killed)

    async def close(self) -> None:
        self._closed = True
        self._idle.clear()
        closing = [child.close(kill=child.run is not None) for child in self._children]
        await asyncio.gather(*closing, *self._dead)
        self._children.clear()

    def _take_idle(self) -> _Child | None:
        """A child that waits and lives: one killed while idle must not cost a run a try."""
        while self._idle:
            child = self._idle.pop()
            if child.process.returncode is None:
                return child
            self._children.discard(child)
            closing = asyncio.ensure_future(child.close(kill=False))
            self._dead.add(closing)
            closing.add_done_callback(self._dead.discard)
        return None

    async def _spawn(self) -> _Child:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "andon.worker.executors.child",
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            start_new_session=True,  # a Ctrl-C at the terminal is the worker's to handle
        )
        child = _Child(process)
        self._children.add(child)
        try:
            await child.greet(self._hello)
        except BaseException:
            self._children.discard(child)
            await child.close(kill=True)
            raise
        return child

    async def _put_back(self, child: _Child, *, died: bool) -> None:
        if died or self._closed or len(self._idle) >= self._keep:
            self._children.discard(child)
            await child.close(kill=died)
        else:
            self._idle.append(child)


def hello(app: str) -> frames.Hello:
    """The first frame to a child that is to import `app`.

    Raises `ConfigurationError` where a child could not import it.
    """
    module, _, attribute = app.partition(":")
    if not module or not attribute:
        raise ConfigurationError(
            f"Handlers in child processes need the place of your application, as "
            f"module:attribute, not {app!r}: a child imports it for itself."
        )
    main = ""
    if module == "__main__":
        script = sys.modules["__main__"]
        spec = getattr(script, "__spec__", None)
        main = "" if spec is not None else getattr(script, "__file__", None) or ""
        if spec is not None:
            app = f"{spec.name}:{attribute}"
        elif not main:
            raise ConfigurationError(
                "Handlers in child processes cannot live in an interactive session; "
                "put them into a module."
            )
    level = logging.getLogger().getEffectiveLevel()
    main = os.path.abspath(main) if main else ""  # noqa: PTH100
    return frames.Hello(app=app, path=list(sys.path), main=main, log_level=level)
