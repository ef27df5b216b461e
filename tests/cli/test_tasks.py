"""`andon tasks` and `andon dlq`: looking, and acting by id and by filter."""

import json
from typing import Any

import pytest

from andon.cli.output import Output
from andon.cli.patience import Patience
from andon.contract.limits import SCAN_BUDGET
from andon.engine.base import Submission
from andon.engine.local import LocalEngine
from andon.lifecycle.commands import Complete

from .conftest import Cli


def ids(cli: Cli, *args: str) -> list[str]:
    return [row[0] for row in cli.lines("tasks", "list", *args)]


# --- list ---


def test_a_list_in_a_pipe_is_tab_separated_and_without_heading(cli: Cli) -> None:
    task_id = cli.submit()
    [row] = cli.lines("tasks", "list")
    assert row[:5] == [task_id, "job", "default", "pending", "0"]
    assert row[5].endswith("Z")


def test_filters_select(cli: Cli) -> None:
    cli.submit("a", "--id", "a1", "--queue", "mail", "--tag", "x", "--key", "k", "--group", "g")
    cli.submit("b", "--id", "b1", "--delay", "1h")
    cli.submit("b", "--id", "b2")
    cli.claim()
    assert ids(cli) == ["b2", "b1", "a1"]
    assert ids(cli, "--oldest-first") == ["a1", "b1", "b2"]
    assert ids(cli, "--queue", "mail") == ["a1"]
    assert ids(cli, "--name", "b") == ["b2", "b1"]
    assert ids(cli, "--tag", "x") == ids(cli, "--key", "k") == ids(cli, "--group", "g") == ["a1"]
    assert ids(cli, "--state", "scheduled,pending") == ["b1", "a1"]
    assert ids(cli, "--worker", "w") == ["b2"]


def test_what_waits_for_a_time_is_listed_by_due_time(cli: Cli) -> None:
    for name, delay in (("b2", "2h"), ("c3", "3h"), ("a1", "1h")):
        cli.submit("job", "--id", name, "--delay", delay)
    cli.submit("job", "--id", "at-once")
    assert ids(cli, "--state", "scheduled") == ["a1", "b2", "c3"]
    assert ids(cli, "--state", "scheduled,retry", "--name", "job") == ["a1", "b2", "c3"]
    assert ids(cli, "--state", "scheduled", "--newest-first") == ["a1", "c3", "b2"]
    assert ids(cli, "--state", "scheduled", "--oldest-first") == ["b2", "c3", "a1"]
    first = cli("tasks", "list", "--state", "scheduled", "--limit", "2")
    cursor = first.stderr.strip().rpartition(" ")[2]
    assert ids(cli, "--state", "scheduled", "--cursor", cursor) == ["c3"]
    both = cli("tasks", "list", "--newest-first", "--oldest-first", code=2)
    assert "either" in both.stderr


def test_pages_go_on_where_the_last_one_ended(cli: Cli) -> None:
    for name in "abc":
        cli.submit("job", "--id", name)
    first = cli("tasks", "list", "--limit", "2")
    assert [line.split("\t")[0] for line in first.stdout.splitlines()] == ["c", "b"]
    cursor = first.stderr.strip().rpartition(" ")[2]
    assert ids(cli, "--limit", "2", "--cursor", cursor) == ["a"]
    page = cli.json("tasks", "list", "--limit", "2")
    assert [task["id"] for task in page["tasks"]] == ["c", "b"]
    assert page["cursor"] == cursor


def submit_behind(cli: Cli, count: int, **fields: Any) -> None:
    """Many tasks, without a command for each."""

    async def act(engine: LocalEngine) -> None:
        await engine.submit([Submission(id=f"{n:05}", name="job", **fields) for n in range(count)])

    cli.behind(act)


def test_a_list_is_full_though_what_matches_stands_behind_thousands_of_others(cli: Cli) -> None:
    cli.submit("rare", "--id", "rare")
    submit_behind(cli, SCAN_BUDGET + 10)
    done = cli("tasks", "list", "--name", "rare")
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["rare"]
    assert not done.stderr


def test_a_long_search_is_told_about_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    patience = Patience(Output(as_json=False), "task", clock=lambda: now)
    for now in (1.0, 3.0, 4.0, 9.0, 14.0):  # noqa: B007 - the clock reads it
        assert patience(2)
    assert capsys.readouterr().err == "Still looking: 2 tasks found so far.\n" * 2


def test_a_list_as_another_system_has_its_states_and_fields(cli: Cli) -> None:
    cli.submit("job", "--id", "new")
    cli.submit("job", "--id", "later", "--delay", "1h")
    [row] = cli.lines("tasks", "list", "--as", "taskcluster", "--state", "unscheduled")
    assert row[0] == "later"
    assert row[2] == "unscheduled"
    assert ids(cli, "--as", "taskcluster", "--state", "pending") == ["new"]
    listed = cli.json("tasks", "list", "--as", "jobbers")["tasks"]
    assert [(task["id"], task["status"]) for task in listed] == [
        ("later", "scheduled"),
        ("new", "submitted"),
    ]


@pytest.mark.parametrize(
    "profile", ["native", "jobbers", "asynq", "cbintel", "choria", "taskcluster"]
)
def test_every_profile_lists_and_shows(cli: Cli, profile: str) -> None:
    cli.submit("job", "--id", "t")
    cli.fail()
    assert cli.lines("tasks", "list", "--as", profile)[0][0] == "t"
    assert cli("tasks", "show", "t", "--as", profile).stdout
    assert cli.json("tasks", "show", "t", "--as", profile)["history"]


def test_states_queues_and_cursors_that_there_are_not_are_refused(cli: Cli) -> None:
    cli.submit()
    assert "shows no state as 'running'. Use one of: blocked" in cli.refusal(
        "tasks", "list", "--state", "running"
    )
    told = cli.refusal("tasks", "list", "--queue", "mial")
    assert "There is no queue 'mial'. There are: default." in told
    assert "is not a cursor" in cli.refusal("tasks", "list", "--cursor", "x")
    assert "Invalid value" in cli("tasks", "list", "--as", "celery", code=2).stderr


def test_what_a_task_says_cannot_move_the_cursor(cli: Cli) -> None:
    cli.submit("job", "--id", "t")
    cli.fail(message="\x1b[2Jgone\tand\nbroken")
    [row] = cli.lines("tasks", "list")
    assert row[6] == "terminated: gone and broken"


@pytest.mark.usefixtures("on_terminal")
def test_on_a_terminal_there_is_a_table(cli: Cli) -> None:
    cli.submit("job", "--id", "t")
    told = cli("tasks", "list").stdout
    assert "created" in told
    assert "pending" in told
    assert "No tasks match." in cli("tasks", "list", "--state", "failed").stderr


# --- show ---


def test_show_tells_record_runs_and_history(cli: Cli) -> None:
    cli.submit("job", "--id", "t", "--args", '{"n": 1}')
    cli.fail_once()
    told = cli("tasks", "show", "t").stdout
    facts = dict(
        line.split("\t", 1) for line in told.splitlines() if line[:3] not in ("run", "eve")
    )
    assert facts["state"] == "retry"
    assert json.loads(facts["arguments"]) == {"n": 1}
    assert facts["error"] == "ERROR: out of paper"
    assert facts["tries"] == "1 of 4"
    assert "submitted → error" in told
    moves = [line.split("\t")[3] for line in told.splitlines() if line.startswith("event")]
    assert moves == ["submit", "claim", "fail"]


def test_show_of_a_running_task_has_its_lease_and_progress(cli: Cli) -> None:
    cli.submit("job", "--id", "t")
    cli.claim()
    told = cli("tasks", "show", "t").stdout
    assert "0% on w" in told
    assert "lease until" in told


@pytest.mark.usefixtures("on_terminal")
def test_show_on_a_terminal_is_a_page(cli: Cli) -> None:
    task_id = cli.submit("job", "--id", "t").split()[0]
    told = cli("tasks", "show", task_id).stdout
    assert "history" in told
    assert "now" in told or "ago" in told


def test_an_id_that_there_is_not_is_refused(cli: Cli) -> None:
    cli("storage", "init")
    assert "There is no task 'nobody'" in cli.refusal("tasks", "show", "nobody")
    assert "There is no task 'nobody'" in cli.refusal("events", "--task", "nobody")


# --- acting ---


def test_cancel_retry_and_delete_by_id(cli: Cli) -> None:
    cli.submit("job", "--id", "t")
    done = cli("tasks", "cancel", "t")
    assert done.stdout == "t\tcancelled\tcancelled or asked to stop\n"
    assert cli.lines("tasks", "cancel", "t") == [["t", "cancelled", "nothing to do"]]
    assert cli.lines("tasks", "retry", "t") == [["t", "pending", "retried"]]
    assert cli.lines("tasks", "retry", "t") == [["t", "pending", "nothing to do"]]
    cli("tasks", "cancel", "t")
    assert cli.lines("tasks", "delete", "t") == [["t", "gone", "deleted"]]
    assert ids(cli) == []


def test_one_that_is_refused_stops_no_other_and_is_exit_code_1(cli: Cli) -> None:
    cli.submit("job", "--id", "a")
    cli.submit("job", "--id", "b")
    done = cli("tasks", "cancel", "a", "nobody", "b", code=1)
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert [line[:2] for line in lines] == [
        ["a", "cancelled"],
        ["nobody", "gone"],
        ["b", "cancelled"],
    ]
    assert "There is no task 'nobody'" in lines[1][2]
    assert "2 tasks cancelled or asked to stop, 1 refused." in done.stderr


def test_with_json_every_task_is_one_object(cli: Cli) -> None:
    cli.submit("job", "--id", "a")
    done = cli("tasks", "delete", "a", "nobody", "--json", code=1)
    [refused, missing] = [json.loads(line) for line in done.stdout.splitlines()]
    assert refused["state"] == "pending"
    assert "delete is not possible" in refused["error"]
    assert missing["state"] is None


def test_a_running_task_is_asked_or_forced(cli: Cli) -> None:
    cli.submit("job", "--id", "t")
    [task] = cli.claim()
    assert cli.lines("tasks", "cancel", "t")[0][1] == "active"
    assert cli.json("tasks", "show", "t")["cancel_requested_at"]
    assert cli.lines("tasks", "cancel", "--force", "t")[0][1] == "cancelled"
    with pytest.raises(Exception, match="no longer holds"):
        cli.report(task, Complete())


def test_a_running_task_cannot_be_retried(cli: Cli) -> None:
    cli.submit("job", "--id", "t")
    cli.claim()
    done = cli("tasks", "retry", "t", code=1)
    assert "is active; rerun is not possible from there" in done.stdout


def test_rerun_with_a_start_time_and_a_new_deadline(cli: Cli) -> None:
    cli.submit("job", "--id", "t")
    cli.end()
    cli("tasks", "rerun", "t", "--run-at", "+1h", "--deadline", "+2h")
    task = cli.json("tasks", "show", "t")
    assert task["state"] == "scheduled"
    assert task["deadline"] > task["run_at"]


def test_waiting_tasks_are_moved_about(cli: Cli) -> None:
    cli.submit("job", "--id", "p")
    cli.submit("job", "--id", "later", "--delay", "1h")
    cli.submit("job", "--id", "child", "--depends-on", "p")
    assert cli.lines("tasks", "reschedule", "later", "--run-at", "+2h")[0][1] == "scheduled"
    assert cli.lines("tasks", "run-now", "later")[0][1] == "pending"
    assert cli.lines("tasks", "schedule", "child")[0][1] == "pending"
    cli.submit("job", "--id", "other", "--depends-on", "p")
    assert "schedule it, or run it now" in cli("tasks", "rerun", "other", code=1).stdout
    assert cli.lines("tasks", "rerun", "other", "--blocked")[0][1] == "pending"
    assert [line[0] for line in cli.lines("tasks", "dependents", "p")] == ["child", "other"]
    first = cli.json("tasks", "dependents", "p", "--limit", "1")
    rest = cli.json("tasks", "dependents", "p", "--cursor", first["cursor"])
    assert [task["id"] for task in (*first["tasks"], *rest["tasks"])] == ["child", "other"]
    assert rest["cursor"] == ""
    cli("tasks", "reprioritise", "p", "--priority", "highest")
    assert cli.json("tasks", "show", "p")["priority"] == 3
    assert "is not between" in cli.refusal("tasks", "reprioritise", "p", "--priority", "9")
    assert "schedule is not possible" in cli("tasks", "schedule", "p", code=1).stdout


def test_a_waiting_task_is_archived_and_resubmitted_as_a_dead_letter(cli: Cli) -> None:
    cli.submit("job", "--id", "a", "--delay", "1h", "--option", "dead_letter=none")
    assert cli.lines("tasks", "archive", "a", "nobody", code=1)[0] == ["a", "failed", "archived"]
    shown = cli("tasks", "show", "a").stdout
    assert "archived-by-hand" in shown
    assert "archived by hand" in shown
    assert [line[0] for line in cli.lines("dlq", "list")] == ["a"]
    assert cli.lines("dlq", "resubmit", "a")[0][1] == "pending"


def test_a_task_is_edited_and_shown_with_its_successor(cli: Cli) -> None:
    cli.submit("job", "--id", "a", "--args", '{"n": 1}')
    assert cli("tasks", "edit", "a", "--args", '{"n": 2}', "--id", "b").stdout == "b\n"
    done = cli.json("tasks", "edit", "a", "--args", '{"n": 2}', "--id", "b")
    assert done == {"id": "a", "successor": "b", "state": "pending", "created": False}
    old, new = cli.json("tasks", "show", "a"), cli.json("tasks", "show", "b")
    assert (old["state"], old["reason"], old["successor"]) == ("cancelled", "edited", "b")
    assert (new["args"], new["predecessor"]) == ({"n": 2}, "a")
    shown = cli("tasks", "show", "a").stdout
    assert "successor\tb" in shown
    assert "predecessor\ta" in cli("tasks", "show", "b").stdout
    assert "'b'" in cli.refusal("tasks", "edit", "a", "--args", "{}")
    assert "not JSON" in cli.refusal("tasks", "edit", "b", "--args", "{")
    assert "no task" in cli.refusal("tasks", "edit", "nobody", "--args", "{}")
    cli.claim()
    assert "begun" in cli.refusal("tasks", "edit", "b", "--args", "{}")


def test_a_filter_acts_on_all_it_finds(cli: Cli) -> None:
    for name in "abc":
        cli.submit("job", "--id", name)
    cli.submit("other", "--id", "d")
    done = cli("tasks", "cancel", "--name", "job", "--yes")
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["a", "b", "c"]
    assert cli.state("d") == "pending"
    assert len(cli.lines("tasks", "retry", "--all", "--limit", "2", "--yes")) == 2


def test_a_dry_run_changes_nothing(cli: Cli) -> None:
    cli.submit("job", "--id", "a")
    done = cli("tasks", "cancel", "--all", "--dry-run")
    assert done.stdout == "a\tpending\twould be cancelled or asked to stop\n"
    assert "1 task would be" in done.stderr
    assert cli.state("a") == "pending"
    by_id = cli("tasks", "cancel", "--dry-run", "a", "nobody", code=1)
    assert "1 would be refused" in by_id.stderr
    assert cli.state("a") == "pending"


def test_a_foreign_state_selects_what_is_shown_so(cli: Cli) -> None:
    cli.submit("job", "--id", "now")
    cli.submit("job", "--id", "later", "--delay", "1h")
    done = cli("tasks", "cancel", "--as", "taskcluster", "--state", "unscheduled", "--yes")
    assert done.stdout.split("\t")[:2] == ["later", "exception"]
    assert cli.state("now") == "pending"


def test_ids_may_come_from_stdin(cli: Cli) -> None:
    cli.submit("job", "--id", "a")
    cli.submit("job", "--id", "b")
    listed = cli("tasks", "list").stdout
    assert len(cli.lines("tasks", "cancel", "-", stdin=listed)) == 2


def test_what_to_act_on_must_be_clear(cli: Cli) -> None:
    cli.submit("job", "--id", "a")
    assert "Which tasks?" in cli("tasks", "cancel", code=2).stderr
    assert "not both" in cli("tasks", "cancel", "a", "--all", code=2).stderr
    assert "Nobody can be asked here" in cli("tasks", "cancel", "--all", code=2).stderr
    assert cli.state("a") == "pending"


def test_where_somebody_can_be_asked_they_are(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("andon.cli.people.person_present", lambda: True)
    cli.submit("job", "--id", "a")
    refused = cli("tasks", "cancel", "--state", "pending", code=1, stdin="n\n")
    assert "1 task (pending) will be cancelled or asked to stop. Go on?" in refused.stderr
    assert cli.state("a") == "pending"
    cli("tasks", "cancel", "--state", "pending", stdin="y\n")
    assert cli.state("a") == "cancelled"


# --- dead letters ---


def test_dead_letters_are_listed_resubmitted_and_purged(cli: Cli) -> None:
    for name in "abc":
        cli.submit("job", "--id", name, "--key", name)
    cli.fail(2)
    assert [row[0] for row in cli.lines("dlq", "list")] == ["b", "a"]
    assert [row[0] for row in cli.lines("dlq", "list", "--oldest-first")] == ["a", "b"]
    assert [row[0] for row in cli.lines("dlq", "list", "--key", "c")] == []
    assert cli.lines("dlq", "resubmit", "a") == [["a", "pending", "resubmitted"]]
    assert cli.lines("dlq", "purge", "--all", "--dry-run") == [["b", "failed", "would be deleted"]]
    assert cli.lines("dlq", "purge", "--all", "--yes") == [["b", "gone", "deleted"]]
    assert ids(cli) == ["c", "a"]


def test_what_is_no_dead_letter_is_neither_resubmitted_nor_purged(cli: Cli) -> None:
    cli.submit("job", "--id", "done", "--key", "k")
    cli.end()
    assert "is no dead letter" in cli("dlq", "purge", "done", code=1).stdout
    assert cli.lines("dlq", "purge", "--key", "k", "--yes") == []
    assert ids(cli) == ["done"]


def test_a_group_with_an_owner_is_shown_and_sealed(cli: Cli) -> None:
    cli.submit("job", "--id", "a", "--group", "g", "--group-owner", "ci")
    assert "Nothing is kept of group 'h'" in cli.refusal("groups", "show", "h")
    shown = cli.json("groups", "show", "g")
    assert (shown["id"], shown["owner"], shown["sealed_at"]) == ("g", "ci", None)
    sealed = cli.json("groups", "seal", "g")
    assert sealed["sealed_at"] is not None
    assert cli.json("groups", "seal", "g") == sealed
    assert "owner" in cli("groups", "show", "g").stdout
    again = cli.refusal("submit", "job", "--group", "g", "--group-owner", "ci")
    assert "Group 'g' is sealed" in again


def test_dead_letters_are_grouped_and_a_group_is_acted_on(cli: Cli) -> None:
    for number in range(3):
        cli.submit("job", "--id", f"a{number}")
        cli.fail(message=f"sheet {number} jammed" if number else "no ink")
    jammed, dry = cli.lines("dlq", "groups")
    assert jammed[1] == "2"
    assert (jammed[4], jammed[5], jammed[6]) == ("a2", "job", "ERROR: sheet # jammed")
    assert dry[6] == "ERROR: no ink"
    [row] = cli.lines("dlq", "list", "--fingerprint", dry[0])
    assert row[0] == "a0"
    done = cli("dlq", "resubmit", "--fingerprint", jammed[0], "--yes")
    assert "2 tasks resubmitted" in done.stderr
    assert [cli.state(f"a{number}") for number in range(3)] == ["failed", "pending", "pending"]
    document = cli.json("dlq", "groups")
    assert [one["count"] for one in document["groups"]] == [1]


def test_a_look_at_some_dead_letters_says_so_and_goes_on(cli: Cli) -> None:
    for number in range(3):
        cli.submit("job", "--id", f"a{number}")
        cli.fail(message=f"sheet {number} jammed")
    told = cli("dlq", "groups", "--look", "2")
    assert "\t2+\t" in told.stdout
    cursor = told.stderr.split("--cursor ")[1].strip()
    [row] = cli.lines("dlq", "groups", "--cursor", cursor)
    assert row[1] == "1"


def test_a_worker_that_never_claimed_is_not_quarantined(cli: Cli) -> None:
    cli.submit("job", "--id", "a")
    assert cli.json("workers", "claiming", "default") == {"workers": [], "cursor": ""}
    refused = cli.refusal("workers", "quarantine", "default", "g/w", "--until", "+1h")
    assert "Nothing is kept of a worker 'g/w' in queue 'default'" in refused
    assert "either --until or --lift" in cli("workers", "quarantine", "q", "w", code=2).stderr
