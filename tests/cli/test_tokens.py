"""`andon token`, and commands that ask a service with one."""

import pytest
from tests.service.kit import serving

from andon import Andon

from .conftest import Cli


def test_a_token_is_printed_once_and_listed_without_itself(cli: Cli) -> None:
    text = cli("token", "create", "ci", "--scope", "tasks:*", "--expires", "+1d").stdout.strip()
    [row] = cli.lines("token", "list")
    assert row[1:3] == ["ci", "valid"]
    assert row[-1] == "tasks:*"
    assert text[15:] not in cli("token", "list", "--json").stdout
    cli("token", "revoke", "ci")
    assert cli.lines("token", "list")[0][2] == "revoked"


def test_what_cannot_be_is_one_sentence(cli: Cli) -> None:
    cli("token", "create", "ci", "--scope", "*")
    assert "no scope" in cli.refusal("token", "create", "x", "--scope", "two words")
    assert "later" in cli.refusal("token", "create", "x", "--scope", "*", "--expires", "2001-01-01")
    assert "andon token list" in cli.refusal("token", "revoke", "nobody")


def test_a_command_uses_the_token_of_its_environment(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = cli("token", "create", "all", "--scope", "*").stdout.strip()
    narrow = cli("token", "create", "some", "--scope", "tasks:read:*").stdout.strip()
    with serving(Andon(cli.store), require_token=True) as running:
        cli.url = running.url
        assert "ANDON_TOKEN" in cli.refusal("tasks", "list")
        monkeypatch.setenv("ANDON_TOKEN", wide)
        cli.submit("job", "--id", "a")
        monkeypatch.setenv("ANDON_TOKEN", narrow)
        assert cli.lines("tasks", "list")[0][0] == "a"
        assert "tasks:create:default" in cli.refusal("submit", "job")


def test_what_is_done_on_the_store_is_not_asked_of_a_service(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = cli.refusal("storage", "configure", "7d", "--url", "http://127.0.0.1:1")
    assert "store's own --url" in told
