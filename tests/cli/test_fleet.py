"""`andon queues`, `workers`, `storage`, `events`, `wait`, `bench`, `demo`, `top`."""

import json
import sys
from typing import Any

import pytest

from andon.engine.local import LocalEngine
from andon.model.code import Code
from andon.model.fleet import WorkerInfo
from andon.stores.sqlite.connection import SCHEMA_VERSION

from .conftest import Cli

# --- queues ---


def test_queues_are_listed_with_their_counts(cli: Cli) -> None:
    cli.submit("job", "--id", "a")
    cli.submit("job", "--id", "b", "--queue", "mail")
    rows = {row[0]: row for row in cli.lines("queues", "list")}
    assert rows["default"][1] == "running"
    listed = {queue["name"]: queue for queue in cli.json("queues", "list")}
    assert listed["mail"]["counts"] == {"pending": 1}
    assert cli.json("queues", "show", "mail")["counts"] == {"pending": 1}


def test_the_history_of_queues_is_a_row_a_day_the_newest_first(cli: Cli) -> None:
    cli.submit("job", "--queue", "mail")
    cli.submit("job")
    rows = cli.lines("queues", "history")
    assert len(rows) == 7
    assert [row[0] for row in rows] == sorted((row[0] for row in rows), reverse=True)
    assert sum(int(row[1]) for row in rows) == 2
    assert sum(int(row[1]) for row in cli.lines("queues", "history", "mail")) == 1


def test_the_history_as_json_has_each_queue_with_its_days_and_its_total(cli: Cli) -> None:
    cli.submit("job", "--queue", "mail")
    cli.submit("job")
    mail = cli.json("queues", "history", "mail", "--days", "2")
    counts = {"submitted": 1, "processed": 0, "failed": 0}
    assert (mail["queue"], mail["total"]) == ("mail", counts)
    assert [day for day in mail["days"] if day["submitted"]] == [
        {"day": max(day["day"] for day in mail["days"] if day["submitted"]), **counts}
    ]
    assert [one["queue"] for one in cli.json("queues", "history")] == ["default", "mail"]


@pytest.mark.usefixtures("on_terminal")
def test_the_history_has_a_total_and_fits_a_narrow_terminal(cli: Cli) -> None:
    cli.submit()
    cli.fail()
    shown = cli("queues", "history", "--days", "2").stdout.splitlines()
    assert max(len(line.rstrip()) for line in shown) <= 80
    [head] = [line.split() for line in shown if "submitted" in line]
    assert head == ["day", "(UTC)", "submitted", "processed", "failed", "failed", "%"]
    [total] = [line.split() for line in shown if "total" in line]
    assert total == ["total", "1", "1", "1", "100.0"]


def test_the_history_of_a_queue_that_is_not_there_names_those_that_are(cli: Cli) -> None:
    cli.submit()
    assert "There are: default." in cli.refusal("queues", "history", "mial")
    cli("queues", "history", "--days", "91", code=2)


@pytest.mark.usefixtures("on_terminal")
def test_queues_as_another_system_count_under_its_names(cli: Cli) -> None:
    cli.submit("job", "--id", "a")
    assert "QUEUED" in cli("queues", "list", "--as", "cbintel").stdout


def test_retry_policies_are_set_used_listed_and_deleted(cli: Cli) -> None:
    cli.submit("job")
    assert cli.json("policies", "list") == {}
    cli("policies", "set", "gentle", "max_retries=10", "retry_delay=60", 'retry_on=["TIMEOUT"]')
    stored = {"max_retries": 10, "retry_delay": 60, "retry_on": ["TIMEOUT"]}
    assert cli.json("policies", "list") == {"gentle": stored}
    assert cli.json("policies", "show", "gentle") == {"name": "gentle", **stored}
    assert "max_retries=10" in cli("policies", "list").stdout
    cli.submit("job", "--id", "a", "--retry", "gentle")
    assert cli.json("tasks", "show", "a")["policy"]["max_retries"] == 10
    refused = cli.refusal("submit", "job", "--retry", "gentel")
    assert "Did you mean 'gentle'?" in refused
    cli("queues", "configure", "mail", "--policy", "retry=gentle")
    assert "'mail'" in cli.refusal("policies", "delete", "gentle")
    cli("queues", "configure", "mail", "--policy", "retry=unset")
    assert cli.lines("policies", "delete", "gentle") == [["gentle", "deleted"]]
    assert "There is none yet" in cli.refusal("policies", "show", "gentle")


def test_what_is_no_retry_policy_is_refused(cli: Cli) -> None:
    cli.submit("job")
    assert "'timeout'" in cli.refusal("policies", "set", "x", "timeout=5")
    assert "Did you mean 'max_retries'" in cli.refusal("policies", "set", "x", "max_retrys=5")
    assert "OPTION=JSON" in cli("policies", "set", "x", "max_retries", code=2).stderr
    assert cli.json("policies", "list") == {}


def test_a_paused_queue_is_resumed(cli: Cli) -> None:
    cli.submit("job", "--id", "a")
    assert cli.lines("queues", "pause", "default") == [["default", "paused"]]
    assert cli.claim() == []
    assert cli.lines("queues", "list")[0][1] == "paused"
    assert cli.lines("queues", "resume", "default") == [["default", "running"]]
    assert len(cli.claim()) == 1


def test_a_queue_that_there_is_not_is_neither_shown_nor_paused(cli: Cli) -> None:
    cli.submit()
    for verb in ("show", "pause", "resume"):
        assert "There is no queue 'mial'. There are: default." in cli.refusal(
            "queues", verb, "mial"
        )
    assert len(cli.lines("queues", "list")) == 1


def test_settings_are_set_kept_and_taken_away(cli: Cli) -> None:
    cli(
        "queues", "configure", "mail", "--max-concurrent", "5", "--per-key", "1", "--rate-limit",
        "300/m", "--rate-burst", "2", "--max-size", "9", "--on-full", "discard-old", "--weight",
        "3", "--policy", "max_retries=7", "--policy", "on_shutdown=stop",
    )  # fmt: skip
    queue = cli.json("queues", "show", "mail")
    assert queue["max_concurrent"] == 5
    assert queue["max_concurrent_per_key"] == 1
    assert queue["rate_limit"] == 5.0
    assert queue["policy"] == {"max_retries": 7, "on_shutdown": "stop"}
    cli("queues", "configure", "mail", "--max-concurrent", "none", "--policy", "max_retries=unset")
    queue = cli.json("queues", "show", "mail")
    assert queue["max_concurrent"] is None
    assert queue["max_size"] == 9
    assert queue["policy"] == {"on_shutdown": "stop"}
    assert cli.json("submit", "job", "--queue", "mail")["policy"]["on_shutdown"] == "stop"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--max-concurrent", "-1"], "max_concurrent must be at least 0"),
        (["--weight", "0"], "weight must be at least 1"),
        (["--rate-limit", "0"], "rate_limit must be more than 0"),
        (["--policy", "max_retires=1"], "no policy option 'max_retires'"),
        (["--policy", "on_shutdown=dance"], "on_shutdown"),
    ],
)
def test_settings_that_cannot_be_are_refused_and_make_no_queue(
    cli: Cli, given: list[str], told: str
) -> None:
    assert told in cli.refusal("queues", "configure", "mail", *given)
    assert cli.lines("queues", "list") == []


def test_settings_that_make_no_sense_are_usage_errors(cli: Cli) -> None:
    for given in (["--rate-limit", "fast"], ["--max-size", "big"], ["--policy", "x"]):
        cli("queues", "configure", "mail", *given, code=2)
    assert "queue name" in cli.refusal("queues", "configure", "no spaces")


# --- workers ---


def test_workers_are_listed(cli: Cli) -> None:
    cli("storage", "init")
    assert cli.lines("workers", "list") == []
    info = WorkerInfo(id="w1", host="here", pid=7, queues=("a", "b"), concurrency=9, active=2)
    cli.behind(lambda engine: engine.put_worker(info))
    [row] = cli.lines("workers", "list")
    assert row[:6] == ["w1", "here", "7", "running", "2/9", "a,b"]
    assert cli.json("workers", "list")[0]["id"] == "w1"


def test_a_worker_that_is_gone_is_removed_and_its_tasks_are_tried_again(cli: Cli) -> None:
    for name in ("a", "b"):
        cli.submit("job", "--id", name, "--option", "max_retries=3", "--option", "retry_delay=null")
    cli.claim(2)
    cli.behind(lambda engine: engine.put_worker(WorkerInfo(id="w", seen_at=engine.now())))
    assert [worker["id"] for worker in cli.json("workers", "list")] == ["w"]
    looked = cli("workers", "remove", "w", "--dry-run")
    assert looked.stderr == "2 tasks would be taken from the worker.\n"
    assert "Nobody can be asked here" in cli("workers", "remove", "w", code=2).stderr
    assert cli.state("a") == "active"
    removed = cli("workers", "remove", "w", "--yes")
    assert removed.stderr == "2 tasks taken from the worker.\n"
    assert {row.split("\t")[0] for row in removed.stdout.splitlines()} == {"a", "b"}
    assert [cli.state(name) for name in ("a", "b")] == ["pending"] * 2
    assert cli.json("workers", "list") == []
    nothing = cli("workers", "remove", "w", "--yes")
    assert (nothing.stdout, nothing.stderr) == ("", "0 tasks taken from the worker.\n")


# --- storage ---


def facts(cli: Cli, *args: str) -> dict[str, str]:
    return {row[0]: row[1] for row in cli.lines("storage", *args)}


def test_init_says_how_the_store_is_set_up(cli: Cli) -> None:
    told = facts(cli, "init", "--retention", "1h", "--replicas", "1", "--partitions", "2")
    assert told["Entries"].startswith("0 @ ")
    assert told["Memory Based"] == "false"
    assert told["Replicas"] == "1"
    assert told["Archive Period"] == "1h"
    assert told["Partitions"] == "2"
    assert told["after a power cut"].startswith("everything acknowledged")
    assert facts(cli, "info") == facts(cli, "init")
    assert cli.json("storage", "info")["retention"] == 3600


def test_retention_is_the_default_of_what_is_submitted(cli: Cli) -> None:
    cli("storage", "init")
    facts(cli, "configure", "5h")
    kept = cli.json("submit", "job")["policy"]["retention"]
    assert set(kept.values()) == {18_000.0}
    assert facts(cli, "configure", "--retention", "none")["Archive Period"].startswith("as each")
    assert "retention" not in cli.json("submit", "job")["policy"]


def test_what_a_file_cannot_do_is_refused(cli: Cli) -> None:
    assert "use the URL memory://" in cli.refusal("storage", "init", "--memory")
    assert "has one copy" in cli.refusal("storage", "init", "--replicas", "3")
    assert not list(cli.folder.iterdir())
    cli("storage", "init", "--partitions", "2")
    assert "fixed" in cli.refusal("storage", "init", "--partitions", "4")
    assert "fixed" in cli.refusal("storage", "configure", "--partitions", "4")
    cli("storage", "init", "--partitions", "0", code=2)
    assert "Say for how long" in cli("storage", "configure", code=2).stderr
    assert "negative" in cli("storage", "configure", "--", "-5h", code=2).stderr


def test_a_store_in_memory_says_what_it_is(cli: Cli) -> None:
    done = cli("storage", "init", "--memory", "--url", "memory://")
    assert "Memory Based\ttrue" in done.stdout
    assert "nothing of this was kept" in done.stderr


def test_migrate_says_which_schema_it_is(cli: Cli) -> None:
    cli("storage", "init")
    assert f"has schema {SCHEMA_VERSION}, the newest known" in cli("storage", "migrate").stdout
    assert cli.json("storage", "migrate") == {"schema_version": SCHEMA_VERSION}


# --- events ---


def test_events_are_printed_and_gone_on_with(cli: Cli) -> None:
    cli.submit("job", "--id", "a")
    first = cli("events")
    assert [line.split("\t")[1:5] for line in first.stdout.splitlines()] == [
        ["a", "job", "submit", "pending"]
    ]
    cursor = first.stderr.split()[-1]
    cli.end()
    moves = [row[3] for row in cli.lines("events", "--from", cursor)]
    assert moves == ["claim", "complete"]


def test_events_are_filtered(cli: Cli) -> None:
    cli.submit("job", "--id", "a")
    cli.submit("job", "--id", "b", "--queue", "mail")
    cli.end()
    assert [row[1] for row in cli.lines("events", "--queue", "mail")] == ["b"]
    assert [row[1] for row in cli.lines("events", "--state", "completed")] == ["a"]
    assert [row[3] for row in cli.lines("events", "--task", "a")] == ["submit", "claim", "complete"]
    assert "no queue" in cli.refusal("events", "--queue", "nope")
    assert "no state" in cli.refusal("events", "--state", "nope")
    assert "not both" in cli("events", "--from", "1", "--since-start", code=2).stderr


def test_events_as_json_are_one_object_per_line(cli: Cli) -> None:
    cli.submit("job", "--id", "a")
    cli.fail()
    events = [json.loads(line) for line in cli("events", "--json").stdout.splitlines()]
    assert [(e["event"], e["from"], e["to"]) for e in events] == [
        ("submit", None, "pending"),
        ("claim", "pending", "active"),
        ("terminate", "active", "failed"),
    ]
    assert events[2]["error"]["message"] == "out of paper"


def test_events_as_another_system_are_its_sequences(cli: Cli) -> None:
    cli.submit("job", "--id", "a")
    names = [row[3] for row in cli.lines("events", "--as", "cbintel")]
    assert names == ["PENDING", "QUEUED"]
    told = [json.loads(x) for x in cli("events", "--as", "cbintel", "--json").stdout.splitlines()]
    assert [entry["status"] for entry in told] == ["PENDING", "QUEUED"]
    assert {entry["task"] for entry in told} == {"a"}


# --- wait ---


def test_wait_is_0_only_if_all_have_completed(cli: Cli) -> None:
    cli.submit("job", "--id", "good")
    cli.end()
    cli.submit("job", "--id", "bad")
    cli.fail()
    assert cli.lines("wait", "good") == [["good", "completed", ""]]
    assert cli.lines("wait", "good", "bad", code=1) == [
        ["good", "completed", ""],
        ["bad", "failed", "out of paper"],
    ]
    assert json.loads(cli("wait", "good", "--json").stdout)["result"] == {"answer": 42}
    assert "There is no task 'nobody'" in cli.refusal("wait", "nobody")


def test_wait_gives_up_after_its_timeout(cli: Cli) -> None:
    cli.submit("job", "--id", "a")
    done = cli("wait", "a", "--timeout", "0.05", code=1)
    assert "1 of 1 have not ended within 0.05 s; a is pending" in done.stderr


# --- the thin ones ---


def test_bench_hands_over_to_the_library(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    from types import SimpleNamespace

    asked: list[Any] = []

    def run(
        kind: str, *, url: str | None, n: int | None, concurrency: int | None, how: str | None
    ) -> dict[str, Any]:
        asked.append((kind, url, n, concurrency, how))
        return {"n": n, "rate": 12345.678, "verified": n}

    monkeypatch.setattr("andon.cli.bench.find_spec", lambda name: True)
    monkeypatch.setitem(sys.modules, "andon.bench", SimpleNamespace(run=run))
    assert cli.json("bench", "drain", "--n", "50")["verified"] == 50
    cli("bench", "submit", "--how", "single")
    assert asked == [("drain", cli.url, 50, None, None), ("submit", cli.url, None, None, "single")]
    assert "12,345.68" in cli("bench", "submit").stdout
    cli("bench", "sleep", code=2)
    cli("bench", "submit", "--n", "0", code=2)


def test_demo_hands_over_to_the_library(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    from types import SimpleNamespace

    asked: list[Any] = []

    def run_demo(folder: str | None, **options: Any) -> int:
        asked.append((folder, options))
        return 1

    monkeypatch.setattr("andon.cli.demo.find_spec", lambda name: True)
    monkeypatch.setitem(sys.modules, "andon.demo", SimpleNamespace(run_demo=run_demo))
    cli("demo", str(cli.folder), "--fresh", code=1)
    [(folder, options)] = asked
    assert folder == str(cli.folder)
    assert options["fresh"] is True
    cli("demo", "/no/such/folder", code=2)


@pytest.mark.parametrize("command", [("demo",), ("bench", "submit")])
def test_a_part_that_is_not_installed_is_one_sentence(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setattr(f"andon.cli.{command[0]}.find_spec", lambda name: None)
    assert "install a whole release" in cli.refusal(*command)


def test_top_needs_a_terminal(cli: Cli) -> None:
    cli.submit()
    assert "top draws on a terminal" in cli.refusal("top")


@pytest.mark.usefixtures("on_terminal")
def test_top_says_what_to_install(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "textual", None)
    monkeypatch.delattr("andon.top", raising=False)  # the next import would set it
    for name in [one for one in sys.modules if one.startswith(("textual.", "andon.top"))]:
        monkeypatch.delitem(sys.modules, name)
    cli.submit()
    assert "andon top needs textual" in cli.refusal("top")
    assert "pip install 'andon[top]'" in cli.refusal("top")


# --- what waits for code ---


def test_what_a_task_waits_for_is_shown_with_it_its_queue_and_by_doctor(cli: Cli) -> None:
    cli.submit("shop.charge", "--id", "one")

    async def tell(engine: LocalEngine) -> None:
        code = Code.of([("mail.send", 0)])
        await engine.keep_code(code)
        await engine.put_worker(WorkerInfo(id="w", queues=("default",), code=code.digest))

    cli.behind(tell)
    text = "waits for a worker that has shop.charge"
    assert ["waits", text] in cli.lines("tasks", "show", "one")
    assert cli.json("tasks", "show", "one")["waits_for"] == {"why": "no-code", "text": text}
    assert f"waits\tshop.charge {text}" in cli("queues", "show", "default").stdout
    assert f"default: shop.charge {text}" in cli("queues", "list").stderr
    [queue] = cli.json("queues", "list")
    assert [(one["name"], one["version"], one["why"]) for one in queue["waits"]] == [
        ("shop.charge", 0, "no-code")
    ]
    assert text in cli("doctor", code=1).stdout
