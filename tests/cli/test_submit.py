"""`andon submit`: one task, a file of them, and everything that cannot be submitted."""

import json
import sys

import pytest

from andon.model.fleet import TypeInfo

from .conftest import Cli


def test_it_prints_the_id_and_nothing_else_in_a_pipe(cli: Cli) -> None:
    done = cli("submit", "job", "--args", '{"n": 1}', "--id", "one")
    assert done.stdout == "one\n"
    assert done.stderr == ""
    task = cli.json("tasks", "show", "one")
    assert task["args"] == {"n": 1}
    assert task["state"] == "pending"


def test_repeated_it_is_the_same_task(cli: Cli) -> None:
    cli.submit("job", "--id", "one")
    again = cli.json("submit", "job", "--id", "one")
    assert again["id"] == "one"
    assert again["created"] is False


def test_with_another_definition_the_id_is_taken(cli: Cli) -> None:
    cli.submit("job", "--id", "one")
    told = cli.refusal("submit", "job", "--id", "one", "--args", "[1]")
    assert "exists with another definition" in told


def test_every_option_reaches_the_task(cli: Cli) -> None:
    cli.submit("job", "--id", "parent")
    given = [
        "--queue", "mail", "--priority", "high", "--run-at", "2040-01-01", "--deadline",
        "2040-01-02T00:00Z", "--key", "k", "--unique-key", "u", "--group", "g", "--tag", "a,b",
        "--tag", "c", "--header", "x=y", "--version", "2", "--option", "max_retries=7",
    ]  # fmt: skip
    task = cli.json("submit", "job", *given)
    assert (task["queue"], task["priority"], task["version"]) == ("mail", 1, 2)
    assert task["run_at"] == "2040-01-01T00:00:00.000Z"
    assert task["deadline"] == "2040-01-02T00:00:00.000Z"
    assert task["unique_key"] == "u"
    assert task["tags"] == ["a", "b", "c"]
    assert task["headers"] == {"x": "y"}
    assert task["policy"]["max_retries"] == 7
    child = cli.json("submit", "job", "--depends-on", "parent", "--requires", "all-resolved")
    assert (child["state"], child["requires"]) == ("blocked", "all-resolved")


def test_the_profile_decides_defaults(cli: Cli) -> None:
    assert cli.json("submit", "job", "--profile", "asynq")["policy"]["max_retries"] == 25


def test_arguments_may_come_from_stdin(cli: Cli) -> None:
    task = cli.json("submit", "job", "--args", "-", stdin='{"from": "stdin"}')
    assert task["args"] == {"from": "stdin"}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--args", "{oops"], "--args is not JSON"),
        (["--args", "7"], "must be a JSON object of named arguments"),
        (["--deadline", "2020-01-01"], "The deadline is already past"),
        (["--run-at", "+2h", "--deadline", "+1h"], "not before the deadline"),
        (["--depends-on", "nobody"], "depends on 'nobody', which does not exist"),
        (["--priority", "urgent"], "no priority 'urgent'"),
        (["--priority", "99"], "Priority 99 is not between"),
        (["--queue", "no spaces"], "queue name 'no spaces'"),
        (["--id", "no spaces"], "Task id 'no spaces'"),
        (["--option", "max_retires=1"], "Did you mean 'max_retries'?"),
        (["--option", "max_retries=-1"], "must not be negative"),
        (["--option", 'timeout="soon"'], "timeout"),
    ],
)
def test_what_can_never_work_is_refused_and_stores_nothing(
    cli: Cli, given: list[str], told: str
) -> None:
    cli("storage", "init")
    assert told in cli.refusal("submit", "job", *given)
    assert cli.lines("tasks", "list") == []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--delay", "-5s"], "must not be negative"),
        (["--delay", "-5"], "must not be negative"),
        (["--delay", "soon"], "is no duration"),
        (["--run-at", "tomorrow"], "is no time"),
        (["--delay", "5s", "--run-at", "+5s"], "not both"),
        (["--header", "x"], "takes NAME=VALUE"),
        (["--timeout", "5s"], "--timeout needs --wait"),
        (["--version", "new"], "not a valid integer"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(cli: Cli, given: list[str], told: str) -> None:
    assert told in cli("submit", "job", *given, code=2).stderr


def test_arguments_that_are_too_large_are_refused(cli: Cli) -> None:
    big = json.dumps({"blob": "x" * 300_000})
    told = cli.refusal("submit", "job", "--args", "-", stdin=big)
    assert "the limit is 262,144" in told


def test_a_held_unique_key_is_refused_and_names_its_holder(cli: Cli) -> None:
    cli.submit("job", "--id", "first", "--unique-key", "k")
    assert "held by task 'first'" in cli.refusal("submit", "job", "--unique-key", "k")


def test_a_full_queue_is_refused_and_says_what_to_do(cli: Cli) -> None:
    cli("queues", "configure", "default", "--max-size", "1")
    cli.submit()
    assert "andon queues configure default --max-size N" in cli.refusal("submit", "job")


def test_a_name_that_no_worker_knows_is_pointed_out(cli: Cli) -> None:
    cli("storage", "init")
    cli.publish(TypeInfo(name="mail.send"))
    told = cli("submit", "male").stderr
    assert "No worker has published a task type 'male'" in told
    assert "waits in queue 'default' for one that does" in told
    assert "name it with --queue" in told
    assert "--queue" not in cli("submit", "male", "--queue", "post").stderr
    assert "version 3 of 'mail.send'" in cli("submit", "mail.send", "--version", "3").stderr
    assert cli("submit", "mail.send").stderr == ""
    assert cli("submit", "mail.send.fast").stderr == ""


@pytest.mark.usefixtures("on_terminal")
def test_where_no_worker_has_published_anything_people_are_told_the_queue(cli: Cli) -> None:
    told = cli("submit", "job").stderr
    assert "No worker has published any task type so far; 'job' waits in queue 'default'" in told
    assert cli("submit", "job", "--queue", "mail").stderr == ""


def test_a_task_goes_to_the_queue_that_workers_have_published_of_its_type(cli: Cli) -> None:
    cli("storage", "init")
    cli.publish(TypeInfo(name="send", queue="mail"), TypeInfo(name="old.*", queue="attic"))
    file = cli.write("tasks.jsonl", {"name": "send", "id": "of-a-file"}, {"name": "job", "id": "j"})
    cli("submit", "--jsonl", file)
    submits = {
        "of-a-file": "mail",
        "j": "default",
        cli.submit("send"): "mail",
        cli.submit("old.thing"): "attic",
        cli.submit("send", "--queue", "urgent"): "urgent",
    }
    for task_id, queue in submits.items():
        assert cli.json("tasks", "show", task_id)["queue"] == queue
    assert cli("submit", "send").stderr == ""


def test_a_repeat_is_one_also_if_workers_have_published_its_type_since(cli: Cli) -> None:
    assert cli.json("submit", "send", "--id", "nightly")["created"]
    cli.publish(TypeInfo(name="send", queue="mail"))
    again = cli.json("submit", "send", "--id", "nightly")
    assert (again["created"], again["queue"]) == (False, "default")


APP = """
from andon import Andon
app = Andon()

@app.task(name="add")
async def add(a: int, b: int) -> int:
    return a + b
"""


def test_with_the_code_at_hand_name_version_and_arguments_are_checked(cli: Cli) -> None:
    sys.modules.pop("checked_app", None)  # of another file, where this ran before
    cli("storage", "init")
    file = cli.write("checked_app.py", APP)
    with_app = ("--app", file, "--url", cli.url)
    assert "no task 'sub'. Its tasks: add." in cli.refusal("submit", "sub", *with_app)
    told = cli.refusal("submit", "add", "--version", "2", *with_app)
    assert "no version 2 of 'add'; it has 0" in told
    assert "b" in cli.refusal("submit", "add", "--args", '{"a": 1}', *with_app)
    assert cli.lines("tasks", "list") == []
    cli("submit", "add", "--args", '{"a": 1, "b": 2}', *with_app)


def test_wait_ends_with_the_result_or_with_exit_code_1(cli: Cli) -> None:
    cli.submit("job", "--id", "good")
    cli.end()
    assert json.loads(cli("submit", "job", "--id", "good", "--wait").stdout) == {"answer": 42}
    cli.submit("job", "--id", "bad")
    cli.fail()
    told = cli.refusal("submit", "job", "--id", "bad", "--wait")
    assert "Task bad ended failed (terminated): out of paper" in told


def test_wait_prints_the_result_of_what_was_discarded_with_its_end(cli: Cli) -> None:
    discards = ("--option", 'discard_states=["completed", "failed"]')
    cli.submit("job", "--id", "good", *discards)
    cli.end()
    cli.refusal("tasks", "show", "good")
    done = cli("submit", "job", "--id", "good", *discards, "--wait")
    assert json.loads(done.stdout) == {"answer": 42}
    assert cli("wait", "good").stdout == "good\tcompleted\t\n"
    cli.submit("job", "--id", "bad", *discards)
    cli.fail()
    told = cli.refusal("submit", "job", "--id", "bad", *discards, "--wait")
    assert "Task bad ended failed (terminated): out of paper" in told


def test_wait_in_json_names_what_was_submitted_though_it_was_discarded_with_its_end(
    cli: Cli,
) -> None:
    chosen = ("--option", 'discard_states=["completed"]', "--tag", "x", "--args", '{"n": 1}')
    cli.submit("job", "--id", "good", *chosen)
    cli.end()
    told = json.loads(cli("submit", "job", "--id", "good", *chosen, "--wait", "--json").stdout)
    shown = {name: told[name] for name in ("id", "name", "tags", "args", "state", "result")}
    assert shown == {
        "id": "good",
        "name": "job",
        "tags": ["x"],
        "args": {"n": 1},
        "state": "completed",
        "result": {"answer": 42},
    }
    assert "policy" not in told  # what the store made of the submission went with the record
    as_asynq = ("submit", "job", "--id", "good", *chosen, "--wait", "--json", "--as", "asynq")
    assert json.loads(cli(*as_asynq).stdout)["type"] == "job"
    [late] = map(json.loads, cli("wait", "good", "--json").stdout.splitlines())
    assert (late["name"], late["result"]) == ("?", {"answer": 42})
    assert "args" not in late  # nobody knows them any more, so none are made up


def test_wait_gives_up_after_its_timeout(cli: Cli) -> None:
    told = cli.refusal("submit", "job", "--id", "slow", "--wait", "--timeout", "0.05")
    assert "have not ended within 0.05 s; slow is pending" in told


# --- files ---


def test_a_file_is_submitted_line_by_line(cli: Cli) -> None:
    file = cli.write(
        "tasks.jsonl",
        {"id": "a", "args": {"n": 1}, "delay": "1h", "priority": "high"},
        "",
        {"id": "b", "name": "other", "depends_on": ["a"], "deadline": "+2h"},
    )
    done = cli("submit", "job", "--jsonl", file, "--tag", "bulk")
    assert done.stdout.split() == ["a", "b"]
    assert "2 submitted, 0 refused." in done.stderr
    rows = {row[0]: row for row in cli.lines("tasks", "list", "--tag", "bulk")}
    assert rows["a"][1:4] == ["job", "default", "scheduled"]
    assert rows["b"][1:4] == ["other", "default", "blocked"]


def test_a_file_may_come_from_stdin(cli: Cli) -> None:
    assert cli("submit", "job", "--jsonl", "-", stdin='{"id": "a"}\n').stdout == "a\n"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"id": "b"', "line 2: not JSON"),
        ("[1]", "line 2: not a JSON object"),
        ('{"args": 7}', "line 2: `args` must be a JSON object"),
        ('{"delay": "-5s"}', "line 2: A duration must not be negative"),
        ('{"dealy": 5}', "line 2: A submission has no option 'dealy'. Did you mean 'delay'?"),
        ('{"id": "a"}', "the id 'a' is that of line 1 too"),
        ('{"version": "new"}', "line 2: `version` is a number"),
    ],
)
def test_a_line_that_cannot_be_read_refuses_the_whole_file(cli: Cli, line: str, told: str) -> None:
    cli("storage", "init")
    file = cli.write("tasks.jsonl", {"id": "a"}, line)
    assert told in cli.refusal("submit", "job", "--jsonl", file)
    assert cli.lines("tasks", "list") == []


def test_a_line_without_a_name_needs_one_for_all(cli: Cli) -> None:
    assert "no `name`" in cli.refusal("submit", "--jsonl", cli.write("t.jsonl", {"id": "a"}))


def test_circles_and_children_of_the_refused_are_refused_alone(cli: Cli) -> None:
    file = cli.write(
        "tasks.jsonl",
        {"id": "a", "depends_on": ["b"]},
        {"id": "b", "depends_on": ["a"]},
        {"id": "c", "depends_on": ["a"]},
        {"id": "d", "depends_on": ["nobody"]},
        {"id": "e"},
    )
    done = cli("submit", "job", "--jsonl", file, code=1)
    assert done.stdout == "e\n"
    assert "line 1: These tasks depend on each other in a circle" in done.stderr
    assert "line 3: Task 'c' depends on 'a', which was refused" in done.stderr
    assert "line 4: Task 'd' depends on 'nobody', which does not exist" in done.stderr
    assert "1 submitted, 4 refused." in done.stderr
    assert [row[0] for row in cli.lines("tasks", "list")] == ["e"]


def test_with_json_every_line_has_its_answer(cli: Cli) -> None:
    file = cli.write("t.jsonl", {"id": "a"}, {"id": "b", "depends_on": ["nobody"]})
    done = cli("submit", "job", "--jsonl", file, "--json", code=1)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(a["line"], a["id"], a["error"] is None) for a in answers] == [
        (1, "a", True),
        (2, "b", False),
    ]


def test_a_file_that_is_not_there_is_one_sentence(cli: Cli) -> None:
    assert "No such file" in cli.refusal("submit", "job", "--jsonl", "/no/such/file")


def test_without_name_and_file_it_asks_for_one(cli: Cli) -> None:
    assert "Which task?" in cli("submit", code=2).stderr
