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
    assert "no scope" in cli.refusal("token", "create", "x", "--scope", "two\nlines")
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


def test_a_client_of_the_taskcluster_face_is_printed_once_and_listed_without_its_key(
    cli: Cli,
) -> None:
    scopes = ("--scope", "queue:*", "--scope", "secrets:get:a b")
    made = dict(cli.lines("token", "create", "ci/one", "--taskcluster", *scopes))
    assert made["clientId"] == "ci/one"
    assert len(made["accessToken"]) == 43
    [row] = cli.lines("token", "list", "--taskcluster")
    assert row[:2] == ["ci/one", "valid"]
    assert row[-1] == "queue:*, secrets:get:a b"
    assert made["accessToken"] not in cli("token", "list", "--taskcluster", "--json").stdout
    assert cli.lines("token", "list") == []
    assert "already" in cli.refusal("token", "create", "ci/one", "--taskcluster", *scopes)

    renewed = dict(cli.lines("token", "renew", "ci/one"))
    assert renewed["accessToken"] != made["accessToken"]
    assert cli.lines("token", "disable", "ci/one") == [["ci/one", "disabled"]]
    assert cli.lines("token", "list", "--taskcluster")[0][1] == "disabled"
    assert cli.lines("token", "enable", "ci/one") == [["ci/one", "valid"]]
    cli("token", "rotate")  # turns the key of run tokens alone
    assert cli.lines("token", "list", "--taskcluster")[0][1] == "valid"
    assert cli.lines("token", "revoke", "ci/one", "--taskcluster") == [["ci/one", "revoked"]]
    assert cli.lines("token", "list", "--taskcluster") == []
    for act in (("renew",), ("disable",), ("enable",), ("revoke", "--taskcluster")):
        told = cli.refusal("token", *act, "ci/one")
        assert "andon token list --taskcluster" in told


def test_roles_of_the_taskcluster_face_are_set_whole(cli: Cli) -> None:
    cli("storage", "init")
    everybody = ["anonymous", "queue:get-artifact:public/*, queue:list-artifacts:*"]
    assert cli.lines("token", "roles") == [everybody]
    cli("token", "role", "repo:*", "--scope", "queue:a", "--scope", "queue:b")
    cli("token", "role", "repo:*", "--scope", "queue:c")
    cli("token", "role", "anonymous")
    assert cli.lines("token", "roles") == [["anonymous", "nothing"], ["repo:*", "queue:c"]]
    cli("token", "role", "anonymous", "--default")
    assert cli.lines("token", "roles")[0] == everybody
    assert "not both" in cli("token", "role", "x", "--default", "--scope", "a", code=2).stderr
    assert "two stars" in cli.refusal("token", "role", "x", "--scope", "a**")
