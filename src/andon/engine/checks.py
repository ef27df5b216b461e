"""The checks of the doctor, except those that need the application. Each check takes what was read
and returns findings."""

import os
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from andon.contract.queries import Query
from andon.engine import schedule_checks
from andon.engine.findings import Finding, Level
from andon.engine.fleet import known_queues
from andon.engine.waiting import KindWait
from andon.lifecycle.faces.fields import iso
from andon.lifecycle.routing import parse_kind
from andon.lifecycle.waiting import Why, spoken
from andon.model.errors import ConfigurationError
from andon.model.fleet import QueueConfig, QueueStats, StoreInfo, WorkerInfo
from andon.model.task import RECORD_VERSION, Task
from andon.model.wording import ACCIDENTS, ago, plural, size_of, span
from andon.model.words import State

if TYPE_CHECKING:
    from andon.engine.base import Engine

LATE_MS = 30_000
"""A timer this late means that no timekeeper fires it."""

BEHIND_S = 600.0
CLOCKS_APART_S = 5.0
LEAST_FREE = 200 * 1024 * 1024
_EARLIEST_S = 1_735_689_600  # 2025: no machine with this release can be older
_SAMPLE = 500


class Facts(msgspec.Struct, kw_only=True):
    """Everything the checks look at, read once."""

    info: StoreInfo
    now: int
    queues: list[tuple[QueueConfig, QueueStats]]
    workers: list[WorkerInfo]
    waiting: list[Task]  #: some that wait for a time or run, oldest first
    pending: list[Task]  #: some
    unfinished: list[Task]  #: some that have ended and whose dependents were not notified
    waits: list[KindWait] = []  #: what keeps ready tasks from starting
    schedules: list[Task] = []  #: that are live, the first of them
    no_logs: str = ""  #: why logs and artifacts of runs are not kept; empty: they are


async def read(engine: "Engine") -> Facts:
    """Read what the checks need."""
    # Only a local store can list these; a service's own timekeeper handles them.
    store = getattr(engine, "store", None)
    ended = [] if store is None else [one for one, _ in await store.take_unsettled(_SAMPLE)]
    timed = (State.SCHEDULED, State.RETRY, State.ACTIVE)
    return Facts(
        info=await engine.info(),
        now=engine.now(),
        queues=await known_queues(engine),
        workers=await engine.workers(),
        waiting=list((await engine.find(Query(states=timed, limit=_SAMPLE))).tasks),
        pending=list((await engine.find(Query(states=(State.PENDING,), limit=_SAMPLE))).tasks),
        unfinished=[task for task in await engine.get(ended) if task is not None],
        waits=await engine.waits(),
        schedules=await schedule_checks.read_schedules(engine),
        no_logs=await _why_no_logs(engine),
    )


async def _why_no_logs(engine: "Engine") -> str:
    """Why logs are not kept, as far as this process knows: no place is named, or it cannot be
    opened."""
    try:
        return "" if await engine.keeps_logs() else "there is no place for them"
    except ConfigurationError as error:
        return str(error).removesuffix(".")


def store_checks(
    facts: Facts, declared: schedule_checks.Declared | None = None
) -> Iterator[Finding]:
    """Every finding about the store and what is in it. `declared` is what the application's code
    says of schedules, where that is at hand."""
    yield from durability(facts.info)
    yield from versions(facts.info)
    yield from file_system(facts.info)
    yield from in_line(facts.info)
    yield from clock(facts)
    yield from workers(facts)
    yield from queues(facts)
    yield from without_code(facts)
    yield from timers(facts)
    yield from schedule_checks.schedules(facts.schedules, facts.now, declared)
    yield from fan_outs(facts)
    yield from records(facts)
    yield from logs(facts)


def durability(info: StoreInfo) -> Iterator[Finding]:
    """What survives which accident."""
    yield Finding(Level.OK, "store", f"{info.kind} at {info.location}")
    for accident, what in info.durability.items():
        level = Level.OK if what.startswith("everything") else Level.NOTE
        yield Finding(level, ACCIDENTS.get(accident, accident), what)
    settings = ", ".join(f"{name}={value}" for name, value in info.settings.items())
    if settings:
        yield Finding(Level.OK, "decided by", settings)


def versions(info: StoreInfo) -> Iterator[Finding]:
    """Schema and record versions."""
    text = f"schema {info.schema_version}, records written by version {info.min_writer} or newer"
    yield Finding(Level.OK, "versions", f"{text}; this release writes {RECORD_VERSION}")


def file_system(info: StoreInfo) -> Iterator[Finding]:
    """Room on the disk, and who may read and write the file."""
    path = Path(info.location)
    if info.in_memory or not path.is_file():
        return
    free = shutil.disk_usage(path.parent).free
    need = max(LEAST_FREE, info.bytes // 2)
    text = f"{size_of(free)} free, the store takes {size_of(info.bytes)}"
    if free < need:
        yield Finding(Level.WRONG, "disk", text, f"free some: less than {size_of(need)} is little")
    else:
        yield Finding(Level.OK, "disk", text)
    beside = [path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))]
    locked = [file for file in beside if file.exists() and not os.access(file, os.R_OK | os.W_OK)]
    if locked or not os.access(path.parent, os.W_OK):
        what = ", ".join(str(file) for file in locked) or str(path.parent)
        yield Finding(
            Level.WRONG, "permissions", f"{what} is not writable", "make it yours: chown, chmod"
        )
        return
    mode = path.stat().st_mode
    if mode & stat.S_IWOTH:
        yield Finding(
            Level.WRONG,
            "permissions",
            f"everybody on this machine may write {path}",
            f"chmod o-w {path}",
        )
    elif mode & stat.S_IROTH:
        yield Finding(
            Level.NOTE,
            "permissions",
            "everybody on this machine may read the tasks",
            f"chmod o-r {path}, if they should not",
        )
    else:
        yield Finding(Level.OK, "permissions", "readable and writable by its owner only")


def in_line(info: StoreInfo) -> Iterator[Finding]:
    """Suspended processes that hold the write lock of the file, or a place in the line for it."""
    if info.kind != "sqlite":
        return
    from andon.stores.sqlite.holders import holders

    for holder in holders(Path(info.location)):
        if holder.is_stopped:
            yield Finding(
                Level.WRONG if holder.writes else Level.NOTE,
                "writers",
                f"{holder}, holds the write lock: nothing is written until it goes on"
                if holder.writes
                else f"{holder}, has a place in the line of writers, who go on without an order",
                f"kill -CONT {holder.pid}, or end it",
            )


def clock(facts: Facts) -> Iterator[Finding]:
    """Whether the store's clock is plausible, beside this machine's and the newest records."""
    here = time.time()
    apart = facts.now / 1000 - here
    newest = max((task.status.created_at for task in facts.pending + facts.waiting), default=0)
    if here < _EARLIEST_S:
        yield Finding(
            Level.WRONG, "clock", f"this machine believes it is {iso(round(here * 1000))}", "set it"
        )
    elif abs(apart) > CLOCKS_APART_S:
        yield Finding(
            Level.WRONG,
            "clock",
            f"the store's clock is {span(abs(apart))} {'ahead of' if apart > 0 else 'behind'} "
            "this machine's",
            "let both follow NTP; Andon goes by the store's",
        )
    elif newest > facts.now + CLOCKS_APART_S * 1000:
        yield Finding(
            Level.WRONG,
            "clock",
            f"there are tasks from the future ({iso(newest)}): the clock was set back",
            "let it follow NTP; timers wait until the clock is there again",
        )
    else:
        yield Finding(Level.OK, "clock", f"{iso(facts.now)}, as this machine's")


def workers(facts: Facts) -> Iterator[Finding]:
    """Which workers are alive."""
    live = len(facts.workers)
    waits = any(_pending(stats) for _, stats in facts.queues)
    if not live:
        yield Finding(
            Level.WRONG if waits else Level.NOTE,
            "workers",
            "none is alive" + (", and tasks wait" if waits else ""),
            "andon worker APP",
        )
        return
    yield Finding(Level.OK, "workers", plural(live, "worker") + " alive")
    for worker in facts.workers:
        if facts.now - worker.seen_at > LATE_MS:
            yield Finding(
                Level.NOTE,
                f"worker {worker.id}",
                f"last heard of {ago(worker.seen_at, facts.now)}",
                "it is gone or stands still; its tasks are taken over when their leases end",
            )
        elif worker.state == "quiet":
            yield Finding(
                Level.NOTE, f"worker {worker.id}", "claims nothing (quiet)", "kill -CONT its pid"
            )


def queues(facts: Facts) -> Iterator[Finding]:
    """Queues in which tasks wait, and what keeps them from starting."""
    serving = [worker for worker in facts.workers if worker.state == "running"]
    for config, stats in facts.queues:
        waiting = _pending(stats)
        if not waiting:
            continue
        about, name = f"queue {config.name}", config.name
        oldest = stats.oldest_pending_at
        age = 0.0 if oldest is None else max(facts.now - oldest, 0) / 1000
        text = f"{plural(waiting, 'task')} pending, the oldest for {span(age)}"
        if config.paused:
            yield Finding(Level.NOTE, about, f"paused; {text}", f"andon queues resume {name}")
        elif config.max_concurrent == 0:
            yield Finding(
                Level.WRONG,
                about,
                f"max_concurrent is 0; {text}",
                f"andon queues configure {name} --max-concurrent none",
            )
        elif serving and not any(name in worker.queues for worker in serving):
            yield Finding(
                Level.WRONG,
                about,
                f"no worker serves it; {text}",
                f"andon worker APP --queues {name}",
            )
        elif serving and age > BEHIND_S:
            yield Finding(
                Level.WRONG,
                about,
                f"behind: {text}",
                "more workers, more --concurrency, or a look at its limits: "
                f"andon queues show {name}",
            )
        elif serving:
            yield Finding(Level.OK, about, text)
        if stats.parked:
            limit = config.max_concurrent_per_key
            stuck = any(w.queue == name and w.why is Why.NO_CODE for w in facts.waits)
            yield Finding(
                Level.NOTE,
                about,
                f"{stats.parked:,} of them wait for others of their key (at most {limit} at once)",
                "some may come after a task that no worker has code for, and wait with it: "
                "andon tasks show ID says so"
                if stuck
                else "",
            )


def without_code(facts: Facts) -> Iterator[Finding]:
    """Tasks that no live worker has code for, and workers that are given everything."""
    for wait in facts.waits:
        if wait.why is not Why.NO_CODE:
            continue
        age = ""
        if wait.oldest_at is not None:
            age = f", the oldest for {span(max(facts.now - wait.oldest_at, 0) / 1000)}"
        name = parse_kind(wait.kind).name
        yield Finding(
            Level.WRONG,
            f"queue {wait.queue}",
            f"{spoken(wait.kind)} {wait.text}{age}",
            "start a worker that has it, or cancel them: "
            f"andon tasks cancel --all --queue {wait.queue} --name {name}",
        )
    for worker in facts.workers:
        if not worker.code:
            yield Finding(
                Level.NOTE,
                f"worker {worker.id}",
                "names no task types: it is given every task of its queues, and what it has no "
                "code for costs a run",
                "it is of an older release, or claims over HTTP without `types`",
            )


def timers(facts: Facts) -> Iterator[Finding]:
    """Whether a timekeeper fires timers."""
    late = [task for task in facts.waiting if _overdue(task) < facts.now - LATE_MS]
    if late:
        first = late[0]
        yield Finding(
            Level.WRONG,
            "timers",
            f"{plural(len(late), 'task')} overdue: {first.id} is {first.state.value} and was due "
            f"{ago(_overdue(first), facts.now)}",
            "no timekeeper runs: start a worker without --no-timekeeper",
        )
    else:
        yield Finding(Level.OK, "timers", "none is overdue")


def fan_outs(facts: Facts) -> Iterator[Finding]:
    """Whether the dependents of ended tasks were notified."""
    old = [
        task
        for task in facts.unfinished
        if task.status.finished_at is not None and task.status.finished_at < facts.now - LATE_MS
    ]
    if old:
        yield Finding(
            Level.WRONG,
            "dependencies",
            f"{plural(len(old), 'task')} ended without all dependents being told, "
            f"{old[0].id} for one",
            "a worker with a timekeeper finishes that: andon worker APP",
        )


def records(facts: Facts) -> Iterator[Finding]:
    """Records that do not decode, and dead letters."""
    unknown = sum(stats.counts.get(State.UNKNOWN.value, 0) for _, stats in facts.queues)
    if unknown:
        yield Finding(
            Level.WRONG,
            "records",
            f"{plural(unknown, 'record')} cannot be decoded and {'is' if unknown == 1 else 'are'} "
            "set aside",
            "andon tasks list --state unknown; then andon tasks delete",
        )
    dead = sum(stats.dead_letters for _, stats in facts.queues)
    if dead:
        yield Finding(Level.NOTE, "dead letters", plural(dead, "dead letter"), "andon dlq list")
    if not unknown and not dead:
        yield Finding(Level.OK, "records", f"{plural(facts.info.entries, 'task')}, none dead")


def logs(facts: Facts) -> Iterator[Finding]:
    """Whether what runs log and leave behind is kept."""
    if facts.no_logs:
        yield Finding(
            Level.NOTE,
            "logs",
            f"what runs log is not kept, and artifacts are refused: {facts.no_logs}",
            "andon storage configure --artifacts URL, or the place that the application names",
        )


def _pending(stats: QueueStats) -> int:
    return stats.counts.get(State.PENDING.value, 0)


def _overdue(task: Task) -> int:
    """When the task was or is due."""
    if task.cell is not None:
        return task.cell.lease_until
    return task.status.run_at or task.status.created_at


def wrong(findings: Sequence[Finding]) -> int:
    """How many findings say that something is wrong."""
    return sum(finding.level is Level.WRONG for finding in findings)
