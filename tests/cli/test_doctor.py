"""`andon doctor`: what is fine, what is worth knowing, and what is wrong."""

import json
import sqlite3
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace
from tests.lifecycle.examples import recurring

from andon import Andon
from andon.cli import live as live_tasks
from andon.cli.checks import declared_by
from andon.cli.live import Kind, Live
from andon.engine import checks, schedule_checks
from andon.engine.checks import Facts
from andon.engine.findings import Finding, Level
from andon.engine.waiting import KindWait
from andon.lifecycle.admission import admit
from andon.lifecycle.commands import Fail
from andon.lifecycle.waiting import Why
from andon.model.fleet import QueueConfig, QueueStats, StoreInfo, WorkerInfo
from andon.model.recurrence import Recurrence
from andon.model.task import Definition, RunCell, Task, TaskError
from andon.model.words import Reason, State
from andon.signing import SigningKey

from .conftest import Cli

NOW = 1_900_000_000_000

KEY, OTHER = (SigningKey(Ed25519PrivateKey.from_private_bytes(b * 32)) for b in (b"k", b"o"))
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


def test_with_an_application_its_types_are_held_against_what_has_not_ended(cli: Cli) -> None:
    file = cli.write("doctor_app.py", "from andon import Andon", "app = Andon()")
    cli.submit("pending.one", "--id", "ready")
    cli.submit("active.one", "--priority", "5")
    cli.claim()
    cli.submit("retry.one", "--priority", "5", "--option", "retry_delay=600")
    cli.end(Fail(error=TaskError(message="no")))
    cli.submit("blocked.one", "--depends-on", "ready", "--version", "2")
    cli.submit("later.one", "--delay", "1h")
    cli.submit("later.one", "--delay", "2h")
    cli.submit("ended.one", "--priority", "5")
    cli.end()
    told = cli("doctor", file, "--url", cli.url, code=1).stdout
    for name in ("pending", "active", "retry"):
        assert f"has no task '{name}.one', and 1 such task has not ended: 1 {name}" in told
    assert "has no task 'blocked.one' version 2, and 1 such task has not ended: 1 blocked" in told
    assert "has no task 'later.one', and 2 such tasks have not ended: 2 scheduled" in told
    assert "ended.one" not in told
    assert "There is no file" in cli.refusal("doctor", "/no/such/app.py")


def test_a_record_that_does_not_decode_is_wrong_and_can_be_deleted(cli: Cli) -> None:
    cli.submit("job", "--id", "t")
    with closing(sqlite3.connect(cli.folder / "andon.db")) as db, db:
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


def live(counts: dict[Kind, int], **fields: Any) -> Live:
    return Live(Counter(counts), **fields)


def signing(key: SigningKey | None) -> Andon:
    return Andon("memory://", signing_key=key)


STRICT = replace(WORKER, id="strict", trusts=(KEY.key_id,))
OURS, UNSIGNED = (Kind(State.PENDING, "job", 0, key) for key in (KEY.key_id, ""))


@pytest.mark.parametrize(
    ("workers", "app", "seen", "levels", "told"),
    [
        ([WORKER], signing(None), live({UNSIGNED: 1}), [], ""),
        ([STRICT], signing(KEY), live({OURS: 1}), [Level.OK], "strict run only what is signed"),
        ([STRICT], None, None, [Level.OK], KEY.key_id),
        ([STRICT], signing(None), live({}), [Level.OK, Level.WRONG], "ANDON_SIGNING_KEY=FILE"),
        ([STRICT], signing(OTHER), live({}), [Level.OK, Level.WRONG], f"with key {OTHER.key_id}"),
        ([STRICT, WORKER], None, None, [Level.OK, Level.NOTE], "worker w1 ask for none"),
        (
            [STRICT],
            signing(KEY),
            live({OURS: 7, UNSIGNED: 2}),
            [Level.OK, Level.WRONG],
            "2 tasks that have not ended are not signed",
        ),
    ],
)
def test_what_is_signed_is_held_against_what_workers_trust(
    workers: list[WorkerInfo],
    app: Andon | None,
    seen: Live | None,
    levels: list[Level],
    told: str,
) -> None:
    found = list(live_tasks.signatures(seen, workers, app))
    assert [finding.level for finding in found] == levels
    assert told in " ".join(f"{finding.text} {finding.todo}" for finding in found)


def test_a_key_that_is_not_on_this_machine_is_worth_knowing(tmp_path: Path) -> None:
    app = Andon("memory://", signing_key=tmp_path / "none.pem")
    _, found = live_tasks.signatures(live({}), [STRICT], app)
    assert found.level is Level.NOTE
    assert "none.pem cannot be read" in found.text


async def test_what_was_not_looked_at_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_tasks, "MOST_LOOKED", 3)
    monkeypatch.setattr(live_tasks, "_PAGE", 2)
    async with Andon("memory://") as app:
        for name in ("a", "b", "b", "c", "c", "d"):
            await app.submit(name)
            await app.submit(name, delay=60)
        seen = await live_tasks.read_live(await app.engine())
        assert set(seen.cut) == {State.PENDING, State.SCHEDULED}
        *_, note = live_tasks.application(seen, app)
        assert note.level is Level.NOTE
        assert "scheduled, pending only the oldest 3" in note.text


def test_logs_without_a_place_are_told() -> None:
    [found] = checks.logs(facts(no_logs="there is no place for them"))
    assert (found.level, found.about) == (Level.NOTE, "logs")
    assert found.text.endswith("refused: there is no place for them")
    assert "--artifacts" in found.todo
    assert not list(checks.logs(facts()))


def test_a_place_for_logs_that_cannot_be_used_is_told_with_why(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("storage", "init")
    assert "what runs log" not in cli("doctor").stdout
    monkeypatch.setenv("ANDON_ARTIFACTS", "nowhere")
    [line] = [line for line in cli.lines("doctor") if line[1] == "logs"]
    assert line[0] == "note"
    assert "is not kept, and artifacts are refused: There is no place for artifacts at" in line[2]
    assert "'nowhere'" in line[2]


def test_the_place_for_logs_that_an_application_names_is_looked_at_too(cli: Cli) -> None:
    sys.modules.pop("placed_app", None)  # of another file, where this ran before
    cli("storage", "init")
    app = f"from andon import Andon\napp = Andon({cli.url!r}, artifacts='ftp://host/x')\n"
    file = cli.write("placed_app.py", app)
    told = cli("doctor", file, "--url", cli.url).stdout
    assert "artifacts are refused: There is no place for artifacts at 'ftp://host/x'" in told


def schedule(name: str, **status: Any) -> Task:
    """A schedule that fires in a minute, unless something else is said."""
    made = recurring(now=NOW)
    fields = {"next_due": NOW + 60_000, **status}
    reason, owes = fields.pop("reason", None), fields.pop("owes", ())
    there = made.status.schedule
    assert there is not None
    return Task(
        definition=replace(made.definition, id=name),
        status=replace(made.status, schedule=replace(there, **fields), reason=reason, owes=owes),
    )


FAILING: dict[str, Any] = {"paused_at": NOW, "failures": 3, "reason": Reason.FAILURES_IN_A_ROW}
BY_HAND: dict[str, Any] = {"paused_at": NOW, "reason": Reason.PAUSED}
NOWHERE = Recurrence(cron=("0 2 * * *",), tz="Nowhere/Town")

SCHEDULES = {
    "all is well": ([schedule("a")], Level.OK, "1 schedule, none is late"),
    "one did not fire": (
        [schedule("a"), schedule("b", next_due=NOW - 120_000)],
        Level.WRONG,
        "1 schedule did not fire: b was due 2m ago",
    ),
    "one owes what it bore": (
        [schedule("b", next_due=NOW - 120_000, owes=(Definition(id="b:1", name="job"),))],
        Level.OK,
        "1 schedule, none is late",
    ),
    "one paused itself": ([schedule("a", **FAILING)], Level.WRONG, "schedule a is paused after"),
    "somebody paused two": (
        [schedule("a", **BY_HAND), schedule("b", **BY_HAND)],
        Level.NOTE,
        "schedules a, b are paused by hand",
    ),
    "one cannot be decided": (
        [schedule("a", recurrence=NOWHERE, next_due=NOW - 120_000)],
        Level.WRONG,
        "its times cannot be computed on this machine: Time zone 'Nowhere/Town'",
    ),
    "one has left the code": (
        [
            schedule("a", application="shop", release="1.10"),
            schedule("b", application="shop", release="1.9"),
            schedule("c", application="other", release="1"),
        ],
        Level.NOTE,
        "schedule b is declared no more",
    ),
}


@pytest.mark.parametrize("what", SCHEDULES)
def test_schedules_that_do_not_fire_or_are_declared_no_more_are_named(what: str) -> None:
    found, level, text = SCHEDULES[what]
    finding = worst(schedule_checks.schedules(found, NOW))
    assert finding.level is level
    assert finding.text.startswith(text)
    assert finding.todo or level is Level.OK


def test_an_application_says_itself_which_schedules_it_declares() -> None:
    app = Andon("memory://", name="shop", release="2")

    @app.task(name="a", every=60)
    async def a() -> None: ...

    live = [schedule(name, application="shop", release="2") for name in ("a", "b")]
    finding = worst(schedule_checks.schedules(live, NOW, declared_by(app)))
    assert finding.text.startswith("schedule b is declared no more")
