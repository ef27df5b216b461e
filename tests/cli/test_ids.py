"""Ids that are not typed whole: how they begin, `…` from a table, and `-` for the last one."""

import pytest

from .conftest import Cli

MADE = "019a0b1c2d3e4f5061728394a5b6c7d8"
ALIKE = "019a0b1c2d3e4f5061728394a5b6c7d9"
OTHER = "019a0b1cffffffffffffffffffffffff"


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody sits at the terminal."""
    monkeypatch.setattr("andon.cli.people.person_present", lambda: True)


def submit(cli: Cli, *ids: str) -> None:
    for task_id in ids:
        cli("submit", "job", "--id", task_id)


def test_how_an_id_begins_names_its_task_in_every_command(cli: Cli) -> None:
    submit(cli, MADE, OTHER)
    begin = MADE[:9]
    assert cli.json("tasks", "show", begin)["id"] == MADE
    assert cli.lines("events", "--task", begin)[0][1] == MADE
    assert cli.json("artifacts", "list", begin) == []
    cli("logs", begin)
    assert "has no artifact" in cli.refusal("artifacts", "get", begin, "report")
    child = cli("submit", "job", "--depends-on", begin).stdout.strip()
    assert cli.json("tasks", "show", child)["dependencies"] == [MADE]
    assert cli.lines("tasks", "cancel", begin)[0][:2] == [MADE, "cancelled"]
    assert cli("wait", begin, code=1).stdout.split()[:2] == [MADE, "cancelled"]
    assert cli.lines("dlq", "resubmit", begin, code=1)[0][0] == MADE


def test_what_begins_several_ids_is_refused_and_they_are_listed(cli: Cli) -> None:
    submit(cli, MADE, ALIKE, OTHER)
    told = cli.refusal("tasks", "cancel", MADE[:20], OTHER)
    assert f"'{MADE[:20]}' begins the ids of several tasks: {ALIKE}, {MADE}. Give more." in told
    assert cli.state(OTHER) == "pending"
    submit(cli, *(f"x{i}" for i in range(7)))
    assert "x6, x5, x4, x3, x2 and more." in cli.refusal("tasks", "show", "x")


def test_an_id_as_a_table_shortens_it_is_found_again(cli: Cli) -> None:
    submit(cli, MADE, ALIKE)
    assert cli.json("tasks", "show", f"{MADE[:10]}…{MADE[-6:]}")["id"] == MADE
    assert "There is no task" in cli.refusal("tasks", "show", f"{MADE[:10]}…123456")


def test_a_whole_id_is_that_task_also_where_another_begins_so(cli: Cli) -> None:
    submit(cli, "order-1", "order-10")
    assert cli.json("tasks", "show", "order-1")["id"] == "order-1"
    assert cli.lines("tasks", "cancel", "order-1")[0][0] == "order-1"


def test_a_guess_changes_nothing_where_nobody_can_be_asked(cli: Cli) -> None:
    submit(cli, "order-10")
    told = cli.refusal("tasks", "cancel", "order-1")
    assert "what was given begins order-10. Give whole ids, or add --yes." in told
    assert cli.state("order-10") == "pending"
    assert cli.lines("tasks", "cancel", "order-1", "--dry-run")[0][0] == "order-10"
    assert "There is no task 'order-1'" in cli("wait", "order-1", code=1).stderr
    refused = cli("submit", "job", "--depends-on", "order-1", code=1).stderr
    assert "depends on 'order-1', which does not exist" in refused
    shown = cli("tasks", "show", "order-1", "--json")
    assert "order-1: order-10" in shown.stderr
    assert cli.lines("tasks", "cancel", "order-1", "--yes")[0][:2] == ["order-10", "cancelled"]


@pytest.mark.usefixtures("there")
def test_somebody_is_asked_about_a_guess(cli: Cli) -> None:
    submit(cli, "order-10")
    asked = cli("tasks", "cancel", "order-1", code=1, stdin="n\n")
    assert "order-10 will be cancelled or asked to stop. Go on?" in asked.stderr
    assert cli.state("order-10") == "pending"
    cli("tasks", "cancel", "order-1", stdin="y\n")
    assert cli.state("order-10") == "cancelled"


@pytest.mark.usefixtures("there")
def test_on_a_terminal_a_dash_is_the_last_id_submitted_or_shown(cli: Cli) -> None:
    cli("storage", "init")
    assert "there is none yet" in cli("tasks", "show", "-", code=2).stderr
    submit(cli, "one", "two")
    assert cli.json("tasks", "show", "-")["id"] == "two"
    cli("tasks", "show", "one")
    assert cli.json("tasks", "show", "-")["id"] == "one"
    cli("tasks", "cancel", "-", stdin="y\n")
    assert cli.state("one") == "cancelled"
    elsewhere = Cli(cli.folder)
    elsewhere.store = elsewhere.url = f"sqlite:///{cli.folder / 'other.db'}"
    elsewhere("storage", "init")
    assert "there is none yet" in elsewhere("tasks", "show", "-", code=2).stderr


@pytest.mark.usefixtures("there")
def test_the_last_id_is_kept_without_the_stores_url(cli: Cli) -> None:
    submit(cli, "one")
    [kept] = (cli.folder / "state" / "andon" / "last").iterdir()
    assert kept.read_text() == "one"
    assert "andon.db" not in kept.name


def test_in_a_pipe_a_dash_reads_whole_ids_and_nothing_is_remembered(cli: Cli) -> None:
    submit(cli, MADE, OTHER)
    assert not (cli.folder / "state").exists()
    assert cli.json("tasks", "show", "-", stdin=f"{MADE}\tjob\n")["id"] == MADE
    assert "One id is needed" in cli("tasks", "show", "-", code=2, stdin="").stderr
    done = cli("tasks", "cancel", "-", stdin=f"{MADE[:20]}\n", code=1)
    assert "There is no task" in done.stdout
    assert cli.state(MADE) == "pending"
