"""Workers: what each is, runs, and can run; and what none can run."""

from collections.abc import Mapping, Sequence

import msgspec

from andon.dashboard.views.looks import line_of
from andon.engine.waiting import KindWait
from andon.lifecycle.routing import parse_kind
from andon.lifecycle.waiting import Why, spoken
from andon.model.code import Code
from andon.model.fleet import WorkerInfo
from andon.model.task import Task

LATE_MS = 30_000
"""A worker that has sent no sign of life for so long is late."""

MOST_RUNS = 10


class RunOfWorker(msgspec.Struct, frozen=True, kw_only=True):
    """A task that a worker runs."""

    id: str
    name: str
    progress: int
    since: int | None  #: ms UTC


class WorkerRow(msgspec.Struct, frozen=True, kw_only=True):
    """One worker."""

    id: str
    host: str
    pid: int
    state: str
    is_late: bool
    active: int
    concurrency: int
    queues: list[str]
    started_at: int
    seen_at: int
    types: list[str] | None  #: what it has code for; None: not known here
    takes_all: bool  #: it names no types, and gets tasks of all types
    trusts: list[str]
    runs: list[RunOfWorker]


class Lacking(msgspec.Struct, frozen=True, kw_only=True):
    """Ready tasks of one kind that no worker can run."""

    queue: str
    name: str
    said: str
    text: str
    oldest_at: int | None


class Workers(msgspec.Struct, frozen=True, kw_only=True):
    """All live workers, and what none of them can run."""

    now: int
    rows: list[WorkerRow]
    lacking: list[Lacking]


def workers_of(
    workers: Sequence[WorkerInfo],
    codes: Mapping[str, Code] | None,
    runs: Mapping[str, Sequence[Task]],
    waits: Sequence[KindWait],
    now: int,
) -> Workers:
    """Workers by id. `codes` None: the lists that their digests stand for are not known here."""
    return Workers(
        now=now,
        rows=[
            WorkerRow(
                id=one.id,
                host=line_of(one.host, 80),
                pid=one.pid,
                state=one.state,
                is_late=now - one.seen_at > LATE_MS,
                active=max(one.active, min(len(runs.get(one.id, ())), MOST_RUNS)),
                concurrency=one.concurrency,
                queues=list(one.queues),
                started_at=one.started_at,
                seen_at=one.seen_at,
                types=_types(one, codes),
                takes_all=not one.code,
                trusts=list(one.trusts),
                runs=[_run(task) for task in runs.get(one.id, ())[:MOST_RUNS]],
            )
            for one in sorted(workers, key=lambda one: one.id)
        ],
        lacking=[
            Lacking(
                queue=wait.queue,
                name=parse_kind(wait.kind).name,
                said=spoken(wait.kind),
                text=wait.text,
                oldest_at=wait.oldest_at,
            )
            for wait in waits
            if wait.why in (Why.NO_CODE, Why.NO_WORKER)
        ],
    )


def _types(worker: WorkerInfo, codes: Mapping[str, Code] | None) -> list[str] | None:
    code = None if codes is None else codes.get(worker.code)
    if code is None:
        return None
    return [f"{name} v{version}" if version else name for name, version in code.types]


def _run(task: Task) -> RunOfWorker:
    return RunOfWorker(
        id=task.id,
        name=line_of(task.definition.name, 80),
        progress=task.status.progress if task.cell is None else task.cell.progress,
        since=task.status.retried_at or task.status.started_at,
    )
