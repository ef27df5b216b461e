"""One session with Andon: `python andon_session.py URL PLAN`, what `peers.session` is for a peer.

Prints the same lines. The server is emptied by the command in BENCH_RESET, whose counter of work
done is told by BENCH_COUNTER.
"""

import asyncio
import json
import os
import shlex
import subprocess
import sys
import time
from typing import Any

import psutil
from processes import imports

from andon.bench import run
from andon.bench.processes import WorkerProcess
from andon.client.app import Andon

AT_ONCE = 100


def tell(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def reset() -> None:
    subprocess.run(shlex.split(os.environ["BENCH_RESET"]), check=True)


def counted() -> int:
    done = subprocess.run(
        shlex.split(os.environ["BENCH_COUNTER"]), check=True, capture_output=True, text=True
    )
    return int(done.stdout)


def submits(url: str, plan: dict[str, Any]) -> None:
    for way in ("single", "concurrent", "bulk"):
        tell(begins=f"submit {way}")
        trial = run("submit", url=url, n=plan["trial"][way], how=way)
        n = round(trial["rate"] * plan["seconds"] / 100) * 100
        found = run("submit", url=url, n=max(100, min(plan[way], n)), how=way)
        tell(**{**found, "kind": f"submit {way}"})
    reset()


def measured(kind: Any, url: str, plan: dict[str, Any]) -> None:
    tell(begins=kind)
    found = run(kind, url=url, n=plan[kind], timeout=120)
    if "worker_rss_mb" in found:
        found |= {"rss_mb": found["worker_rss_mb"], "processes": 1}
    tell(**found)
    reset()


async def idle(url: str, settle: float, seconds: float) -> None:
    """A worker that is up and has run a task, and then has nothing to do."""
    from andon.bench.app import noop

    async with WorkerProcess(url, "idle", concurrency=AT_ONCE) as worker:
        async with Andon(url) as app:
            task = app.task(name=noop.name, queue="idle")(noop.type.handler)
            await (await task.submit(0)).result(timeout=60)
        process = psutil.Process(worker.pid)
        await asyncio.sleep(settle)
        own = -(counted() - counted())
        cpu, before, begun = sum(process.cpu_times()[:2]), counted(), time.monotonic()
        await asyncio.sleep(seconds)
        took = time.monotonic() - begun
        used = sum(process.cpu_times()[:2]) - cpu
        per_second = max(counted() - before - own, 0) / took
        tell(
            kind="idle",
            n=1,
            verified=1,
            server_per_s=round(per_second, 2),
            cpu_percent=round(used / took * 100, 2),
            rss_mb=round(process.memory_info().rss / 2**20, 1),
            processes=1,
        )


def main(url: str, told: str) -> None:
    plan = json.loads(told)
    sys.setswitchinterval(0.001)  # as `andon bench` sets it
    if plan["imports"]:
        tell(begins="import")
        took = imports(plan["imports"])["import_andon_app_ms"]
        tell(kind="import", n=1, verified=1, import_ms=round(took or 0.0, 1))
    reset()
    tell(versions=run("submit", url=url, n=1)["versions"])
    submits(url, plan)
    measured("drain", url, plan)
    if plan["idle_s"]:
        tell(begins="idle")
        asyncio.run(idle(url, plan["settle_s"], plan["idle_s"]))
        reset()
    measured("latency", url, plan)
    measured("e2e", url, plan)


if __name__ == "__main__":
    main(*sys.argv[1:])
