"""The servers that both sides are measured on, each the same for all: started, emptied, asked.

    python benchmarks/store_servers.py empty URL      forget everything stored
    python benchmarks/store_servers.py work URL       print how much work the server has done so far

Run as a command because a peer's environment lacks what it takes to talk to every server.
"""

import asyncio
import atexit
import json
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

TESTS = Path(__file__).resolve().parent.parent / "tests"

UNIT = {"redis": "commands", "postgres": "transactions", "nats": "messages"}
"""What a server's work is counted in."""

DATABASE = "bench"

LOG_MB = 1024
"""Log that PostgreSQL keeps to write over: what one side writes between two checkpoints, several
times."""


class Started:
    """A server of this run."""

    def __init__(self, kind: str, url: str, about: str, pid: int) -> None:
        self.kind = kind
        self.pid = pid
        self.url = url  #: as peers take it, without anything of Andon's own
        self.about = about  #: version and durability, in words

    def namespace(self, name: str) -> str:
        """Andon's URL for a namespace there."""
        return f"{self.url}{'&' if '?' in self.url else '?'}namespace={name}"


class Server(Protocol):
    """What the tests' servers have in common (tests/servers)."""

    port: int

    @property
    def pid(self) -> int: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...


@contextmanager
def running(kind: str, under: Sequence[str] = (), *, kept: Path | None = None) -> Iterator[Started]:
    """A fresh server of that kind, as the tests start it, stopped at the end whatever happens. It
    runs under the command `under`, such as valgrind, if one is given; only Redis's can. With a
    folder `kept`, its data is there and stays; what is there already is what it has."""
    sys.path.insert(0, str(TESTS))
    make = {"redis": _redis, "postgres": _postgres, "nats": _nats}[kind]
    with tempfile.TemporaryDirectory(prefix=f"andon-bench-{kind}-") as temporary:
        folder = Path(temporary) if kept is None else kept
        is_new = not folder.is_dir() or not any(folder.iterdir())
        folder.mkdir(parents=True, exist_ok=True)
        server, url, about = make(folder)
        if under:
            _put_redis_under(under)
        server.start()
        try:
            started = Started(kind, url.format(server=server), about, server.pid)
            if is_new:
                empty(started.url)
            if is_new and kind == "postgres":
                _warm_postgres(started.url)
            yield started
        finally:
            server.stop()


def _put_redis_under(under: Sequence[str]) -> None:
    """Let a program stand for the server's that runs it under that command."""
    from servers import redis

    program = redis.binary()
    folder = Path(tempfile.mkdtemp(prefix="andon-under-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    script = folder / program.name
    script.write_text(f'#!/bin/sh\nexec {shlex.join([*under, str(program)])} "$@"\n')
    script.chmod(0o755)
    redis.binary = lambda: script


def _version(program: Path | str, after: str) -> str:
    said = subprocess.run([program, "--version"], check=True, capture_output=True, text=True)
    return said.stdout.partition(after)[2].split()[0]


# --- Redis ---


def _redis(folder: Path) -> tuple[Server, str, str]:
    from servers import redis

    # The newer of the one on PATH and the wheel's, which some peers find too old.
    found = {str(redis.binary()), shutil.which("redis-server") or str(redis.binary())}
    versions = {program: _version(program, "v=") for program in found}
    newest = max(found, key=lambda program: tuple(map(int, versions[program].split("."))))
    redis.binary = lambda: Path(newest)
    (folder / "data" / "redis.conf").unlink(missing_ok=True)  # a kept one names an older port
    redis.PATIENCE_S = 600.0  # a large log is read at the start
    # No rewriting of the log: it would come in the middle of one side's measurement.
    server = redis.RedisServer(
        folder / "data", appendfsync="everysec", settings=["auto-aof-rewrite-percentage 0"]
    )
    about = f"Redis {versions[newest]}, appendonly with appendfsync everysec"
    return server, "redis://127.0.0.1:{server.port}/0", about


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


def commands(url: str) -> int:
    """Commands that a Redis server has run so far, those within scripts too."""
    told = _ask_redis(url, "INFO", "commandstats").decode()
    return sum(int(found) for found in re.findall(r"calls=(\d+)", told))


# --- PostgreSQL ---


def _postgres(folder: Path) -> tuple[Server, str, str]:
    from servers import postgres

    settings = {
        "max_connections": "200",
        "shared_buffers": "256MB",
        "min_wal_size": f"{LOG_MB}MB",
        "max_wal_size": "4GB",
    }
    server = postgres.PostgresServer(folder, settings=settings)
    version = _version(postgres.binaries() / "postgres", "(PostgreSQL) ")
    about = (
        f"PostgreSQL {version}, synchronous_commit and fsync on, shared_buffers 256 MB, "
        f"max_wal_size 4 GB, {LOG_MB} MB of log that were written once before"
    )
    return server, f"postgresql://postgres@127.0.0.1:{{server.port}}/{DATABASE}", about


def _warm_postgres(url: str) -> None:
    """Write so much log once. A server that has run for a while writes its log over files that it
    used before; a new one makes each of them, 16 MB of zeros, while somebody waits."""
    message = "pg_logical_emit_message(false, 'warm', repeat('x', 1000000))"
    _in_postgres(url, f"SELECT count({message}) FROM generate_series(1, {LOG_MB})", "CHECKPOINT")


def _in_postgres(url: str, *statements: str, database: str = "postgres") -> Any:
    """Run statements; the only value of the last. In another database if none is named, so that
    this one's counters are not ours."""
    import asyncpg

    async def run() -> Any:
        where = urlsplit(url)._replace(path=f"/{database}", query="").geturl()
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


def _nats(folder: Path) -> tuple[Server, str, str]:
    from servers import nats

    server = nats.NatsServer(folder)
    server.monitor = _watched_at(server.port)
    about = (
        f"NATS {_version(nats.binary(), ' v')}, one node, JetStream on files, synced every 2 min "
        "as it is by itself"
    )
    return server, "nats://127.0.0.1:{server.port}", about


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


def settle(kind: str, url: str) -> None:
    """Let a server that was just filled do at once what it would do in the hours after."""
    if kind == "redis":
        _ask_redis(url, "BGREWRITEAOF")
        while b"aof_rewrite_in_progress:1" in _ask_redis(url, "INFO", "persistence"):
            time.sleep(0.5)
    elif kind == "postgres":
        _in_postgres(url, "VACUUM ANALYZE", "CHECKPOINT", database=urlsplit(url).path[1:])


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
