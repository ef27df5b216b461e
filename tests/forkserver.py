"""A server that forks processes of `andon` for the tests.

A test that starts a worker or a service would wait for half a second of imports, thousands of times
in a run of the suite. So each test process has one process that has imported everything, and forks:
what comes out is a real process with its own id, environment, folder, signals and exit status, and
it runs `python -m andon.cli`, or a program of the tests, from the beginning. Linux only; elsewhere
both are started anew.

The server dies with the test process, and what it forked dies with the server.
"""

import atexit
import contextlib
import ctypes
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NamedTuple

from launching import launch

IS_SUPPORTED = sys.platform == "linux"

MODULE = "andon.cli"

PRELOADED = (
    "andon.cli.root",
    "andon.cli.worker",
    "andon.cli.serve",
    "andon.service.server",
    "andon.worker.worker",
    "andon.stores.sqlite",
    "andon.stores.redis",
    "andon.stores.postgres",
    "andon.stores.nats",
)
"""What most processes import in the end."""

_MOST = 1 << 20
"""Bytes of a request: arguments and an environment."""

_PR_SET_PDEATHSIG = 1


class Forked:
    """A process that was forked, used like `subprocess.Popen` where its output goes to files."""

    def __init__(self, args: Sequence[str], pid: int, status: int) -> None:
        self.args = list(args)
        self.pid = pid
        self.returncode: int | None = None
        self._status = status
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """The exit status, None while it runs."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """The exit status, once there is one. Raises `subprocess.TimeoutExpired`."""
        status = self._look(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has, and we are about to be told
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM, unless it has ended."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL, unless it has ended."""
        self.send_signal(signal.SIGKILL)

    def _look(self, timeout: float | None) -> int | None:
        with self._lock:
            if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
                told = os.read(self._status, 32)
                os.close(self._status)
                # Nothing at all: the server was killed, and what it forked with it.
                self.returncode = int(told) if told else -signal.SIGKILL
            return self.returncode


class ForkServer:
    """The server of this test process, started when something is first to be forked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: socket.socket | None = None

    def start(
        self,
        program: str,
        arguments: Sequence[str],
        *,
        cwd: str | os.PathLike[str],
        env: Mapping[str, str],
        streams: Sequence[int],
    ) -> Forked:
        """Run a program with these arguments: the file of that path, or `python -m andon.cli` if
        it is empty. `streams` are what it reads, what it prints, and where it complains. It is
        killed when this process has ended."""
        request = json.dumps([program, list(arguments), os.fspath(cwd), dict(env)]).encode()
        mine, theirs = os.pipe()
        try:
            with self._lock:
                control = self._control = self._control or self._start_server()
                socket.send_fds(control, [request], [*streams, theirs])
                answer = control.recv(32)
        finally:
            os.close(theirs)
        assert answer, "the fork server has ended"
        return Forked([program or MODULE, *arguments], int(answer), mine)

    def _start_server(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST)
        with theirs:
            server = launch(
                [sys.executable, Path(__file__), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )

        def stop() -> None:
            ours.close()
            server.wait()

        atexit.register(stop)
        return ours


_forks = ForkServer()


def start(
    arguments: Sequence[str],
    *,
    cwd: str | os.PathLike[str],
    env: Mapping[str, str],
    output: IO[Any],
) -> "Forked | subprocess.Popen[Any]":
    """`python -m andon.cli` in a process of its own, forked where that can be had; what it prints
    goes to a file, and there is nothing for it to read."""
    if IS_SUPPORTED:
        with Path(os.devnull).open("rb") as nothing:
            streams = (nothing.fileno(), output.fileno(), output.fileno())
            return _forks.start("", arguments, cwd=cwd, env=env, streams=streams)
    return launch(
        [sys.executable, "-m", MODULE, *arguments],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
    )


def start_program(
    program: Path,
    arguments: Sequence[str],
    *,
    env: Mapping[str, str],
    streams: tuple[int, int, int],
) -> "Forked | subprocess.Popen[Any]":
    """A Python program in a process of its own, forked where that can be had. `streams` are what
    it reads, what it prints, and where it complains."""
    if IS_SUPPORTED:
        return _forks.start(str(program), arguments, cwd=Path.cwd(), env=env, streams=streams)
    reads, prints, complains = streams
    return launch(
        [sys.executable, program, *arguments],
        env=env,
        stdin=reads,
        stdout=prints,
        stderr=complains,
    )


class Request(NamedTuple):
    """A process to be forked."""

    program: str
    arguments: list[str]
    cwd: str
    env: dict[str, str]
    reads: int
    prints: int
    complains: int
    status: int


def _serve(control: socket.socket) -> Request:
    """Fork until the test process is gone, which ends this one, too. Returns in what is forked."""
    children: dict[int, int] = {}
    woken, waker = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    own = os.getpid()
    while True:
        ready, _, _ = select.select([control, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _report_ended(children)
        if control not in ready:
            continue
        message, fds, _, _ = socket.recv_fds(control, _MOST, 4)
        if not message:
            os._exit(0)
        request = Request(*json.loads(message), *fds)
        pid = os.fork()
        if pid == 0:
            control.detach()  # its number is going to be somebody else's
            _settle(request, own)
            return request
        children[pid] = request.status
        for stream in (request.reads, request.prints, request.complains):
            os.close(stream)
        control.send(str(pid).encode())


def _report_ended(children: dict[int, int]) -> None:
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        end = children.pop(pid)
        os.write(end, str(os.waitstatus_to_exitcode(status)).encode())
        os.close(end)


def _settle(request: Request, parent: int) -> None:
    """Become what a process is that was just started."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    for number, stream in enumerate((request.reads, request.prints, request.complains)):
        os.dup2(stream, number)
    os.closerange(3, max(int(fd.name) for fd in Path("/proc/self/fd").iterdir()) + 1)
    os.chdir(request.cwd)
    os.environ.clear()
    os.environ.update(request.env)
    named = request.env.get("PYTHONPATH", "").split(os.pathsep)
    first = str(Path(request.program).parent) if request.program else request.cwd
    sys.path[:0] = [first, *filter(None, named)]
    sys.argv[:] = [request.program or sys.argv[0], *request.arguments]


def main() -> None:
    """Import everything, fork on demand, and run what was asked for in what was forked."""
    control = socket.socket(fileno=int(sys.argv[1]))
    # As for a program that is started: neither this file's folder nor what the tests had named.
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [path for path in sys.path[1:] if path not in named]
    for module in PRELOADED:
        import_module(module)
    import_module("andon.service.app").routed()  # what every service begins with
    gc.collect()
    gc.freeze()
    assert threading.active_count() == 1, "threads do not survive a fork"
    request = _serve(control)
    if request.program:
        runpy.run_path(request.program, run_name="__main__")
    else:
        runpy.run_module(MODULE, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
