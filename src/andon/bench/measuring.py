"""Runs one measurement: its settings, its setup, and its figures.

Everything is counted from the store: a task counts as completed if the event log has exactly one
completion of it. Times of starts and ends are those of the events, by the store's clock. The
producer is this process, the worker one of its own.
"""

import asyncio
import os
import platform
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from andon.bench import producing
from andon.bench.counting import ended, results, tally
from andon.bench.processes import WorkerFailed, WorkerProcess
from andon.bench.producing import How, Noop
from andon.client.app import Andon
from andon.contract.limits import MAX_BATCH
from andon.engine.base import Engine
from andon.model.errors import ConfigurationError
from andon.worker.event_loop import run_on

Kind = Literal["submit", "drain", "e2e", "latency"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_WARM_UP = 20
"""Submissions before the clock starts: connections, statements and caches are made by them."""

_LOOK_S = 0.05
"""How often the store is asked whether all is done: 1 % of a core at the most."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a measurement."""

    kind: Kind
    url: str
    n: int
    how: How
    coroutines: int  #: that submit, if `how` is concurrent
    concurrency: int  #: runs at once in the worker
    rate: float  #: submissions per second, for latency
    timeout: float  #: seconds until the worker must be done
    queue: str


def run(
    kind: Kind,
    *,
    url: str | None = None,
    n: int | None = None,
    concurrency: int | None = None,
    how: How | None = None,
    rate: float = 50.0,
    timeout: float = 600.0,
) -> dict[str, Any]:
    """Measure one thing once.

    - `submit`: `n` tasks from this process; `how` is `bulk` (`submit_stream`),
      `concurrent` (awaited singles from `concurrency` coroutines) or `single` (one after another).
      By default bulk; with a `concurrency` concurrent, or single if that is 1.
    - `drain`: one worker process works off `n` tasks that wait.
    - `e2e`: this process submits `n` tasks (`how`, by default in bulk) while one worker process
      works them off.
    - `latency`: `n` tasks at `rate` a second, from submit to their start in a worker process.

    `concurrency` is otherwise the worker's: runs at once. Without a `url` the store is a fresh
    SQLite file, removed afterwards; a `url` is used as it stands, in a queue of the measurement's
    own, and what that leaves is kept like any task. Blocks, and runs an event loop of its own.
    """
    if kind not in KINDS:
        raise ConfigurationError(f"There is no measurement {kind!r}; there are {', '.join(KINDS)}.")
    if (n is not None and n < 1) or (concurrency is not None and concurrency < 1):
        raise ConfigurationError("n and concurrency must be 1 or more.")
    if how is None:
        how = _default_how(kind, concurrency)
    with _store(url) as where:
        if kind != "submit" and where.startswith("memory:"):
            raise ConfigurationError(f"{kind} needs a store that two processes can share.")
        plan = Plan(
            kind=kind,
            url=where,
            n=n or (500 if kind == "latency" else 20_000),
            how=how,
            coroutines=concurrency or 100,
            concurrency=concurrency or 100,
            rate=rate,
            timeout=timeout,
            queue=f"bench-{os.getpid()}-{time.time_ns() % 10**9}",
        )
        return run_on("auto", _measured(plan))


def _default_how(kind: Kind, concurrency: int | None) -> How:
    if kind == "latency" or (kind == "submit" and concurrency == 1):
        return "single"
    return "concurrent" if kind == "submit" and concurrency else "bulk"


@contextmanager
def _store(url: str | None) -> Generator[str]:
    if url is not None:
        yield url
        return
    folder = tempfile.mkdtemp(prefix="andon-bench-")
    try:
        yield f"sqlite:///{Path(folder) / 'bench.db'}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _measured(plan: Plan) -> dict[str, Any]:
    measure = {"submit": _submit, "drain": _drain, "e2e": _end_to_end, "latency": _latency}
    async with Andon(plan.url) as app:
        engine = await app.connections.engine()
        task = _task(app, plan.queue, "arrive" if plan.kind == "latency" else "noop")
        await producing.submit(task.options(queue=f"{plan.queue}-warm-up"), _WARM_UP, "single", 1)
        outcome = await measure[plan.kind](engine, task, plan)
        return {"kind": plan.kind, "n": plan.n, **outcome, **await _circumstances(engine, plan)}


def _task(app: Andon, queue: str, name: str) -> Noop:
    from andon.bench import app as measured

    there = {"noop": measured.noop, "arrive": measured.arrive}[name]
    handler = there.type.handler
    assert handler is not None
    return app.task(name=there.name, queue=queue)(handler)


# --- the four ---


async def _submit(engine: Engine, task: Noop, plan: Plan) -> dict[str, Any]:
    cursor = await engine.events_end()
    cpu, begun = time.process_time(), time.perf_counter()
    ids = await producing.submit(task, plan.n, plan.how, plan.coroutines)
    seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    found = await tally(engine, cursor, ids)
    return {
        **_rate(plan.n, seconds),
        "producer_cpu_us": round(cpu / plan.n * 1e6, 1),
        "verified": found.submitted,
    }


async def _drain(engine: Engine, task: Noop, plan: Plan) -> dict[str, Any]:
    cursor = await engine.events_end()
    ids = await producing.submit(task, plan.n, "bulk", 1)
    async with WorkerProcess(plan.url, plan.queue, concurrency=plan.concurrency) as worker:
        await _all_done(engine, plan, worker)
    found = await tally(engine, cursor, ids)
    seconds = ((found.last_end or 0) - (found.first_claim or 0)) / 1000
    return {**_rate(plan.n, seconds), **_worker_used(worker, plan), "verified": found.completed}


async def _end_to_end(engine: Engine, task: Noop, plan: Plan) -> dict[str, Any]:
    async with WorkerProcess(plan.url, plan.queue, concurrency=plan.concurrency) as worker:
        await _first_run(engine, task, plan, worker)
        cursor = await engine.events_end()
        begun, clock = engine.now(), time.perf_counter()
        ids = await producing.submit(task, plan.n, plan.how, plan.coroutines)
        submitted = time.perf_counter() - clock
        await _all_done(engine, plan, worker, more=1)
    found = await tally(engine, cursor, ids)
    return {
        **_rate(plan.n, ((found.last_end or 0) - begun) / 1000),
        "submit_s": round(submitted, 3),
        **_worker_used(worker, plan),
        "verified": found.completed,
    }


async def _latency(engine: Engine, task: Noop, plan: Plan) -> dict[str, Any]:
    async with WorkerProcess(plan.url, plan.queue, concurrency=plan.concurrency) as worker:
        await _first_run(engine, task, plan, worker)
        await producing.submit_paced(task, _WARM_UP, plan.rate)
        cursor = await engine.events_end()
        ids = await producing.submit_paced(task, plan.n, plan.rate)
        await _all_done(engine, plan, worker, more=1 + _WARM_UP)
    found = await tally(engine, cursor, ids)
    waits = sorted(int(result) / 1e6 for result in await results(engine, ids))
    cuts = statistics.quantiles(waits, n=100, method="inclusive") if len(waits) > 1 else waits * 99
    return {
        "p50_ms": round(cuts[49], 2),
        "p95_ms": round(cuts[94], 2),
        "p99_ms": round(cuts[98], 2),
        "max_ms": round(waits[-1], 2),
        "per_second": plan.rate,
        "verified": min(found.completed, len(waits)),
    }


async def _first_run(engine: Engine, task: Noop, plan: Plan, worker: WorkerProcess) -> None:
    """Wait until the worker has run a task, and so has claimed and committed once."""
    await task.submit(time.time_ns())
    await _all_done(engine, plan, worker, n=1)


async def _all_done(
    engine: Engine,
    plan: Plan,
    worker: WorkerProcess,
    *,
    n: int | None = None,
    more: int = 0,
) -> None:
    wanted = (plan.n if n is None else n) + more
    until = time.monotonic() + plan.timeout
    while await ended(engine, plan.queue) < wanted:
        worker.check()
        if time.monotonic() > until:
            raise WorkerFailed(f"The worker was not done after {plan.timeout:.0f} s.")
        await asyncio.sleep(_LOOK_S)


# --- the figures' context ---


def _rate(n: int, seconds: float) -> dict[str, Any]:
    seconds = max(seconds, 0.001)  # the store's clock counts milliseconds
    return {"rate": round(n / seconds, 1), "seconds": round(seconds, 3)}


def _worker_used(worker: WorkerProcess, plan: Plan) -> dict[str, Any]:
    cpu = worker.after["cpu_s"] - worker.before["cpu_s"]
    return {
        "worker_cpu_us": round(cpu / plan.n * 1e6, 1),
        "worker_rss_mb": round(worker.after["rss_mb"], 1),
        "worker_peak_rss_mb": round(worker.after["peak_rss_mb"], 1),
    }


async def _circumstances(engine: Engine, plan: Plan) -> dict[str, Any]:
    info = await engine.info()
    return {
        "loop": type(asyncio.get_running_loop()).__module__.partition(".")[0],
        "durability": info.durability,
        "batching": _batching(plan, engine.bulk_size),
        "store": {"kind": info.kind, **info.settings},
        "versions": {
            "andon": version("andon"),
            "msgspec": version("msgspec"),
            "python": platform.python_version(),
            **_driver(info.kind),
        },
    }


_DRIVERS = {"redis": "hiredis", "postgres": "asyncpg", "nats": "nats-py"}


def _driver(kind: str) -> dict[str, str]:
    """The driver of that kind of store, and its version."""
    if kind == "sqlite":
        return {"sqlite": sqlite3.sqlite_version}
    name = _DRIVERS.get(kind)
    return {name: version(name)} if name else {}


def _batching(plan: Plan, at_once: int) -> dict[str, Any]:
    told: dict[str, Any] = {"store_batch": MAX_BATCH}
    if plan.kind != "drain":
        told["submit"] = {
            "single": "one awaited after another",
            "concurrent": f"{plan.coroutines} coroutines, each awaits its submit",
            "bulk": f"submit_stream, up to {at_once} at once",
        }[plan.how]
    else:
        told["submit"] = "before the clock starts"
    if plan.kind != "submit":
        told["worker_concurrency"] = plan.concurrency
    return told
