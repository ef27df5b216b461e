"""The load on a Taskcluster face, in a process of its own: signed requests over kept connections.

    python benchmarks/taskcluster_load.py create HOST:PORT QUEUE GROUP NEEDS TASKS CONNECTIONS
    python benchmarks/taskcluster_load.py work   HOST:PORT QUEUE NAME WORKERS
    python benchmarks/taskcluster_load.py wait   HOST:PORT QUEUE WORKERS TASKS
    python benchmarks/taskcluster_load.py list   HOST:PORT GROUP LIMIT

The first line on its input is credentials as JSON. It says `ready` once everything is made, signed
and connected, waits for another line, and prints JSON. `create` makes tasks in a group, each of
which depends on the task NEEDS ("-": in a group of its own, on none). `work` claims one task at a
time and completes it with the credentials of the claim, until a claim comes back empty. `wait` has
so many claims wait, then creates one task after the other and takes the time from sending it until
a worker has it. `list` reads a group in pages. A client library would cost more than the service
does.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import statistics
import sys
import time
import uuid
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, cast
from urllib.parse import quote

import uvloop

BASE = "/api/queue/v1"
_TIMEOUT_S = 600.0


class Credentials(NamedTuple):
    """A client's, or those of a claim."""

    client_id: str
    access_token: str
    certificate: str = ""  #: JSON

    @classmethod
    def of(cls, told: dict[str, str]) -> "Credentials":
        return cls(told["clientId"], told["accessToken"], told.get("certificate", ""))


class Host(NamedTuple):
    """Where the service listens."""

    name: str
    port: int

    @classmethod
    def of(cls, text: str) -> "Host":
        name, _, port = text.partition(":")
        return cls(name, int(port))

    def request(
        self, credentials: Credentials, method: str, path: str, body: object = None
    ) -> bytes:
        """A whole signed request."""
        content = b"" if body is None else json.dumps(body).encode()
        ext = ""
        if credentials.certificate:
            said = f'{{"certificate": {credentials.certificate}}}'
            ext = base64.b64encode(said.encode()).decode()
        ts, nonce = int(time.time()), uuid.uuid4().hex[:8]
        lines = ("hawk.1.header", ts, nonce, method, path, self.name, self.port, "", ext, "")
        signed = "\n".join(map(str, lines)).encode()
        digest = hmac.digest(credentials.access_token.encode(), signed, hashlib.sha256)
        mac = base64.b64encode(digest).decode()
        named = f', ext="{ext}"' if ext else ""
        typed = "Content-Type: application/json\r\n" if content else ""
        return (
            f"{method} {path} HTTP/1.1\r\nHost: {self.name}:{self.port}\r\n"
            f'Authorization: Hawk id="{credentials.client_id}", ts="{ts}", nonce="{nonce}", '
            f'mac="{mac}"{named}\r\n{typed}Content-Length: {len(content)}\r\n\r\n'
        ).encode() + content

    async def connect(self) -> "Link":
        """A kept connection."""
        loop = asyncio.get_running_loop()
        return (await loop.create_connection(Link, self.name, self.port))[1]


class Link(asyncio.Protocol):
    """One kept connection: sends a request, and gives the whole answer."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._got = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of it

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError(f"The service hung up: {exc}."))

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Send; status and body, once the whole answer has come."""
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self._answer

    def data_received(self, data: bytes) -> None:
        self._got += data
        head = self._got.find(b"\r\n\r\n")
        if head < 0:
            return
        at = self._got.lower().find(b"content-length: ", 0, head)
        length = int(self._got[at + 16 : self._got.find(b"\r\n", at)])
        if len(self._got) < head + 4 + length:
            return
        status, body = int(self._got[9:12]), bytes(self._got[head + 4 :])
        self._got.clear()
        assert self._answer is not None
        self._answer.set_result((status, body))


def slugid() -> str:
    """An id as the clients make them."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes)[:22].decode()


def definition(queue: str, group: str, needs: str) -> dict[str, Any]:
    """A task of a common size."""
    now = datetime.now(UTC)
    return {
        "taskQueueId": queue,
        "taskGroupId": group,
        "schedulerId": "bench",
        "dependencies": [] if needs == "-" else [needs],
        "created": now.isoformat(),
        "deadline": (now + timedelta(hours=5)).isoformat(),
        "payload": {
            "command": ["/bin/sh", "-c", "make test"],
            "env": {f"NAME_{n}": "some value of a common length" for n in range(10)},
            "maxRunTime": 3600,
        },
        "metadata": {
            "name": "a task",
            "description": "of the benchmark",
            "owner": "ann@example.org",
            "source": "https://example.org/tasks",
        },
        "tags": {"kind": "test"},
    }


def quantiles(seconds: list[float]) -> dict[str, float]:
    """Of at least one time."""
    cuts = statistics.quantiles(seconds * 2, n=100, method="inclusive")
    return {
        "p50_ms": cuts[49] * 1e3,
        "p95_ms": cuts[94] * 1e3,
        "p99_ms": cuts[98] * 1e3,
        "max_ms": max(seconds) * 1e3,
    }


async def _go() -> None:
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)


def creations(
    host: Host, by: Credentials, queue: str, group: str, needs: str, *, tasks: int
) -> list[bytes]:
    """Signed requests that create tasks of one group; each in its own with `-`."""
    requests: list[bytes] = []
    for _ in range(tasks):
        task_id = slugid()
        body = definition(queue, task_id if group == "-" else group, needs)
        requests.append(host.request(by, "PUT", f"{BASE}/task/{task_id}", body))
    return requests


async def create(host: Host, requests: list[bytes], connections: int) -> dict[str, Any]:
    """Send requests as fast as they are answered."""
    links = [await host.connect() for _ in range(connections)]
    statuses: Counter[int] = Counter()
    taken: list[float] = []

    async def one(link: Link) -> None:
        while requests:
            request, begun = requests.pop(), time.perf_counter()
            status, _ = await link.ask(request)
            statuses[status] += 1
            taken.append(time.perf_counter() - begun)

    await _go()
    begun, cpu = time.time(), time.process_time()
    await asyncio.gather(*map(one, links))
    cpu = time.process_time() - cpu
    return {
        "begun": begun,
        "ended": time.time(),
        "cpu_s": cpu,
        "statuses": statuses,
        **quantiles(taken),
    }


async def work(host: Host, by: Credentials, queue: str, name: str, workers: int) -> dict[str, Any]:
    """Claim and complete until there is nothing left."""
    path = f"{BASE}/claim-work/{quote(queue, safe='')}"
    links = [await host.connect() for _ in range(workers)]
    statuses: Counter[int] = Counter()
    done: list[float] = []

    async def one(number: int, link: Link) -> None:
        body = {"workerGroup": "bench", "workerId": f"{name}-{number}", "tasks": 1}
        while True:
            status, answer = await link.ask(host.request(by, "POST", path, body))
            statuses[status] += 1
            claims = json.loads(answer)["tasks"]
            if not claims:
                return
            for claim in claims:
                of = f"{BASE}/task/{claim['status']['taskId']}/runs/{claim['runId']}/completed"
                own = Credentials.of(claim["credentials"])
                status, _ = await link.ask(host.request(own, "POST", of, {}))
                statuses[status] += 1
                done.append(time.time())

    await _go()
    begun = time.time()
    await asyncio.gather(*(one(number, link) for number, link in enumerate(links)))
    # Until the last task: an empty claim has waited.
    return {"begun": begun, "ended": max(done), "statuses": statuses, "done": len(done)}


async def wait(host: Host, by: Credentials, queue: str, workers: int, tasks: int) -> dict[str, Any]:
    """Have claims wait; create tasks, one after the other, each of which wakes one of them."""
    path = f"{BASE}/claim-work/{quote(queue, safe='')}"
    came: asyncio.Queue[tuple[float, str]] = asyncio.Queue()

    async def one(number: int, link: Link) -> None:
        body = {"workerGroup": "bench", "workerId": f"waits-{number}", "tasks": 1}
        status, answer = await link.ask(host.request(by, "POST", path, body))
        assert status == 200, answer
        for claim in json.loads(answer)["tasks"]:
            came.put_nowait((time.perf_counter(), claim["status"]["taskId"]))

    creator = await host.connect()
    waiting: set[asyncio.Task[None]] = set()
    links: list[Link] = []
    for number in range(workers):
        links.append(await host.connect())
        waiting.add(asyncio.create_task(one(number, links[-1])))
        if number % 50 == 49:  # what was sent before this was answered is being waited on
            await creator.ask(host.request(by, "GET", f"{BASE}/ping"))
    await asyncio.sleep(1)
    await _go()
    taken: list[float] = []
    for _ in range(tasks):
        task_id = slugid()
        request = host.request(by, "PUT", f"{BASE}/task/{task_id}", definition(queue, task_id, "-"))
        begun = time.perf_counter()
        asking = asyncio.create_task(creator.ask(request))
        at, woken_by = await came.get()
        status, answer = await asking
        assert status == 200, answer
        assert woken_by == task_id
        taken.append(at - begun)
        await asyncio.sleep(0.05)
    still = sum(not task.done() for task in waiting)
    for link in links:
        link.transport.close()
    await asyncio.gather(*waiting, return_exceptions=True)
    return {"woken": len(taken), "still": still, **quantiles(taken)}


async def listed(host: Host, by: Credentials, group: str, limit: int) -> dict[str, Any]:
    """Read a group in pages, one after the other."""
    link = await host.connect()
    ids: set[str] = set()
    rows, token, taken = 0, "", list[float]()
    await _go()
    while True:
        more = f"&continuationToken={quote(token, safe='')}" if token else ""
        path = f"{BASE}/task-group/{group}/list?limit={limit}{more}"
        request, begun = host.request(by, "GET", path), time.perf_counter()
        status, answer = await link.ask(request)
        taken.append(time.perf_counter() - begun)
        assert status == 200, answer
        page = json.loads(answer)
        rows += len(page["tasks"])
        ids.update(row["status"]["taskId"] for row in page["tasks"])
        token = page.get("continuationToken", "")
        if not token:
            return {"rows": rows, "ids": len(ids), "pages": len(taken), **quantiles(taken)}


async def main() -> None:
    kind, host, *words = sys.argv[1:]
    at, by = Host.of(host), Credentials.of(json.loads(sys.stdin.readline()))
    async with asyncio.timeout(_TIMEOUT_S):
        match kind, words:
            case "create", [queue, group, needs, tasks, connections]:
                signed = creations(at, by, queue, group, needs, tasks=int(tasks))
                told = await create(at, signed, int(connections))
            case "work", [queue, name, workers]:
                told = await work(at, by, queue, name, int(workers))
            case "wait", [queue, workers, tasks]:
                told = await wait(at, by, queue, int(workers), int(tasks))
            case "list", [group, limit]:
                told = await listed(at, by, group, int(limit))
            case _:
                sys.exit(__doc__)
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
