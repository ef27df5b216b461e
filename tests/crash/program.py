"""What the processes of the crash tests run: `python program.py ROLE URL FOLDER SEED ...`.

Each is made to be killed at any moment. What it did is in files that are only appended to, one
`write` a line, so that a line is there or is not.
"""

import asyncio
import os
import random
import signal
import sys
from pathlib import Path

from andon.contract.requests import ClaimRequest
from andon.engine.base import Submission
from andon.engine.local import LocalEngine
from andon.lifecycle.commands import Complete, Rerun
from andon.model.errors import LeaseLost
from andon.stores.registry import open_store
from andon.worker.calls import Call
from andon.worker.config import WorkerConfig
from andon.worker.context import Context
from andon.worker.registry import Registry, TaskType
from andon.worker.worker import Worker

LEASE = 1.5
MOST_AT_ONCE = 5
OPTIONS = {"lease": LEASE, "max_retries": 100, "retry_delay": 0.02, "backoff": "constant"}


class Lines:
    """A file that lines are appended to."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def add(self, *words: object) -> None:
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())


class Borne:
    """A follow-up of the same kind."""

    def __init__(self, task_id: str) -> None:
        self._id = task_id

    def follow(self, before: str = "", group: str | None = None) -> tuple[Submission, str]:
        return Submission(id=self._id, name="step", options=OPTIONS), self._id


async def work(engine: LocalEngine, folder: Path, rng: random.Random) -> None:
    """A worker whose handler sleeps a little, fails now and then, and says what it did. With the
    word "bear", what was submitted bears a task that names the run: `s0-7-1` in its run 1."""
    done = Lines(folder / "done")
    bears = "bear" in sys.argv[5:]

    async def step(ctx: Context) -> int:
        await asyncio.sleep(rng.random() * 0.15)
        if rng.random() < 0.1:
            raise ValueError("this time it fails")
        done.add(ctx.task_id, ctx.run, ctx.fence)
        if bears and not ctx.task.definition.bearer:
            ctx.follow_up(Borne(f"{ctx.task_id}-{ctx.run}"))
        return ctx.fence

    registry = Registry()
    registry.add(TaskType(name="step", codec=Call(step), handler=step))
    config = WorkerConfig(queues=("default",), concurrency=8, lease=LEASE, shutdown_grace=0.5)
    engine.timekeeper.start()
    await Worker(engine, registry, config, rng=rng).run()


async def submit(engine: LocalEngine, folder: Path, rng: random.Random) -> None:
    """Submit `prefix-0` to `prefix-(count-1)`, and further ones until a file is there, if one is
    named; beginning a little before where it was killed."""
    prefix, count, *named = sys.argv[5:]
    goes_on = [folder / name for name in named]
    path = folder / f"acknowledged-{prefix}"
    known = set(path.read_text().split()) if path.exists() else set[str]()
    said = Lines(path)
    at = max(len(known) - 20, 0)
    # No further, or past all that it may have submitted without being answered.
    least = max(int(count), len(known) + MOST_AT_ONCE if goes_on and known else 0)
    while at < least or not all(file.exists() for file in goes_on):
        most = MOST_AT_ONCE if goes_on else least - at
        some = range(at, at + min(rng.randint(1, MOST_AT_ONCE), most))
        wishes = [
            Submission(
                id=f"{prefix}-{n}", name="step", options=OPTIONS, key=key_of(f"{prefix}-{n}")
            )
            for n in some
        ]
        for outcome in await engine.submit(wishes):
            assert outcome.error is None, outcome.error
            said.add(outcome.id)
        at = some.stop
        await asyncio.sleep(rng.random() * 0.06)  # there is load while others are killed


async def meddle(engine: LocalEngine, folder: Path, rng: random.Random) -> None:
    """Cancel and rerun whatever there is, until told to stop."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    while not stop.is_set():
        ids = acknowledged(folder)
        if ids:
            some = rng.sample(ids, min(3, len(ids)))
            if rng.random() < 0.6:
                await engine.act(some, Rerun())
            if rng.random() < 0.6:  # perhaps what was just rerun, and is about to be claimed
                await engine.cancel(some, force=rng.random() < 0.3)
        await asyncio.sleep(rng.random() * 0.05)


def key_of(task_id: str) -> str:
    """The concurrency key of a task."""
    return f"key{int(task_id.rpartition('-')[2]) % 3}"


def acknowledged(folder: Path) -> list[str]:
    """Ids that some submitter was answered for."""
    return [word for file in folder.glob("acknowledged-*") for word in file.read_text().split()]


async def hold(engine: LocalEngine, folder: Path, rng: random.Random) -> None:
    """Claim one task, say so, and report it when a line comes in; say how that went."""
    request = ClaimRequest(
        worker=f"holder-{os.getpid()}",
        token=f"t{os.getpid()}",
        queues=("default",),
        limit=1,
        lease_ms=round(LEASE * 1000),
    )
    [task] = await engine.claim(request)
    print("claimed", task.id, task.status.fence, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    try:
        state = await engine.report(task, Complete(result=b'"late"'))
        print("taken", state, flush=True)
    except LeaseLost:
        print("refused", flush=True)


ROLES = {"work": work, "submit": submit, "meddle": meddle, "hold": hold}


async def main() -> None:
    role, url, folder, seed = sys.argv[1:5]
    engine = LocalEngine(open_store(url))
    await engine.open()
    Lines(Path(folder) / "up").add(os.getpid())
    try:
        await ROLES[role](engine, Path(folder), random.Random(seed))
    finally:
        await engine.close()


if __name__ == "__main__":
    asyncio.run(main())
