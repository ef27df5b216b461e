"""`andon schedules`: on the store itself, and over a service."""

import asyncio
import json

import pytest

from andon import Andon

from .conftest import Cli

MARCH = ("--cron", "30 2 * * *", "--tz", "Europe/Berlin")


def test_a_schedule_is_made_shown_and_changed(cli: Cli) -> None:
    cli("schedules", "add", "nightly", "report", *MARCH, "--args", '{"n": 1}', "--count", "9")
    made = cli.json("schedules", "show", "nightly")
    assert (made["cron"], made["tz"], made["count"]) == (["30 2 * * *"], "Europe/Berlin", 9)
    assert (made["task"]["name"], made["task"]["args"]) == ("report", {"n": 1})
    assert len(made["next"]) == 5
    cli("schedules", "edit", "nightly", "--every", "90m", "--count", "none", "--overlap", "skip")
    after = cli.json("schedules", "show", "nightly")
    assert (after["cron"], after["every"], after["count"]) == ([], 5400, None)
    assert (after["overlap"], after["task"]["args"]) == ("skip", {"n": 1})
    [row] = cli.lines("schedules", "list")
    assert row[:3] == ["nightly", "report", "every 1h 30m Europe/Berlin"]


def test_a_schedule_is_shown_as_each_system_that_has_them_shows_its_own(cli: Cli) -> None:
    cli("schedules", "add", "nightly", "report", *MARCH, "--args", '{"n": 1}', "--overlap", "skip")
    cli("schedules", "add", "often", "report", "--every", "90s")
    cli("schedules", "pause", "often")
    jobbers = cli.json("schedules", "show", "nightly", "--as", "jobbers")
    assert (jobbers["cron_expr"], jobbers["enabled"]) == ("30 2 * * *", True)
    assert jobbers["concurrency_policy"] == "skip_if_running"
    asynq = {one["id"]: one for one in cli.json("schedules", "list", "--as", "asynq")}
    assert asynq["nightly"]["spec"] == "CRON_TZ=Europe/Berlin 30 2 * * *"
    assert (asynq["often"]["spec"], asynq["often"]["next_enqueue_at"]) == ("@every 90s", None)
    assert asynq["nightly"]["task_payload"] == {"n": 1}
    assert 'Queue("default")' in asynq["nightly"]["enqueue_options"]
    run = cli.json("schedules", "run", "nightly")
    assert run
    asynq = cli.json("schedules", "show", "nightly", "--as", "asynq")
    assert asynq["prev_enqueue_at"].startswith("20")
    choria = cli.json("schedules", "show", "often", "--as", "choria")
    assert (choria["Schedule"], choria["TaskType"], choria["MaxTries"]) == (
        "@every 90s",
        "report",
        4,
    )
    assert ["Schedule", "@every 90s"] in cli.lines("schedules", "show", "often", "--as", "choria")
    assert cli.json("schedules", "show", "often", "--as", "taskcluster")["name"] == "often"


def test_what_was_promised_of_its_tasks_holds_when_something_else_is_changed(cli: Cli) -> None:
    cli("schedules", "add", "s", "job", "--every", "1h", "--option", "max_retries=7")
    cli("schedules", "edit", "s", "--every", "2h", "--option", "timeout=30")
    policy = cli.json("schedules", "show", "s")["task"]["policy"]
    assert (policy["max_retries"], policy["timeout"]) == (7, 30)


def test_next_says_what_daylight_saving_does_to_times_that_are_not_stored(cli: Cli) -> None:
    before, leap = cli.lines("schedules", "next", *MARCH, "--from", "2027-03-27", "--count", "2")
    assert before == ["next", "2027-03-27T02:30:00+01:00", "2027-03-27T01:30:00Z"]
    assert leap[1:3] == ["2027-03-28T03:00:00+02:00", "2027-03-28T01:00:00Z"]
    assert "Clocks go forward on 2027-03-28 from 02:00 to 03:00" in leap[3]


def test_a_schedule_is_paused_run_and_resumed(cli: Cli) -> None:
    cli("schedules", "add", "s", "job", "--every", "1h")
    assert cli.lines("schedules", "pause", "s") == [["s", "paused", ""]]
    shown = dict(row[:2] for row in cli.lines("schedules", "show", "s"))
    assert (shown["state"], shown["why"]) == ("paused", "paused by hand")
    [[_, _, borne]] = cli.lines("schedules", "run", "s")
    assert borne.startswith("s:")
    assert cli.state(borne) == "pending"
    assert cli.json("schedules", "show", "s")["last_state"] == "pending"
    cli("schedules", "resume", "s")
    assert cli.json("schedules", "show", "s")["paused_at"] is None
    assert cli.lines("schedules", "delete", "s") == [["s", "deleted", ""]]
    assert cli.json("schedules", "list") == []


def test_many_schedules_are_acted_on_only_if_somebody_says_yes(cli: Cli) -> None:
    for name in ("a", "b"):
        cli("schedules", "add", name, "job", "--every", "1h", "--tag", "x")
    assert "2 schedules will be deleted" in cli("schedules", "delete", "--tag", "x", code=2).stderr
    assert len(cli.json("schedules", "list")) == 2
    assert len(cli.lines("schedules", "delete", "--tag", "x", "--yes")) == 2
    assert cli.json("schedules", "list") == []


def test_a_backfill_of_many_asks_with_their_number(cli: Cli) -> None:
    cli("schedules", "add", "s", "job", "--every", "1m")
    day = ("schedules", "backfill", "s", "--start", "2026-01-01", "--end", "2026-01-02")
    told = cli(*day, code=2).stderr
    assert "1,440 tasks will be submitted by s." in told
    assert "--yes" in told
    assert cli.json(*day, "--dry-run")["count"] == 1440
    assert cli.json("tasks", "list") == {"tasks": [], "cursor": ""}
    done = cli.json(*day, "--yes")
    assert (done["created"], done["existed"], done["refused"]) == (1440, 0, 0)
    hour = (*day[:-1], "2026-01-01T01:00Z")
    assert cli.lines(*hour)[0][1] == "0 tasks submitted, 60 there already"


def test_a_backfill_of_more_than_a_million_is_refused(cli: Cli) -> None:
    cli("schedules", "add", "s", "job", "--every", "1s")
    told = cli.refusal("schedules", "backfill", "s", "--start", "2020-01-01", "--yes")
    assert "more than 1,000,000 occurrences" in told
    assert "split it" in told


BAD = {
    "a malformed expression": (["--cron", "0 25 * * *"], "field 2, the hour"),
    "one that never fires": (["--cron", "0 0 30 2 *"], "never fires"),
    "an unknown zone": (["--every", "1h", "--tz", "Europe/Belin"], "did you mean 'Europe/Berlin'"),
    "an end before the start": (
        ["--every", "1h", "--start", "2027-01-02", "--end", "2027-01-01"],
        "is not after start",
    ),
    "no times at all": ([], "either cron expressions or an interval"),
    "parts of a second": (["--every", "1.5"], "every is a whole number"),
    "a policy option that there is none of": (
        ["--every", "1h", "--option", "max_retrys=1"],
        "Did you mean 'max_retries'",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_what_can_never_fire_is_refused_in_a_sentence(cli: Cli, what: str) -> None:
    options, sentence = BAD[what]
    cli("schedules", "add", "there", "job", "--every", "1h")
    before = cli.json("schedules", "list")
    assert sentence in cli.refusal("schedules", "add", "new", "job", *options)
    if options:
        assert sentence in cli.refusal("schedules", "edit", "there", *options)
    assert cli.json("schedules", "list") == before


def test_a_name_that_is_taken_or_unknown_is_told(cli: Cli) -> None:
    cli("schedules", "add", "nightly", "job", "--every", "1h")
    cli.submit("job", "--id", "task")
    assert "already" in cli.refusal("schedules", "add", "nightly", "job", "--every", "2h")
    assert "id of a task" in cli.refusal("schedules", "add", "task", "job", "--every", "2h")
    assert "Did you mean 'nightly'?" in cli.refusal("schedules", "pause", "nigthly")
    assert "is a task and no schedule" in cli.refusal("schedules", "pause", "task")


async def _declare(app: Andon) -> list[str]:
    async with app:
        return [str(one.error or one.result) for one in await app.schedules.declare()]


async def report() -> None: ...


def test_what_code_declares_no_more_is_pruned(cli: Cli) -> None:
    first, other = (Andon(cli.url, name=name, release="1") for name in ("shop", "other"))
    first.task(name="report", every=3600)(report)
    other.task(name="report", every=60)(report)
    assert asyncio.run(_declare(first)) == ["created"]
    [told] = asyncio.run(_declare(other))
    assert "is declared by application 'shop', not by 'other'" in told
    assert cli.json("schedules", "show", "report")["every"] == 3600
    code = cli.folder / f"{cli.folder.name}.py"  # a module of its own
    code.write_text("from andon import Andon\napp = Andon(name='shop', release='2')\n")
    asked = cli("schedules", "prune", str(code), code=2).stderr
    assert "1 schedule will be deleted: report." in asked
    assert cli.lines("schedules", "prune", str(code), "--dry-run") == [
        ["report", "would be deleted"]
    ]
    [line] = cli("schedules", "prune", str(code), "--yes", "--json").stdout.splitlines()
    assert json.loads(line)["changed"]
    assert cli.json("schedules", "list") == []
