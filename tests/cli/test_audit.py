"""`andon audit` and the actor of acts from the command line."""

import pytest

from .conftest import Cli


def test_the_command_line_acts_as_its_user_or_as_it_is_told(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANDON_ACTOR", raising=False)
    cli("submit", "job", "--id", "a")
    assert cli.json("audit") == []
    cli("tasks", "cancel", "a")
    monkeypatch.setenv("ANDON_ACTOR", "ann")
    cli("tasks", "rerun", "a")
    cli("queues", "pause", "default")
    rows = cli.json("audit")
    assert [(one["act"], one["subject"]) for one in rows] == [
        ("configure-queue", "default"),
        ("rerun", "a"),
        ("cancel", "a"),
    ]
    assert [one["actor"] for one in rows[:2]] == ["ann", "ann"]
    assert "@" in rows[2]["actor"]
    [row] = cli.lines("audit", "--actor", "ann", "--limit", "1")
    assert row[1:4] == ["ann", "configure-queue", "default"]


def test_events_and_the_page_of_a_task_say_who_moved_it(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANDON_ACTOR", "ann")
    cli("submit", "job", "--id", "a")
    cli("tasks", "cancel", "a")
    cli("submit", "job", "--id", "b")
    assert "by ann" in cli("tasks", "show", "a").stdout
    [line] = cli.lines("events", "--actor", "ann")
    assert (line[1], line[3]) == ("a", "cancel")
    assert "by ann" in line


def test_a_token_made_and_revoked_is_listed_without_itself(cli: Cli) -> None:
    text = cli("token", "create", "ci", "--scope", "*").stdout.strip()
    cli("token", "revoke", "ci")
    shown = cli("audit").stdout
    assert "create-token" in shown
    assert "revoke-token" in shown
    assert text not in shown
