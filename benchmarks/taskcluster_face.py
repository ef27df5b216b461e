"""The Taskcluster face of `andon serve`, beside the bars that it is held to.

    python benchmarks/taskcluster_face.py [--store sqlite] [--rounds N] [--quick]

Every round has an empty store and a service of its own, which asks everybody to sign (Hawk), as it
does off loopback. The load comes from processes of its own (`taskcluster_load.py`) on the same
cores: createTask, signed beforehand, over kept connections; claimWork and reportCompleted by 50
workers, the latter with the credentials of each claim; claims that wait, and are woken one by one;
a group whose tasks all depend on one, and its pages; a file sent to a signed URL and fetched from
one, with the memory that this takes the service, beyond what it had before.

Every answer's status is checked, tasks are counted in the store, rows and their ids in the pages,
and the file's bytes by their digest. Figures are medians of the rounds, the smallest and the
largest in brackets. `--quick` takes fewer of everything: it says whether all of this works, and
whether something is grossly off. On a machine that has something else to do, times say little; its
load is printed.
"""

import argparse
import asyncio
import hashlib
import json
import os
import resource
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import store_servers
from service import APP, HERE, Child, Counts, free_port, listening
from taskcluster_load import BASE, Credentials, Host, definition, slugid

from andon.client.app import Andon
from andon.engine.opening import open_store
from andon.service.taskcluster.trust.registry import ClientRegistry

LOADS = 2
"""Processes that the load comes from."""

BLOCK = os.urandom(1 << 20)

Figures = dict[str, float]


class Bar(NamedTuple):
    """What a figure is held to."""

    text: str
    at_least: float | None = None
    at_most: float | None = None

    def __str__(self) -> str:
        if self.at_least is not None:
            return f">= {self.at_least:,g}"
        return "" if self.at_most is None else f"<= {self.at_most:,g}"


BARS = {
    "create": Bar("createTask, /s", at_least=3_000),
    "create_p99": Bar("the same, p99, ms"),
    "create_cpu": Bar("the same, processor time of the service, us each"),
    "create_load": Bar("the same, of the processes of the load, us each"),
    "work": Bar("claimWork + reportCompleted by 50 workers, /s", at_least=1_000),
    "work_cpu": Bar("the same, processor time of the service, us a pair"),
    "wait_memory": Bar("more memory with the claims that wait, MB", at_most=60),
    "wait_p50": Bar("from createTask until a worker has it, p50, ms", at_most=50),
    "wait_max": Bar("the same, the longest, ms", at_most=50),
    "group": Bar("the group created, all of it, s", at_most=30),
    "page_100": Bar("its pages of 100, p95, ms", at_most=50),
    "page_1000": Bar("its pages of 1,000, p95, ms", at_most=250),
    "upload": Bar("upload, MiB/s"),
    "upload_memory": Bar("more memory meanwhile, at most, MB", at_most=50),
    "download": Bar("download, MiB/s"),
    "download_memory": Bar("more memory meanwhile, at most, MB", at_most=50),
}
"""By the name of the figure, in the order in which they are shown."""


class Sizes(NamedTuple):
    """How much of everything."""

    rounds: int = 3
    tasks: int = 20_000
    connections: int = 64
    workers: int = 50
    waiting: int = 2_000
    woken: int = 50
    group: int = 10_000
    mib: int = 1_024


QUICK = Sizes(rounds=1, tasks=2_000, waiting=500, woken=20, group=2_000, mib=64)


class Peak:
    """The most memory that a process has while the block lasts, in MB beyond what it had before."""

    def __init__(self, service: Child) -> None:
        self._service = service
        self._before = service.memory_mb()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.more_mb = 0.0

    def __enter__(self) -> "Peak":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while True:
            self.more_mb = max(self.more_mb, self._service.memory_mb() - self._before)
            if self._over.wait(0.02):
                return


class Round:
    """One service over one empty store, and a client that may do everything."""

    def __init__(
        self, store: str, host: Host, service: Child, by: dict[str, str], sizes: Sizes
    ) -> None:
        self.store, self.host, self.service, self.sizes = store, host, service, sizes
        self._by = by
        self.figures: Figures = {}

    def keep(self, **figures: float) -> None:
        """Keep figures, and show them."""
        self.figures |= figures
        for name, value in figures.items():
            print(f"  {BARS[name].text:56s}{value:12,.1f}   {BARS[name]}", flush=True)

    def loads(self, *each: tuple[object, ...]) -> list[dict[str, Any]]:
        """What processes say that did this all at once."""
        with ExitStack() as stack:
            children: list[Child] = []
            for kind, *words in each:
                command = (kind, f"{self.host.name}:{self.host.port}", *words)
                child = Child(str(HERE / "taskcluster_load.py"), *map(str, command), talks=True)
                children.append(stack.enter_context(child))
                child.process.stdin.write(json.dumps(self._by) + "\n")
                child.process.stdin.flush()
            for child in children:
                if child.process.stdout.readline().strip() != "ready":
                    raise RuntimeError(f"{each[0][0]}: the load could not begin.")
            self.before_go()
            for child in children:
                child.process.stdin.write("\n")
                child.process.stdin.flush()
            told: list[dict[str, Any]] = []
            for child in children:
                said = child.process.stdout.read()
                if child.process.wait(60) or not said:
                    raise RuntimeError(f"{each[0][0]}: the load failed; see above.")
                told.append(json.loads(said))
            return told

    def before_go(self) -> None:
        """Note what the service uses when the load is about to begin."""
        self._cpu, self._memory = self.service.cpu_s(), self.service.memory_mb()

    def create(self, tasks: int, queue: str, group: str = "-", needs: str = "-") -> dict[str, Any]:
        """Create so many tasks, and count them."""
        each = tasks // LOADS
        connections = self.sizes.connections // LOADS
        told = self.loads(*[("create", queue, group, needs, each, connections)] * LOADS)
        expect(f"createTask in {queue}", statuses(told), {"200": each * LOADS})
        states = "blocked" if needs != "-" else "pending"
        expect(f"{states} tasks of {queue}", self.counts(queue).get(states, 0), each * LOADS)
        return {
            "s": span(told),
            "p99_ms": max(one["p99_ms"] for one in told),
            "cpu_s": self.service.cpu_s() - self._cpu,
            "load_cpu_s": sum(one["cpu_s"] for one in told),
        }

    def work(self, tasks: int, queue: str) -> dict[str, Any]:
        """Have the tasks of a queue claimed and completed, and count them."""
        workers = self.sizes.workers // LOADS
        told = self.loads(*[("work", queue, f"load{n}", workers) for n in range(LOADS)])
        expect("tasks completed", sum(one["done"] for one in told), tasks)
        expect("claims and reports", statuses(told), {"200": 2 * tasks + workers * LOADS})
        expect("completed tasks", self.counts(queue), {"completed": tasks})
        return {"s": span(told), "cpu_s": self.service.cpu_s() - self._cpu}

    def counts(self, queue: str) -> dict[str, int]:
        """How many tasks of a queue are stored, by their state."""

        async def ask() -> dict[str, int]:
            async with Andon(self.store) as app:
                stats = await (await app.engine()).stats()
            return {k: n for q in stats if q.queue == queue for k, n in q.counts.items() if n}

        return asyncio.run(ask())

    # --- the parts ---

    def tasks(self) -> None:
        """createTask, then claimWork and reportCompleted of all that was created."""
        warm = self.sizes.connections * 4
        self.create(warm, "bench/warm")
        self.work(warm, "bench/warm")
        tasks = self.sizes.tasks
        told = self.create(tasks, "bench/tasks")
        self.keep(
            create=tasks / told["s"],
            create_p99=told["p99_ms"],
            create_cpu=told["cpu_s"] / tasks * 1e6,
            create_load=told["load_cpu_s"] / tasks * 1e6,
        )
        told = self.work(tasks, "bench/tasks")
        self.keep(work=tasks / told["s"], work_cpu=told["cpu_s"] / tasks * 1e6)

    def waiting(self) -> None:
        """Claims that wait, and how soon one of them has a task."""
        before = self.service.memory_mb()
        sizes = self.sizes
        [told] = self.loads(("wait", "bench/waits", sizes.waiting, sizes.woken))
        expect("claims that were woken", told["woken"], sizes.woken)
        expect("claims that wait still", told["still"], sizes.waiting - sizes.woken)
        self.keep(
            wait_memory=self._memory - before, wait_p50=told["p50_ms"], wait_max=told["max_ms"]
        )

    def group(self) -> None:
        """A group that depends on one task, and its pages."""
        group = slugid()
        first = definition("bench/decides", group, "-")
        self.ask("PUT", f"{BASE}/task/{group}", first)
        told = self.create(self.sizes.group, "bench/group", group, needs=group)
        self.keep(group=told["s"])
        for limit in (100, 1_000):
            [told] = self.loads(("list", group, limit))
            size = self.sizes.group + 1
            expect(f"rows and ids in pages of {limit}", (told["rows"], told["ids"]), (size, size))
            self.keep(**{f"page_{limit}": told["p95_ms"]})

    def artifact(self) -> None:
        """A file, sent to a signed URL and fetched from another."""
        task_id, mib = slugid(), self.sizes.mib
        self.ask("PUT", f"{BASE}/task/{task_id}", definition("bench/files", task_id, "-"))
        worker = {"workerGroup": "bench", "workerId": "sends"}
        claims = json.loads(self.ask("POST", f"{BASE}/claim-work/bench%2Ffiles", worker))["tasks"]
        expect("claims", [claim["status"]["taskId"] for claim in claims], [task_id])
        path = f"{BASE}/task/{task_id}/runs/0/artifacts/public%2Ffile"
        body = {
            "storageType": "s3",
            "contentType": "application/octet-stream",
            "expires": first_hour(),
        }
        to = json.loads(self.ask("POST", path, body))["putUrl"]
        digest = hashlib.sha256()
        for number in range(mib):
            digest.update(block(number))
        begun = time.perf_counter()
        with Peak(self.service) as peak:
            connection, answer = self._send(to, mib)
            expect("the upload's status", answer.status, 200)
            connection.close()
        self.keep(upload=mib / (time.perf_counter() - begun), upload_memory=peak.more_mb)

        content = f"{BASE}/task/{task_id}/runs/0/artifact-content/public%2Ffile"
        whence = urlsplit(json.loads(self.ask("GET", content))["url"])
        got, size = hashlib.sha256(), 0
        begun = time.perf_counter()
        with Peak(self.service) as peak:
            connection = HTTPConnection(self.host.name, self.host.port, timeout=120)
            connection.request("GET", f"{whence.path}?{whence.query}")
            answer = connection.getresponse()
            expect("the download's status", answer.status, 200)
            while some := answer.read(len(BLOCK)):
                got.update(some)
                size += len(some)
            connection.close()
        self.keep(download=mib / (time.perf_counter() - begun), download_memory=peak.more_mb)
        expect("the file's bytes", size, mib * len(BLOCK))
        expect("the file's digest", got.hexdigest(), digest.hexdigest())

    def _send(self, url: str, mib: int) -> tuple[HTTPConnection, HTTPResponse]:
        parts = urlsplit(url)
        connection = HTTPConnection(self.host.name, self.host.port, timeout=120)
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Length": str(mib * len(BLOCK)),
        }
        content = (block(number) for number in range(mib))
        connection.request("PUT", f"{parts.path}?{parts.query}", content, headers)
        answer = connection.getresponse()
        answer.read()
        return connection, answer

    def ask(self, method: str, path: str, body: object = None) -> bytes:
        """The answer to one signed request, which must be good."""

        async def one() -> bytes:
            link = await self.host.connect()
            by = Credentials.of(self._by)
            status, answer = await link.ask(self.host.request(by, method, path, body))
            link.transport.close()
            expect(f"{method} {path}: {answer.decode()[:500]}", status, 200)
            return answer

        return asyncio.run(one())


def block(number: int) -> bytes:
    """One MiB of a file, unlike the others."""
    return number.to_bytes(8, "big") + BLOCK[8:]


def first_hour() -> str:
    """A time an hour from now."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3_600))


def expect(what: str, found: object, wanted: object) -> None:
    """Raise `Counts` unless that is so."""
    if found != wanted:
        raise Counts(f"{what}: {found}, not {wanted}.")


def statuses(told: list[dict[str, Any]]) -> dict[str, int]:
    """How many answers had which status, of all loads."""
    together: Counter[str] = Counter()
    for one in told:
        together.update(one["statuses"])
    return dict(together)


def span(told: list[dict[str, Any]]) -> float:
    """Seconds from when the first load began until the last had ended."""
    return max(one["ended"] for one in told) - min(one["begun"] for one in told)


def one_round(store: str, folder: Path, sizes: Sizes) -> Figures:
    """All figures once, on an empty store."""
    by = asyncio.run(_new_client(store))
    with serving(store, folder, "2s") as (host, service):
        one = Round(store, host, service, by, sizes)
        one.tasks()
        one.group()
        one.artifact()
    # Those that wait go on waiting until it is over, with memory that nothing else has used.
    with serving(store, folder, "5m") as (host, service):
        other = Round(store, host, service, by, sizes)
        other.create(sizes.connections * 4, "bench/warmed")
        other.waiting()
    return one.figures | other.figures


@contextmanager
def serving(store: str, folder: Path, wait: str) -> Iterator[tuple[Host, Child]]:
    """A service that asks everybody to sign; claims wait so long."""
    port = free_port()
    command = ["-m", "andon.cli", "serve", str(APP), "--taskcluster", "--port", str(port)]
    command += ["--require-token", "--claim-wait", wait, "--quiet"]
    place = {"ANDON_ARTIFACTS": (folder / "artifacts").as_uri()}
    with listening(*command, port=port, url=store, environment=place) as service:
        yield Host("127.0.0.1", port), service


async def _new_client(url: str) -> dict[str, str]:
    store = open_store(url)
    await store.open()
    try:
        token, _ = await ClientRegistry(store).create("bench", ["*"])
    finally:
        await store.close()
    return {"clientId": "bench", "accessToken": token}


def measure(kind: str, sizes: Sizes) -> list[Figures]:
    """All rounds on that kind of store."""
    found: list[Figures] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="andon-face-")))
        server = None if kind == "sqlite" else stack.enter_context(store_servers.running(kind))
        for number in range(1, sizes.rounds + 1):
            print(f"round {number} of {sizes.rounds}, load {os.getloadavg()[0]:.1f}", flush=True)
            url = f"sqlite:///{folder}/tasks{number}.db"
            if server is not None:
                store_servers.empty(server.url)
                url = server.namespace(f"face{number}")
            found.append(one_round(url, folder, sizes))
    return found


def report(kind: str, sizes: Sizes, rounds: list[Figures]) -> list[str]:
    """Each figure beside its bar."""
    lines = [f"{kind}, load {os.getloadavg()[0]:.1f}, {sizes}", ""]
    for name, bar in BARS.items():
        values = [figures[name] for figures in rounds]
        middle = statistics.median(values)
        told = f"{middle:,.1f} ({min(values):,.1f} to {max(values):,.1f})"
        lines.append(f"{bar.text:56s}{told:>34s}   {bar}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--store", choices=("sqlite", "redis", "postgres", "nats"), default="sqlite"
    )
    parser.add_argument("--rounds", type=int, help="of everything")
    parser.add_argument("--quick", action="store_true", help="fewer of everything, in a minute")
    asked = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # children have it too
    sizes = QUICK if asked.quick else Sizes()
    sizes = sizes._replace(rounds=asked.rounds or sizes.rounds)
    try:
        rounds = measure(asked.store, sizes)
    except Counts as wrong:
        sys.exit(f"It does not add up: {wrong}")
    print("\n" + "\n".join(report(asked.store, sizes, rounds)))


if __name__ == "__main__":
    main()
