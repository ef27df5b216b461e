"""`andon doctor`: what is fine, what is worth knowing, and what is wrong."""

import json
import sqlite3
from typing import Any

import msgspec
import pytest

from andon.cli import checks
from andon.cli.checks import Facts, Finding, Level
from andon.engine.waiting import KindWait
from andon.lifecycle.admission import admit
from andon.lifecycle.waiting import Why
from andon.model.fleet import QueueConfig, QueueStats, StoreInfo, WorkerInfo
from andon.model.task import Definition, RunCell, Task
from andon.model.words import State

from .conftest import Cli

NOW = 1_900_000_000_000

WORKER = WorkerInfo(id="w1", queues=("default",), seen_at=NOW, code="0123456789abcdef")
INFO = StoreInfo(
    kind="sqlite",
    location="/nowhere/andon.db",
    schema_version=1,
    min_writer=1,
    partitions=1,
    entries=0,
    bytes=0,
    in_memory=False,
    replicas=1,
    retention=None,
    durability={},
)


def facts(**fields: Any) -> Facts:
    given: dict[str, Any] = {
        "info": INFO,
        "now": NOW,
        "queues": [],
        "workers": [],
        "waiting": [],
        "pending": [],
        "unfinished": [],
        **fields,
    }
    return Facts(**given)


def queue(pending: int = 1, age_s: float = 1, **settings: Any) -> tuple[QueueConfig, QueueStats]:
    stats = QueueStats(
        queue="default",
        counts={"pending": pending},
        oldest_pending_at=NOW - round(age_s * 1000) if pending else None,
    )
    return QueueConfig(name="default", **settings), stats


def task(state: State = State.PENDING, **status: Any) -> Task:
    made = admit(Definition(id="t", name="job"), NOW - 60_000, "write")
    return Task(
        definition=made.definition,
        status=msgspec.structs.replace(made.status, state=state, **status),
    )


def worst(found: Any) -> Finding:
    order = [Level.OK, Level.NOTE, Level.WRONG]
    return max(found, key=lambda finding: order.index(finding.level))


def test_a_healthy_store_is_exit_code_0(cli: Cli) -> None:
    cli("storage", "init")
    done = cli("doctor")
    assert "after a power cut\teverything acknowledged survives" in done.stdout
    assert "decided by\tsynchronous=full" in done.stdout
    assert "0 wrong" in done.stderr
    assert json.loads(cli("doctor", "--json").stdout)["wrong"] == 0


def test_what_a_setting_gives_up_is_told(cli: Cli) -> None:
    cli("storage", "init")
    told = cli("doctor", "--url", f"{cli.url}?synchronous=normal").stdout
    assert "note\tafter a power cut\tthe last moments may be lost (synchronous=normal)" in told


def test_tasks_that_nobody_runs_are_exit_code_1(cli: Cli) -> None:
    cli.submit()
    done = cli("doctor", code=1)
    assert "wrong\tworkers\tnone is alive, and tasks wait\tandon worker APP" in done.stdout


@pytest.mark.usefixtures("on_terminal")
def test_on_a_terminal_every_finding_has_its_mark(cli: Cli) -> None:
    cli.submit()
    told = cli("doctor", code=1).stdout
    assert "✓ " in told
    assert "✗  workers:" in told


def test_with_an_application_its_types_are_held_against_what_waits(cli: Cli) -> None:
    cli.submit("charge")
    file = cli.write("doctor_app.py", "from andon import Andon", "app = Andon()")
    done = cli("doctor", file, "--url", cli.url, code=1)
    assert "has no task 'charge', and 1 such task is pending" in done.stdout
    assert "There is no file" in cli.refusal("doctor", "/no/such/app.py")


def test_a_record_that_does_not_decode_is_wrong_and_can_be_deleted(cli: Cli) -> None:
    cli.submit("job", "--id", "t")
    with sqlite3.connect(cli.folder / "andon.db") as db:
        db.execute("UPDATE definition SET body = x'c1'")
    db.close()
    cli.claim()  # sets it aside
    done = cli("doctor", code=1)
    assert "1 record cannot be decoded and is set aside" in done.stdout
    assert cli.lines("tasks", "list", "--state", "unknown")[0][:2] == ["t", "?"]
    assert "does not decode" in cli("tasks", "show", "t").stderr
    cli("tasks", "delete", "t")
    cli("doctor")


# --- one check at a time ---


@pytest.mark.parametrize(
    ("found", "level", "told"),
    [
        (checks.workers(facts()), Level.NOTE, "none is alive"),
        (checks.workers(facts(queues=[queue()])), Level.WRONG, "and tasks wait"),
        (checks.workers(facts(workers=[WORKER])), Level.OK, "1 worker alive"),
        (
            checks.workers(facts(workers=[WorkerInfo(id="w", seen_at=NOW - 40_000)])),
            Level.NOTE,
            "last heard of 40s ago",
        ),
        (
            checks.workers(facts(workers=[WorkerInfo(id="w", seen_at=NOW, state="quiet")])),
            Level.NOTE,
            "claims nothing",
        ),
        (checks.queues(facts(queues=[queue(paused=True)])), Level.NOTE, "paused; 1 task pending"),
        (checks.queues(facts(queues=[queue(max_concurrent=0)])), Level.WRONG, "max_concurrent"),
        (checks.queues(facts(queues=[queue()], workers=[WORKER])), Level.OK, "1 task pending"),
        (
            checks.queues(facts(queues=[queue()], workers=[WorkerInfo(id="w", queues=("mail",))])),
            Level.WRONG,
            "no worker serves it",
        ),
        (
            checks.queues(facts(queues=[queue(age_s=3600)], workers=[WORKER])),
            Level.WRONG,
            "behind: 1 task pending, the oldest for 1h",
        ),
        (checks.timers(facts()), Level.OK, "none is overdue"),
        (
            checks.timers(facts(waiting=[task(State.RETRY, run_at=NOW - 60_000)])),
            Level.WRONG,
            "t is retry and was due 1m ago",
        ),
        (
            checks.timers(facts(waiting=[task(State.SCHEDULED, run_at=NOW + 1)])),
            Level.OK,
            "none is overdue",
        ),
        (
            checks.fan_outs(facts(unfinished=[task(State.COMPLETED, finished_at=NOW - 60_000)])),
            Level.WRONG,
            "1 task ended without all dependents being told",
        ),
        (
            checks.clock(facts(pending=[task()])),
            Level.WRONG,
            "ahead of this machine's",
        ),
    ],
)
def test_a_check_finds_it(found: Any, level: Level, told: str) -> None:
    finding = worst(found)
    assert finding.level is level
    assert told in finding.text


def test_a_run_whose_lease_is_long_over_means_that_no_timer_fires() -> None:
    active = task(State.ACTIVE)
    active.cell = RunCell(run="r", lease_until=NOW - 60_000, heartbeat_at=NOW - 90_000)
    assert worst(checks.timers(facts(waiting=[active]))).level is Level.WRONG


def test_a_file_that_everybody_may_write_is_wrong(cli: Cli) -> None:
    cli("storage", "init")
    file = cli.folder / "andon.db"
    info = msgspec.structs.replace(INFO, location=str(file))
    for mode, level in ((0o600, Level.OK), (0o644, Level.NOTE), (0o666, Level.WRONG)):
        file.chmod(mode)
        assert worst(checks.file_system(info)).level is level


def test_a_disk_without_room_is_wrong(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("storage", "init")
    monkeypatch.setattr(checks, "LEAST_FREE", 1 << 60)
    info = msgspec.structs.replace(INFO, location=str(cli.folder / "andon.db"))
    finding = worst(checks.file_system(info))
    assert finding.level is Level.WRONG
    assert finding.about == "disk"


# --- code ---


def test_a_kind_that_nobody_has_code_for_is_wrong_and_named() -> None:
    wait = KindWait(
        queue="default",
        kind="shop.charge@2",
        why=Why.NO_CODE,
        text="waits for a worker that has shop.charge v2",
        oldest_at=NOW - 90_000,
    )
    [finding] = checks.without_code(facts(workers=[WORKER], waits=[wait]))
    assert (finding.level, finding.about) == (Level.WRONG, "queue default")
    assert "shop.charge v2 waits for a worker that has shop.charge v2" in finding.text
    assert "1m 30s" in finding.text or "90" in finding.text
    assert "--queue default --name shop.charge" in finding.todo


def test_other_reasons_to_wait_are_told_elsewhere() -> None:
    wait = KindWait(queue="default", kind="a", why=Why.BUSY, text="every worker is full")
    assert list(checks.without_code(facts(workers=[WORKER], waits=[wait]))) == []


def test_a_worker_that_names_no_types_is_named() -> None:
    old = WorkerInfo(id="old", queues=("default",), seen_at=NOW)
    [finding] = checks.without_code(facts(workers=[WORKER, old]))
    assert (finding.level, finding.about) == (Level.NOTE, "worker old")
    assert "names no task types" in finding.text
