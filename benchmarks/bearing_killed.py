"""Occurrences while timekeepers and workers are killed at random, counted by the ledger.

    python benchmarks/bearing_killed.py URL [--seconds 600] [--rate 200] [--workers 3]

So many schedules fire each second, with catch_up="all", while one of the worker processes (each is
a timekeeper too) is killed with SIGKILL every one to four seconds and started again. The event log
is followed all the while. In the end each occurrence must have been submitted once, have run to its
end once, and none be there that should not.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import schedules
from msgspec.structs import replace

from andon.engine.local import LocalEngine
from andon.engine.opening import open_store
from andon.lifecycle.recurrence.occurrences import between
from andon.model.recurrence import Recurrence
from andon.model.words import Event, State
from andon.testing.ledger import Ledger

HERE = Path(__file__).resolve().parent
PATIENCE_S = 600.0


class Workers:
    """Worker processes that are killed and started again."""

    def __init__(self, url: str, count: int, folder: Path) -> None:
        self._environment = {**os.environ, "ANDON_URL": url, "BEARING_LEASE_S": "3"}
        self._log = (folder / "workers.log").open("ab")
        self._running = [self._started() for _ in range(count)]
        self.killed = 0

    def _started(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "andon.cli", "worker", str(HERE / "bearing_app.py")],
            env=self._environment,
            stdout=self._log,
            stderr=self._log,
        )

    async def hunt(self, rng: random.Random, seconds: float) -> None:
        """Kill one after another."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            await asyncio.sleep(rng.uniform(1, 4))
            place = rng.randrange(len(self._running))
            self._running[place].kill()
            self._running[place].wait()
            self.killed += 1
            self._running[place] = self._started()

    def stop(self) -> None:
        for process in self._running:
            process.send_signal(signal.SIGTERM)
        for process in self._running:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._log.close()


async def follow(engine: LocalEngine, ledger: Ledger, submits: Counter[str]) -> None:
    """Read the event log as it comes."""
    cursor = ""
    while True:
        page = await engine.events(cursor)
        assert not page.gap, "events were trimmed before they were read"
        cursor = page.cursor
        ledger.read(page.events)
        submits.update(one.task for one in page.events if one.event is Event.SUBMIT)
        if not page.events:
            await asyncio.sleep(0.2)


async def killed(url: str, seconds: int, rate: int, workers: int) -> dict[str, Any]:
    """What was lost and what was doubled."""
    engine = LocalEngine(open_store(url))
    await engine.open()
    ledger, submits = Ledger(may_repeat=url.startswith("nats:")), Counter[str]()
    following = asyncio.ensure_future(follow(engine, ledger, submits))
    try:
        begin = (engine.now() // 1000 + 5) * 1000
        end = begin + seconds * 1000
        times = Recurrence(every=1, jitter=1.0, catch_up="all", start=begin, end=end)
        wishes = [
            replace(one, task=replace(one.task, name="tick", args=b"{}"))
            for one in schedules.requests("tick", rate, times)
        ]
        await schedules.put(engine, wishes)
        names = {one.name for one in wishes}
        wanted = {one.id for name in names for one in between(times, name, start=begin, end=end)}
        with tempfile.TemporaryDirectory() as folder:
            crew = Workers(url, workers, Path(folder))
            try:
                await crew.hunt(random.Random(17), seconds + 5)
                give_up = time.monotonic() + PATIENCE_S
                while len(ledger.tasks) < len(wanted) + rate or ledger.unresolved():
                    if following.done():
                        following.result()
                    if time.monotonic() > give_up:
                        break
                    await asyncio.sleep(1)
            finally:
                crew.stop()
        await asyncio.sleep(1)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await engine.close()
    there = set(ledger.tasks) - names
    entries = [ledger.tasks[one] for one in there]
    return {
        "occurrences": len(wanted),
        "killed": crew.killed,
        "lost": len(wanted - there),
        "not_ended": sum(entry.state is not State.COMPLETED for entry in entries),
        "made_up": len(there - wanted),
        "submitted_twice": sum(count > 1 for task, count in submits.items() if task in there)
        * (not url.startswith("nats:")),  # whose log may tell a move twice
        "ended_twice": sum(entry.ends > 1 for entry in entries),
        "runs_lost_with_a_worker": ledger.moves["lose"],
        "verified": len(there & wanted),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("url", help="of an empty store that processes can share")
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--rate", type=int, default=200, help="occurrences in a second")
    parser.add_argument("--workers", type=int, default=3)
    asked = parser.parse_args()
    told = asyncio.run(killed(asked.url, asked.seconds, asked.rate, asked.workers))
    print(json.dumps(told))
    wrong = ("lost", "not_ended", "made_up", "submitted_twice", "ended_twice")
    if any(told[name] for name in wrong):
        sys.exit("Occurrences were lost or doubled.")


if __name__ == "__main__":
    main()
