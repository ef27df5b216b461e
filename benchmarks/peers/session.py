"""One session with one peer, inside its environment: `python -m peers.session NAME VARIANT PLAN`.

PLAN is JSON with the number of tasks of each measurement, 0 to leave it out. Prints one JSON line
before each measurement (what begins) and one after it (the outcome). The server is BENCH_URL and is
emptied by the command in BENCH_RESET, whose counter of work done is told by BENCH_COUNTER; files go
into BENCH_FOLDER.
"""

import asyncio
import importlib.metadata
import inspect
import json
import os
import shlex
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil

from peers import driver
from peers.shape import Peer
from peers.slots import Slots

AT_ONCE = 100
WARM_UP = 20
RATE = 50.0
PATIENCE_S = 60.0


def tell(**what: Any) -> None:
    print(json.dumps(what), flush=True)


async def awaited(value: Any) -> Any:
    """The value, of a coroutine or of a plain function."""
    return await value if isinstance(value, Awaitable) else value


def reset() -> None:
    subprocess.run(shlex.split(os.environ["BENCH_RESET"]), check=True)


def counted() -> int:
    done = subprocess.run(
        shlex.split(os.environ["BENCH_COUNTER"]), check=True, capture_output=True, text=True
    )
    return int(done.stdout)


class Worker:
    """The peer's worker command, running; everything it started ends with it."""

    def __init__(self, peer: Peer, folder: Path, size: int) -> None:
        self.slots = Slots(folder / f"slots-{time.monotonic_ns()}", size)
        self._log = (folder / "worker.log").open("w+b")
        self.process = psutil.Popen(
            peer.worker(),
            env={**os.environ, "BENCH_SLOTS": str(self.slots.path)},
            stdout=self._log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            cwd=folder,
        )

    async def until(self, numbers: range) -> None:
        """Wait until these have run."""
        until = time.monotonic() + PATIENCE_S
        while not self.slots.all_ran(numbers):
            if self.process.poll() is not None:
                raise RuntimeError(f"The worker ended, code {self.process.poll()}: {self._said()}")
            if time.monotonic() > until:
                ran = len(self.slots.times(numbers))
                raise RuntimeError(
                    f"{ran} of {len(numbers)} ran in {PATIENCE_S:.0f} s: {self._said()}"
                )
            await asyncio.sleep(0.01)

    def tree(self) -> list[psutil.Process]:
        return [self.process, *self.process.children(recursive=True)]

    def memory(self) -> dict[str, Any]:
        """MiB of all its processes, and how many those are."""
        sizes = [process.memory_info().rss / 2**20 for process in self.tree()]
        return {"rss_mb": round(sum(sizes), 1), "processes": len(sizes)}

    def cpu_s(self) -> float:
        return sum(sum(process.cpu_times()[:2]) for process in self.tree())

    def stop(self) -> None:
        tree = self.tree() if self.process.poll() is None else []
        if tree:
            self.process.send_signal(signal.SIGTERM)
            psutil.wait_procs(tree, timeout=3)
        for process in tree:
            if process.is_running():
                try:
                    process.kill()
                except psutil.NoSuchProcess:
                    continue
        psutil.wait_procs(tree, timeout=5)
        self.slots.close()
        self._log.close()

    def _said(self) -> str:
        self._log.flush()
        return Path(self._log.name).read_text(encoding="utf-8", errors="replace")[-600:]


# --- submitting ---


async def singles(peer: Peer, numbers: Iterable[int]) -> None:
    if inspect.iscoroutinefunction(peer.submit):
        for number in numbers:
            await peer.submit(number)
    else:
        for number in numbers:
            peer.submit(number)


async def at_once(peer: Peer, numbers: Iterable[int]) -> None:
    """From 100 coroutines, or as many threads, each awaiting what it submits."""
    shared = iter(list(numbers))
    if inspect.iscoroutinefunction(peer.submit):
        await asyncio.gather(*(singles(peer, shared) for _ in range(AT_ONCE)))
        return

    def some() -> None:
        for number in shared:
            peer.submit(number)

    with ThreadPoolExecutor(AT_ONCE) as threads:
        for done in [threads.submit(some) for _ in range(AT_ONCE)]:
            done.result()


async def in_bulk(peer: Peer, numbers: Iterable[int]) -> None:
    await awaited(peer.bulk(list(numbers)))


async def fastest(peer: Peer, numbers: Iterable[int]) -> None:
    """As fast as it can take them: in bulk, or from many at once."""
    await (in_bulk if peer.has_bulk else at_once)(peer, numbers)


async def settled(peer: Peer, wanted: int) -> int:
    """Its own count of unfinished tasks, once it is `wanted` or has had 5 s to become that."""
    until = time.monotonic() + 5
    while (found := await peer.unfinished()) != wanted and time.monotonic() < until:  # noqa: ASYNC110 - the server's word
        await asyncio.sleep(0.05)
    return found


# --- the measurements ---


async def submits(peer: Peer, plan: dict[str, Any]) -> None:
    ways = {"single": singles, "concurrent": at_once, "bulk": in_bulk}
    for way, submit in ways.items():
        if not plan[way] or (way == "bulk" and not peer.has_bulk):
            continue
        kind = f"submit {way}"
        tell(begins=kind)
        trial, there = plan["trial"][way], await peer.unfinished()
        begun = time.perf_counter()
        await submit(peer, range(trial))
        n = _as_many_as(plan["seconds"], trial / (time.perf_counter() - begun), plan[way])
        before = await settled(peer, there + trial)
        cpu, begun = time.process_time(), time.perf_counter()
        await submit(peer, range(trial, trial + n))
        seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
        tell(
            kind=kind,
            n=n,
            rate=round(n / seconds, 1),
            producer_cpu_us=round(cpu / n * 1e6, 1),
            verified=await settled(peer, before + n) - before,
        )
    await emptied(peer)


def _as_many_as(seconds: float, rate: float, most: int) -> int:
    return max(100, min(most, round(rate * seconds / 100) * 100))


async def emptied(peer: Peer) -> None:
    await peer.close()
    reset()
    await peer.prepare()
    await peer.open()


async def drain(peer: Peer, n: int, folder: Path) -> None:
    tell(begins="drain")
    await fastest(peer, range(n))
    stored = await settled(peer, n)
    worker = Worker(peer, folder, n)
    try:
        await worker.until(range(n))
        memory = worker.memory()
        left = await settled(peer, 0)
        times, repeats, cpu = worker.slots.times(range(n)), worker.slots.repeats(), None
        if peer.variant not in peer.forks:
            cpu = worker.slots.cpu_us()
    finally:
        worker.stop()
    tell(
        kind="drain",
        n=n,
        rate=round((n - 1) / (times[-1] - times[0]) * 1e9, 1),
        worker_cpu_us=cpu and round(cpu, 1),
        repeats=repeats,
        verified=min(stored, len(times)) - left,
        **memory,
    )


async def lively(peer: Peer, plan: dict[str, Any], folder: Path) -> None:
    """What a worker that is up does: nothing, single tasks, and as many as can be."""
    waits, n = plan["latency"], plan["e2e"]
    paced = range(1, 1 + WARM_UP + waits)
    many = range(paced.stop, paced.stop + n)
    worker = Worker(peer, folder, many.stop)
    try:
        tell(begins="start of a worker")
        await singles(peer, [0])
        await worker.until(range(1))
        if plan["idle_s"]:
            await peer.close()
            await idle(worker, plan["settle_s"], plan["idle_s"])
            await peer.open()
        else:
            await asyncio.sleep(0.5)
        if waits:
            await latency(peer, worker, paced)
        if n:
            await end_to_end(peer, worker, many)
    finally:
        worker.stop()


async def idle(worker: Worker, settle: float, seconds: float) -> None:
    tell(begins="idle")
    await asyncio.sleep(settle)
    own = -(counted() - counted())
    cpu, before, begun = worker.cpu_s(), counted(), time.monotonic()
    await asyncio.sleep(seconds)
    took, used = time.monotonic() - begun, worker.cpu_s() - cpu
    per_second = max(counted() - before - own, 0) / took
    tell(
        kind="idle",
        n=1,
        verified=1,
        server_per_s=round(per_second, 2),
        cpu_percent=round(used / took * 100, 2),
        **worker.memory(),
    )


async def latency(peer: Peer, worker: Worker, numbers: range) -> None:
    tell(begins="latency")
    sent: list[int] = []
    begun = time.monotonic()
    for place, number in enumerate(numbers):
        await asyncio.sleep(max(begun + place / RATE - time.monotonic(), 0))
        sent.append(time.monotonic_ns())
        await singles(peer, [number])
    await worker.until(numbers)
    waits = [worker.slots.at(n) - at for n, at in zip(numbers, sent, strict=True)][WARM_UP:]
    cuts = statistics.quantiles((wait / 1e6 for wait in waits), n=100, method="inclusive")
    tell(
        kind="latency",
        n=len(waits),
        p50_ms=round(cuts[49], 2),
        p95_ms=round(cuts[94], 2),
        p99_ms=round(cuts[98], 2),
        verified=len(waits) - await settled(peer, 0),
    )


async def end_to_end(peer: Peer, worker: Worker, numbers: range) -> None:
    tell(begins="e2e")
    begun = time.monotonic_ns()
    await fastest(peer, numbers)
    submitted = time.monotonic_ns()
    await worker.until(numbers)
    left = await settled(peer, 0)
    times = worker.slots.times(numbers)
    tell(
        kind="e2e",
        n=len(numbers),
        rate=round(len(numbers) / (times[-1] - begun) * 1e9, 1),
        submit_s=round((submitted - begun) / 1e9, 3),
        repeats=worker.slots.repeats(),
        verified=len(times) - left,
    )


def imported(peer: Peer, runs: int) -> None:
    """Milliseconds of the import, beyond Python's own start."""
    tell(begins="import")

    def median(code: str) -> float:
        taken = []
        for _ in range(runs):
            begun = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            taken.append((time.perf_counter() - begun) * 1000)
        return statistics.median(taken)

    figure = median(f"import {peer.imports}") - median("pass")
    tell(kind="import", n=1, verified=1, import_ms=round(figure, 1))


async def session(peer: Peer, plan: dict[str, Any]) -> None:
    tell(begins="start")
    folder = Path(os.environ["BENCH_FOLDER"])
    reset()
    await peer.prepare()
    await peer.open()
    try:
        await submits(peer, plan)
        if plan["drain"]:
            await drain(peer, plan["drain"], folder)
            await emptied(peer)
        if plan["latency"] or plan["e2e"] or plan["idle_s"]:
            await lively(peer, plan, folder)
    finally:
        await peer.close()


def main(name: str, variant: str, told: str) -> None:
    plan = json.loads(told)
    os.environ["BENCH_VARIANT"] = variant
    peer = driver(name)(variant, os.environ["BENCH_URL"])
    versions = {dist: importlib.metadata.version(dist) for dist in peer.shown}
    tell(versions={**versions, "python": ".".join(map(str, sys.version_info[:3]))})
    if plan["imports"]:
        imported(peer, plan["imports"])
    if peer.uvloop:
        import uvloop

        uvloop.run(session(peer, plan))
    else:
        asyncio.run(session(peer, plan))


if __name__ == "__main__":
    main(*sys.argv[1:])
