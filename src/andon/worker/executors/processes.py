"""Runs handlers in child processes: they can be killed, and a crash costs one run.

Children are spawned (never forked), live on after a run, and are used again; as many as run at
once, of which up to `keep` stay while idle. A child does one run at a time. One that dies in a run
costs that run a try (`internal-error`), and another takes its place when needed.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from andon.lifecycle.commands import Command, Complete, Interrupted
from andon.model.errors import AndonError, ConfigurationError
from andon.model.text import storable
from andon.worker import outcomes
from andon.worker.control import Stopped
from andon.worker.environment import of_child, worker_environment
from andon.worker.executors import frames
from andon.worker.executors.base import Resolved, RunInHand
from andon.worker.executors.guard import Guard
from andon.worker.executors.killing import KILL_AFTER_S, signal_group, stop_group
from andon.worker.executors.lines import each_line

logger = logging.getLogger("andon.worker")

_CLOSE_S = 2.0
"""How long idle children may take to end by themselves."""

_MOST_CHILDREN = 3
"""Children tried for one run, should they die before they take it."""

_OUTPUT_S = 1.0
"""How long a run's end waits for the last of what it printed; a handler may close its streams."""

_BROKEN = (OSError, asyncio.IncompleteReadError, msgspec.DecodeError)
_DONE = object()


class _Died(Exception):
    """The child ended or broke the protocol. `begun`: in the middle of a run."""

    def __init__(self, how: str, *, begun: bool) -> None:
        super().__init__(how)
        self.begun = begun


class _Child:
    """One child process, and the run it has in hand."""

    def __init__(self, process: Process, guard: Guard) -> None:
        self._guard = guard
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.process = process
        self.run: RunInHand | None = None
        self.timer: asyncio.TimerHandle | None = None
        self._output_ended = asyncio.Event()
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
        except _BROKEN:
            how = f"it {await self._how()} while it imported {hello.app}"
            raise _Died(how, begun=True) from None

    async def carry_out(self, run: RunInHand, work: frames.Work) -> Command:
        """Do one run. Raises `_Died`."""
        self.run = run
        self._output_ended.clear()
        begun = False
        try:
            await self.send(work)
            while not isinstance(frame := await self.receive(), frames.Ended):
                begun = begun or isinstance(frame, frames.Begun)
                if isinstance(frame, frames.Keep):
                    await self.send(await _kept(run, frame))
                else:
                    self._handle(frame)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_OUTPUT_S):
                    await self._output_ended.wait()
            run.context.follow_ups = frame.follow_ups
            return frame.decode()
        except _BROKEN:
            raise _Died(f"it {await self._how()}", begun=begun) from None
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
        self._guard.release(self.process.pid)
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
            raise _Died(f"it could not import the application: {frame.message}", begun=True)
        if isinstance(frame, frames.Mark) and run is not None:
            if frame.percent is None:
                run.context.heartbeat()
            else:
                run.context.progress(frame.percent, frame.message)
        elif isinstance(frame, frames.Log):
            extra = run.context.log.extra if run is not None else None
            logging.getLogger(frame.logger).log(frame.level, "%s", frame.message, extra=extra)

    def _printed(self, line: str) -> None:
        line, mark, ended = line.partition(frames.END_OF_OUTPUT)
        run = self.run
        if line and run is not None:
            run.context.log.info("%s", line)
        elif line:
            logger.info("Child process %d: %s", self.process.pid, line)
        if mark and run is not None and ended == run.task.status.run:
            self._output_ended.set()


async def _kept(run: RunInHand, asked: frames.Keep) -> frames.Kept:
    """Keep a file that the child has; an error is sent to the handler."""
    try:
        artifact = await run.context.artifact(
            asked.name,
            Path(asked.path),
            content_type=asked.content_type,
            expires_in=asked.expires_in,
        )
    except Exception as error:  # an error of this artifact only; the child waits for an answer
        if isinstance(error, AndonError | OSError):
            return frames.Kept(error=storable(str(error)))
        logger.exception("An artifact of task %s cannot be kept.", run.context.task_id)
        return frames.Kept(error=storable(f"{type(error).__name__}: {error}"))
    return frames.Kept(artifact)


class ProcessExecutor:
    """A pool of child processes."""

    interrupts = True
    kills = True

    def __init__(
        self,
        *,
        app: str,
        max_payload: int,
        keep: int,
        pass_env: Sequence[str] = (),
        guard: Guard | None = None,
    ) -> None:
        """`app` is `module:attribute` of a registry, or of an object that has one. `pass_env`:
        variables that children are given though they are Andon's own."""
        self._pass_env = tuple(pass_env)
        self._guard = guard or Guard()
        self._hello = hello(app)
        self._max_payload = max_payload
        self._keep = keep
        self._idle: list[_Child] = []
        self._children: set[_Child] = set()
        self._closed = False

    async def execute(self, run: RunInHand) -> Any:
        for _ in range(_MOST_CHILDREN):
            try:
                command = await self._in_child(run)
                break
            except (_Died, OSError) as error:
                reason = run.context.stop_reason
                if reason:
                    raise Stopped(reason) from None
                if isinstance(error, _Died) and not error.begun:
                    continue  # killed while it was idle: that must not cost this run a try
                raise Resolved(outcomes.internal(f"The child process died: {error}.")) from None
        else:
            raise Resolved(outcomes.internal("Child processes die before they take a run."))
        if isinstance(command, Complete):
            return msgspec.Raw(command.result or b"null")
        if isinstance(command, Interrupted):
            raise Stopped(run.context.stop_reason or "cancel")
        raise Resolved(command)

    async def _in_child(self, run: RunInHand) -> Command:
        context = run.context
        run.where = None
        child = self._idle.pop() if self._idle else await self._spawn()
        run.where = child
        died = True
        try:
            if context.stop_reason:  # it was asked to stop while the child started
                died = False
                raise Stopped(context.stop_reason)
            work = frames.Work(
                task=run.handed,
                worker=context.worker,
                max_payload=self._max_payload,
                dependencies=dict(context.dependencies),
            )
            command = await child.carry_out(run, work)
            died = False
            return command
        finally:
            run.where = _DONE  # the child may have another run soon: never signal it for this one
            await self._put_back(child, died=died)

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
        children = list(self._children)
        self._children.clear()
        ends = await asyncio.gather(
            *(child.close(kill=child.run is not None) for child in children), return_exceptions=True
        )
        for child, end in zip(children, ends, strict=True):
            if isinstance(end, BaseException):
                logger.error("Child process %d was not closed: %r", child.process.pid, end)

    async def _spawn(self) -> _Child:
        variables = of_child(worker_environment(), self._pass_env)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "andon.worker.executors.child",
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env={**variables, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            start_new_session=True,  # a Ctrl-C at the terminal is the worker's to handle
        )
        self._guard.hold(process.pid)  # it does nothing before it is greeted
        child = _Child(process, self._guard)
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
