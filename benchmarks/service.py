"""The section on the service: `andon serve` in a process of its own, under load from others.

Every round has a store, a service and a server with the framework's empty route of its own, and
measures every row once. The empty route is asked in turn with the rest, so that the share of it
that a submit reaches is of the same minutes. Counts are checked in the store.
"""

import argparse
import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import store_servers

from andon.client.app import Andon

HERE = Path(__file__).resolve().parent
APP = HERE / "service_app.py"
CONNECTIONS = 100
"""Of the single submits and of the empty route, as many as callers in the rows of the stores."""

LOAD_CONNECTIONS = 32
"""Of the submits that go on beside something else."""

BULK = 500
PATIENCE_S = 120.0

Outcomes = dict[str, list[dict[str, Any]]]
"""Of each row, what each round measured."""


class Counts(Exception):
    """A measurement whose counts do not add up."""


class Child:
    """A process of this run, ended with it, and what it uses."""

    def __init__(
        self,
        *command: str,
        url: str = "",
        talks: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        pipe = subprocess.PIPE if talks else subprocess.DEVNULL
        self.process = psutil.Popen(
            [sys.executable, *command],
            stdin=pipe,
            stdout=pipe,
            text=True,
            cwd=HERE,
            env={
                **psutil.Process().environ(),
                **({"ANDON_URL": url} if url else {}),
                **(environment or {}),
            },
        )

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except psutil.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)

    def cpu_s(self) -> float:
        """Seconds of CPU so far."""
        times = self.process.cpu_times()
        return times.user + times.system

    def memory_mb(self) -> float:
        """Resident."""
        return self.process.memory_info().rss / 1e6


def free_port() -> int:
    """A loopback port that nobody has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def listening(
    *command: str, port: int, url: str = "", environment: Mapping[str, str] | None = None
) -> Iterator[Child]:
    """A process of this run from when it listens on."""
    with Child(*command, url=url, environment=environment) as child:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if child.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{command} does not listen.") from None
                time.sleep(0.05)
        yield child


def _load(*words: object) -> dict[str, Any]:
    """What the load generator says."""
    command = [sys.executable, str(HERE / "service_load.py"), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{words[:3]}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


class _Run:
    """One store behind one service, beside the empty route."""

    def __init__(self, store: str, ports: tuple[int, int], service: Child, empty: Child) -> None:
        self.store = store
        self.host, self.empty_host = (f"127.0.0.1:{port}" for port in ports)
        self.service, self.empty = service, empty
        self.stored = 0
        self.outcomes: Outcomes = {}

    def keep(self, name: str, outcome: dict[str, Any], **expected: int) -> dict[str, Any]:
        """Keep an outcome whose statuses are all as they should be."""
        statuses = {str(k): v for k, v in outcome.get("statuses", {}).items()}
        wanted = {status.lstrip("s"): count for status, count in expected.items()}
        if statuses != wanted:
            raise Counts(f"{name}: {statuses}, not {wanted}.")
        self.outcomes.setdefault(name, []).append(outcome)
        figures = ", ".join(f"{k} {v:,.1f}" for k, v in outcome.items() if k != "statuses")
        print(f"  {name:22s} {figures}", flush=True)
        return outcome

    def measured(self, child: Child, requests: int, *words: object) -> dict[str, Any]:
        """A load, with the server's CPU for each request."""
        before = child.cpu_s()
        told = _load(*words)
        told["cpu_us"] = (child.cpu_s() - before) / requests * 1e6
        return told

    def count(self) -> int:
        """Tasks in the store, asked past the service."""

        async def ask() -> int:
            async with Andon(self.store) as app:
                return sum(
                    sum(queue.counts.values()) for queue in await (await app.engine()).stats()
                )

        return asyncio.run(ask())

    def check(self, name: str) -> None:
        """All that was submitted is stored, no more and no less."""
        if (found := self.count()) != self.stored:
            raise Counts(f"{name}: {found:,} tasks are stored, not {self.stored:,}.")

    def singles(self, n: int) -> None:
        body = '{"name":"noop","args":[1],"queue":"singles"}'
        for over, how in ((CONNECTIONS, ""), (LOAD_CONNECTIONS, ", fewer connections")):
            told = self.measured(self.empty, n, "get", self.empty_host, "/empty", "-", over, n)
            self.keep(f"empty route{how}", told, s200=n)
            words = ("post", self.host, "/api/v1/tasks", body, over, n)
            told = self.measured(self.service, n, *words)
            self.keep(f"single submits{how}", told, s201=n)
            self.stored += n
            self.check("single submits")
        told = self.measured(self.empty, n, "post", self.empty_host, "/empty", body, CONNECTIONS, n)
        self.keep("empty route, same body", told, s201=n)

    def bulk(self, n: int, folder: Path) -> None:
        file = folder / "bulk.json"
        tasks = [{"name": "noop", "args": [number], "queue": "bulk"} for number in range(BULK)]
        file.write_text(json.dumps({"tasks": tasks}), encoding="utf-8")
        requests = n // BULK
        told = self.measured(
            self.service, n, "post", self.host, "/api/v1/bulk", f"@{file}", 4, requests
        )
        told["rate"] *= BULK
        self.keep("bulk submit", told, s200=requests)
        self.stored += n
        self.check("bulk submit")

    def reads(self, n: int) -> None:
        """One task is asked for 100 times a second while single submits come as fast as can be."""
        body = '{"name":"noop","args":[1],"queue":"reads"}'
        name = f"read-{self.stored}"
        one = json.dumps({"name": "noop", "args": [1], "queue": "reads", "id": name})
        self.keep("the task to get", _load("post", self.host, "/api/v1/tasks", one, 1, 1), s201=1)
        path = f"/api/v1/tasks/{name}"
        words = ["post", self.host, "/api/v1/tasks", body, LOAD_CONNECTIONS, n]
        with Child(str(HERE / "service_load.py"), *map(str, words), talks=True) as load:
            time.sleep(0.3)
            # Shorter than the load, which goes on until the last answer.
            told = _load("paced", self.host, path, "-", 100, max(0.5, n / 6000))
            under_load = load.process.poll() is None
            said, _ = load.process.communicate(timeout=PATIENCE_S)
        loaded = json.loads(said)
        told["under_load"] = float(under_load)
        told["submits_rate"] = loaded["rate"]
        if loaded["statuses"] != {"201": n}:
            raise Counts(f"submits beside reads: {loaded['statuses']}")
        self.keep("GET under load", told, s200=sum(told["statuses"].values()))
        self.stored += n + 1
        self.check("GET under load")

    def streams(self, streams: int, events: int, load: int) -> None:
        """Streams of one queue; single submits to another come as fast as can be."""
        body = '{"name":"noop","args":[1],"queue":"watched"}'
        other = '{"name":"noop","args":[1],"queue":"unwatched"}'
        path = "/api/v1/events/stream?queue=watched"
        _load("post", self.host, "/api/v1/tasks", body, 1, 1)
        self.stored += 1
        before = self.service.memory_mb()
        words = ["streams", self.host, path, body, streams, events]
        with Child(str(HERE / "service_load.py"), *map(str, words), talks=True) as child:
            if child.process.stdout.readline().strip() != "open":
                raise RuntimeError("The streams could not be opened.")
            grown = self.service.memory_mb() - before
            more: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
            if load:
                words = ["post", self.host, "/api/v1/tasks", other, LOAD_CONNECTIONS, load]
                more = Child(str(HERE / "service_load.py"), *map(str, words), talks=True)
            with more as loading:
                if load:
                    time.sleep(0.3)
                said, _ = child.process.communicate("go\n", timeout=PATIENCE_S)
                if loading is not None:
                    loaded = json.loads(loading.process.communicate(timeout=PATIENCE_S)[0])
                    if loaded["statuses"] != {"201": load}:
                        raise Counts(f"submits beside streams: {loaded['statuses']}")
        told = json.loads(said)
        told |= {"memory_mb": grown, "streams": streams}
        if told["moves"] != streams * events:
            raise Counts(f"streams: {told['moves']:,} moves, not {streams * events:,}.")
        self.keep("streams under load" if load else "streams", told)
        self.stored += events + load
        self.check("streams")

    def drain(self) -> None:
        """Everything stored, by one worker process that knows the service alone."""
        tasks = self.stored

        async def completed(app: Andon) -> int:
            stats = await (await app.engine()).stats()
            return sum(q.counts.get("completed", 0) for q in stats)

        async def watch() -> dict[str, float]:
            async with Andon(self.store) as app:
                deadline = time.monotonic() + PATIENCE_S
                # From when it has begun: a process takes its time to start.
                while not (begun_at := await completed(app)):
                    await asyncio.sleep(0.02)
                    if time.monotonic() > deadline:
                        raise Counts("drain: the worker runs nothing.")
                begun = time.perf_counter()
                while (done := await completed(app)) < tasks:
                    await asyncio.sleep(0.05)
                    if time.monotonic() > deadline:
                        raise Counts(f"drain: {done:,} of {tasks:,} are completed.")
                return {"rate": (tasks - begun_at) / (time.perf_counter() - begun)}

        command = ("-m", "andon.cli", "worker", str(APP), "--quiet", "--no-timekeeper")
        url = f"http://{self.host}"
        cpu = self.service.cpu_s()
        with Child(*command, "--concurrency", "500", url=url) as worker:
            told = asyncio.run(watch())
            told["cpu_us"] = (self.service.cpu_s() - cpu) / tasks * 1e6
            told["worker_cpu_us"] = worker.cpu_s() / tasks * 1e6
            told["tasks"] = tasks
        self.keep("drain, remote worker", told)


def _one(store: str, sizes: dict[str, int], folder: Path) -> Outcomes:
    """One round on an empty store."""
    ports = free_port(), free_port()
    serve = ("-m", "andon.cli", "serve", str(APP), "--port", str(ports[0]), "--quiet")
    with (
        listening(*serve, port=ports[0], url=store) as service,
        listening(str(APP), str(ports[1]), port=ports[1]) as empty,
    ):
        run = _Run(store, ports, service, empty)
        run.singles(sizes["warm"])
        run.outcomes.clear()
        run.singles(sizes["singles"])
        run.bulk(sizes["bulk"], folder)
        run.reads(sizes["reads"])
        run.streams(sizes["streams"], sizes["events"], 0)
        run.streams(sizes["streams"], sizes["events"], sizes["beside"])
        run.drain()
        return run.outcomes


def _rounds(empty: Callable[[int], str], sizes: dict[str, int], folder: Path) -> Outcomes:
    """All rounds. `empty` gives the URL of an empty store, by the number of the round."""
    together: Outcomes = {}
    for number in range(1, sizes["rounds"] + 1):
        print(f" round {number} of {sizes['rounds']}", flush=True)
        for name, outcomes in _one(empty(number), sizes, folder).items():
            together.setdefault(name, []).extend(outcomes)
    return together


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    """All rows, on each store that can be had."""
    sizes = {
        "rounds": asked.rounds or 5,
        "warm": 2_000,
        "singles": 10_000,
        "bulk": 50_000,
        "reads": 30_000,
        "streams": 2_000,
        "events": 20,
        "beside": 20_000,
    }
    if asked.quick:
        sizes |= {
            "rounds": asked.rounds or 1,
            "warm": 200,
            "singles": 1_000,
            "bulk": 5_000,
            "reads": 4_000,
        }
        sizes |= {"streams": 200, "events": 5, "beside": 1_000}
    outcomes: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="andon-bench-service-") as name:
        folder = Path(name)
        print("SQLite")
        outcomes["SQLite"] = _rounds(lambda n: f"sqlite:///{folder}/tasks{n}.db", sizes, folder)
        about = {"SQLite": "synchronous=full"}
        try:
            with store_servers.running("redis") as server:
                print("Redis")

                def emptied(_: int) -> str:
                    store_servers.empty(server.url)
                    return server.namespace("service")

                outcomes["Redis"] = _rounds(emptied, sizes, folder)
                about["Redis"] = server.about
        except FileNotFoundError as error:
            print(f"Not on Redis: {error}")
    return {"outcomes": outcomes, "sizes": sizes, "about": about}
