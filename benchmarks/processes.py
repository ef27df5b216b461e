"""What a process costs by itself: imports, an idle worker, a worker's memory."""

import asyncio
import statistics
import subprocess
import sys
import time
from pathlib import Path

import psutil

from andon.bench import producing
from andon.bench.counting import ended
from andon.bench.processes import WorkerProcess
from andon.client.app import Andon


def start_ms(*command: str, runs: int) -> float:
    """Median milliseconds of a whole process, warm cache."""
    taken = []
    for _ in range(runs):
        begun = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        taken.append((time.perf_counter() - begun) * 1000)
    return statistics.median(taken)


def imports(runs: int) -> dict[str, float | None]:
    """`import andon` on top of an empty Python, and the whole of `andon --help`."""
    empty = start_ms(sys.executable, "-c", "pass", runs=runs)
    library = start_ms(sys.executable, "-c", "import andon; andon.Andon", runs=runs)
    bare = start_ms(sys.executable, "-c", "import andon", runs=runs)
    program = Path(sys.executable).with_name("andon")
    try:
        helped = start_ms(str(program), "--help", runs=runs)
    except (OSError, subprocess.CalledProcessError):
        helped = None
    return {
        "python_ms": empty,
        "import_andon_ms": bare - empty,
        "import_andon_app_ms": library - empty,
        "andon_help_ms": helped,
    }


async def _worker(url: str, tasks: int, idle_s: float) -> dict[str, float]:
    from andon.bench.app import noop

    async with Andon(url) as app:
        task = app.task(name=noop.name, queue="memory")(noop.type.handler)
        engine = await app.engine()
        async with WorkerProcess(url, "memory", concurrency=100) as worker:
            process = psutil.Process(worker.pid)
            await asyncio.sleep(2)
            fresh = process.memory_info().rss / 2**20
            cpu = sum(process.cpu_times()[:2])
            await asyncio.sleep(idle_s)
            idle = (sum(process.cpu_times()[:2]) - cpu) / idle_s
            marks: list[float] = []
            half = tasks // 2
            for more, mark in ((half, half), (tasks - half, tasks)):
                await producing.submit(task, more, "bulk", 1)
                while await ended(engine, "memory") < mark:  # noqa: ASYNC110 - another process ends them
                    await asyncio.sleep(0.1)
                marks.append(process.memory_info().rss / 2**20)
        return {
            "tasks": tasks,
            "verified": await ended(engine, "memory"),
            "idle_cpu_percent": idle * 100,
            "rss_idle_mb": fresh,
            "rss_half_mb": marks[0],
            "rss_after_mb": marks[1],
            "rss_peak_mb": worker.after["peak_rss_mb"],
        }


def worker(url: str, *, tasks: int, idle_s: float) -> dict[str, float]:
    """CPU of a worker with nothing to do, and its memory before, halfway and after `tasks`."""
    return asyncio.run(_worker(url, tasks, idle_s))
