"""The limit: a bare `sqlite3` loop that writes the rows Andon's SQLite store writes.

The schema, the connection's settings, the statements and their blocks are the store's own; the
bodies are those of real records, made beforehand by submitting and draining with Andon. What is
left out is everything else: encoding and decoding, asyncio, threads, the file lock, looking for
repeated ids, wake-ups. `submit` writes new records in batches; `drain` reads what is ready with
its bodies, stamps it, and writes its completion, each in a transaction of its own.
"""

import asyncio
import shutil
import sqlite3
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from andon.bench.processes import WorkerProcess
from andon.client.app import Andon
from andon.client.ids import IdMaker
from andon.stores.sqlite.connection import connect, prepare
from andon.stores.sqlite.location import parse
from andon.stores.sqlite.lock import WriteLock
from andon.stores.sqlite.rows import write
from andon.stores.sqlite.statements import LANES, LIFE

QUEUE, LANE = 1, 1
SAMPLE = 500


class Bodies(NamedTuple):
    """What one real task left behind: blobs of its definition, its status twice, its events."""

    definition: bytes
    pending: bytes
    completed: bytes
    submit: bytes
    claim: bytes
    complete: bytes
    result: bytes


def real_bodies() -> list[Bodies]:
    """Submit and drain some tasks with Andon; what its store holds of each."""
    folder = Path(tempfile.mkdtemp(prefix="andon-limit-"))
    try:
        return asyncio.run(_lived(f"sqlite:///{folder / 'real.db'}", folder / "real.db"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _lived(url: str, path: Path) -> list[Bodies]:
    from andon.bench.app import noop

    async with Andon(url) as app:
        task = app.task(name=noop.name, queue="bench")(noop.type.handler)
        handles = await app.submit_many(task.draft(i) for i in range(SAMPLE))
        db = sqlite3.connect(path)
        pending = dict(db.execute("SELECT seq, body FROM task"))
        async with WorkerProcess(url, "bench", concurrency=100):
            for handle in handles:
                await handle.result(timeout=60)
        definitions = dict(db.execute("SELECT seq, body FROM definition"))
        completed = dict(db.execute("SELECT seq, body FROM task"))
        results = dict(db.execute("SELECT seq, body FROM result"))
        events: dict[int, list[bytes]] = {}
        for seq, body in db.execute("SELECT seq, body FROM event ORDER BY pos"):
            events.setdefault(seq, []).append(body)
        db.close()
    return [
        Bodies(definitions[s], pending[s], completed[s], *events[s], results[s]) for s in pending
    ]


class Bare:
    """One connection on a fresh file, and the loop over it."""

    def __init__(self, synchronous: str, bodies: list[Bodies], path: Path) -> None:
        location = parse(f"sqlite:///{path}?synchronous={synchronous}")
        self.db = connect(location, write=True)
        lock = WriteLock(location.path)
        prepare(self.db, location, lock)
        lock.close()
        self.bodies = bodies
        self.seq = self.pos = 0
        self._ids = IdMaker()

    def submit(self, n: int, batch: int) -> float:
        """Seconds for `n` records."""
        now = time.time_ns() // 1_000_000
        groups = [
            self._new_rows(min(batch, n - start), now) for start in range(0, n, batch)
        ]  # made before the clock starts
        begun = time.perf_counter()
        for definitions, tasks, events, ready in groups:
            self.db.execute("BEGIN IMMEDIATE")
            write(self.db, LIFE.insert_definition, definitions)
            write(self.db, LIFE.insert_task, tasks)
            write(self.db, LIFE.insert_event, events)
            write(self.db, LANES.insert_ready, ready)
            self.db.execute(LIFE.count, (QUEUE, "pending", len(tasks)))
            self.db.execute("COMMIT")
        return time.perf_counter() - begun

    def _new_rows(self, size: int, now: int) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
        definitions, tasks, events, ready = [], [], [], []
        for _ in range(size):
            self.seq += 1
            self.pos += 1
            b = self.bodies[self.seq % len(self.bodies)]
            definitions.append((self.seq, self._ids(), b.definition))
            tasks.append(
                (self.seq, 0, QUEUE, "pending", 1, None, None, None, None, self.pos, b.pending)
            )
            events.append((self.pos, self.seq, None, now, b.submit))
            ready.append((LANE, 0, now, self.seq, None, None))
        return definitions, tasks, events, ready

    def drain(self, n: int, batch: int) -> float:
        """Seconds to claim and complete the `n` records that are ready."""
        begun = time.perf_counter()
        done = 0
        while done < n:
            claimed = self._claim(batch, f"{done:016x}")
            if not claimed:
                break
            self._complete(claimed)
            done += len(claimed)
        return time.perf_counter() - begun

    def _claim(self, batch: int, token: str) -> list[int]:
        db, now = self.db, time.time_ns() // 1_000_000
        db.execute("BEGIN IMMEDIATE")
        rows = db.execute(LANES.candidates, (LANE, batch)).fetchall()
        events, stamps, gone = [], [], ()
        for index, row in enumerate(rows):
            level, order, seq = row[:3]
            self.pos += 1
            body = self.bodies[seq % len(self.bodies)].claim
            events.append((self.pos, seq, row[6], now, body))
            stamps.append(
                (seq, now + 30_000, f"{token}-{index}", now, "host-1-abcdef", token, now,
                 now + 30_000, self.pos)
            )  # fmt: skip
            gone = (LANE, level, order, seq)
        if gone:
            db.execute(LANES.delete_ready_to, gone)
        write(db, LIFE.stamp, stamps)
        write(db, LIFE.insert_event, events)
        db.execute(LIFE.insert_claim, (token, now, str([row[2] for row in rows])))
        db.execute(LIFE.count, (QUEUE, "pending", -len(rows)))
        db.execute(LIFE.count, (QUEUE, "active", len(rows)))
        db.execute("COMMIT")
        return [row[2] for row in rows]

    def _complete(self, seqs: list[int]) -> None:
        db, now = self.db, time.time_ns() // 1_000_000
        events, moves, results = [], [], []
        for seq in seqs:
            self.pos += 1
            b = self.bodies[seq % len(self.bodies)]
            events.append((self.pos, seq, seq, now, b.complete))
            moves.append(
                (seq, 2, "completed", 3, now + 86_400_000, None, b.completed, None, None, self.pos)
            )
            results.append((seq, b.result))
        db.execute("BEGIN IMMEDIATE")
        write(db, LIFE.chain_event, events)
        write(db, LIFE.move, moves)
        write(db, LIFE.put_result, results)
        db.execute(LIFE.count, (QUEUE, "active", -len(seqs)))
        db.execute(LIFE.count, (QUEUE, "completed", len(seqs)))
        db.execute("COMMIT")

    def counted(self, state: str) -> int:
        """Records in a state, counted by looking at each."""
        (n,) = self.db.execute("SELECT count(*) FROM task WHERE state = ?", (state,)).fetchone()
        return n


def measure(synchronous: str, n: int, bodies: list[Bodies]) -> dict[str, Any]:
    """Submit and drain `n` on a fresh file."""
    folder = Path(tempfile.mkdtemp(prefix="andon-limit-"))
    bare = Bare(synchronous, bodies, folder / "bare.db")
    try:
        submit = bare.submit(n, 200)
        pending = bare.counted("pending")
        drain = bare.drain(n, 100)
        return {
            "submit": {"rate": n / submit, "verified": pending},
            "drain": {"rate": n / drain, "verified": bare.counted("completed")},
        }
    finally:
        bare.db.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    import json

    found = real_bodies()
    print("bytes of bodies:", [len(body) for body in found[0]])
    for _ in range(3):
        for mode in ("full", "normal"):
            print(mode, json.dumps(measure(mode, 20_000, found)))
