"""SqliteHuey measured the way Andon is: one producer process, one consumer process, a fresh file.

Run as `python huey_side.py KIND N SYNC THREADS`; prints one JSON object. SYNC is `default` (what
this build of SQLite has), `full`, or `off` (its `fsync=False`, the fastest it has). Results are
off, polling is down to 5 to 10 ms, and its periodic scheduler is off.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
WARM_UP = 20


class Consumer:
    """`huey_consumer` in a process of its own."""

    def __init__(self, out: Path, n: int, threads: int) -> None:
        self.out = out
        program = Path(sys.executable).with_name("huey_consumer")
        options = ["-k", "thread", "-w", str(threads), "-q", "-n", "-d", "0.005", "-m", "0.01"]
        self.process = subprocess.Popen(
            [sys.executable, str(program), "huey_app.huey", *options],
            cwd=HERE,
            env={
                **os.environ,
                "BENCH_HUEY_OUT": str(out),
                "BENCH_HUEY_N": str(n),
                "PYTHONPATH": str(HERE),
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def wait(self, what: str, timeout: float = 600.0) -> dict:
        """What the consumer says, once it says it."""
        path = self.out.with_suffix(f".{what}")
        until = time.monotonic() + timeout
        while not path.exists():
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"huey_consumer: no {what}, code {self.process.poll()}")
            time.sleep(0.02)
        return json.loads(path.read_text(encoding="utf-8"))

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def main(kind: str, n: int, sync: str, threads: int) -> dict:
    with tempfile.TemporaryDirectory(prefix="andon-bench-huey-") as folder:
        os.environ["BENCH_HUEY_FILE"] = str(Path(folder) / "huey.db")
        os.environ["BENCH_HUEY_SYNC"] = sync
        sys.path.insert(0, str(HERE))
        import huey_app

        storage = huey_app.huey.storage
        (level,) = storage.sql("PRAGMA synchronous", results=True)[0]
        (journal,) = storage.sql("PRAGMA journal_mode", results=True)[0]
        measure = {"submit": submit, "drain": drain, "e2e": end_to_end, "latency": latency}
        outcome = measure[kind](huey_app, Path(folder) / "out", n, threads)
        names = {0: "off", 1: "normal", 2: "full", 3: "extra"}
        return {
            "kind": kind,
            "n": n,
            **outcome,
            "store": {"synchronous": names[level], "journal_mode": journal},
            "threads": threads,
            "batching": "none: one transaction per task and step",
            "versions": {"huey": version("huey")},
        }


def submit(app, out: Path, n: int, threads: int) -> dict:
    for number in range(WARM_UP):
        app.noop(number)
    begun = time.perf_counter()
    for number in range(n):
        app.noop(number)
    seconds = time.perf_counter() - begun
    return {"rate": n / seconds, "verified": app.huey.storage.queue_size() - WARM_UP}


def drain(app, out: Path, n: int, threads: int) -> dict:
    for number in range(n):
        app.noop(number)
    consumer = Consumer(out, n, threads)
    try:
        told = consumer.wait("done")
    finally:
        consumer.stop()
    left = app.huey.storage.queue_size()
    return {"rate": n / (told["last"] - told["first"]), "verified": told["n"] - left}


def end_to_end(app, out: Path, n: int, threads: int) -> dict:
    consumer = Consumer(out, n, threads)
    try:
        app.noop(-1)
        consumer.wait("ready", 30)
        begun = time.time()
        for number in range(n):
            app.noop(number)
        told = consumer.wait("done")
    finally:
        consumer.stop()
    left = app.huey.storage.queue_size()
    return {"rate": n / (told["last"] - begun), "verified": told["n"] - left}


def latency(app, out: Path, n: int, threads: int) -> dict:
    consumer = Consumer(out, n + WARM_UP, threads)
    try:
        app.noop(-1)
        consumer.wait("ready", 30)
        begun = time.monotonic()
        for number in range(n + WARM_UP):
            time.sleep(max(begun + number / 50 - time.monotonic(), 0))
            app.arrive(time.time_ns())
        told = consumer.wait("done")
    finally:
        consumer.stop()
    waits = sorted(wait / 1e6 for wait in told["waits"][WARM_UP:])
    cuts = statistics.quantiles(waits, n=100, method="inclusive")
    return {"p50_ms": cuts[49], "p95_ms": cuts[94], "p99_ms": cuts[98], "verified": len(waits)}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))))
