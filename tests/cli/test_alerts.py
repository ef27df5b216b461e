"""`andon alerts`: rules and targets from the command line, and no secret on the way back."""

import json
from pathlib import Path

import pytest

from andon.lifecycle.commands import Complete

from .conftest import Cli

SECRET = "the-receiver-knows-it-too"


@pytest.fixture
def secret(tmp_path: Path) -> str:
    file = tmp_path / "secret.txt"
    file.write_text(f"{SECRET}\n")
    return str(file)


def test_a_rule_is_made_shown_edited_and_removed(cli: Cli) -> None:
    cli("alerts", "target", "chat", "--chat", "https://chat.example/hidden")
    cli("alerts", "add", "stuck", "--when", "oldest-age", "--above", "10m", "--to", "chat")
    [row] = cli.lines("alerts", "list")
    assert row[1] in ("new", "quiet")  # a service may have looked
    assert [row[0], *row[2:]] == ["stuck", "the oldest task waits for more than 10m", "", "chat"]
    assert "is an alert rule 'stuck'" in cli.refusal(
        "alerts", "add", "stuck", "--when", "new-error"
    )
    cli("alerts", "edit", "stuck", "--for", "2m", "--queue", "mail*")
    rule = cli.json("alerts", "show", "stuck")
    assert (rule["above"], rule["for"], rule["queue"]) == (600, 120, "mail*")
    cli("alerts", "edit", "stuck", "--queue", "none", "--to", "none")
    rule = cli.json("alerts", "show", "stuck")
    assert "queue" not in rule
    assert "targets" not in rule
    assert cli.lines("alerts", "remove", "stuck") == [["stuck", "removed"]]
    assert "no alert rule 'stuck'" in cli.refusal("alerts", "remove", "stuck")
    assert cli("alerts", "list").stdout == ""


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--when", "oldest-age"], "above is missing"),
        (["--when", "oldest-age", "--above", "soon"], "no duration"),
        (["--when", "new-error", "--above", "5"], "has no 'above'"),
        (["--when", "new-error", "--to", "nobody"], "no target 'nobody'"),
    ],
)
def test_a_rule_that_cannot_be_is_one_sentence(cli: Cli, args: list[str], said: str) -> None:
    cli("storage", "init")
    assert said in cli.refusal("alerts", "add", "r", *args)
    assert cli.json("alerts", "list")["rules"] == []


def test_an_empty_option_is_a_usage_error(cli: Cli) -> None:
    done = cli("alerts", "add", "r", "--when", "new-error", "--queue", "", code=2)
    assert "--queue is an empty text" in done.stderr


def test_no_secret_is_printed(cli: Cli, secret: str, tmp_path: Path) -> None:
    url = tmp_path / "url.txt"
    url.write_text("https://chat.example/hidden-path")
    printed = [
        cli("alerts", "target", "ops", "--webhook", "https://o.example/x", "--secret-file", secret),
        cli("alerts", "target", "chat", "--chat", f"@{url}", "--text-field", "content"),
        cli("alerts", "target", "chat", "--text-field", "body"),
        cli("alerts", "targets"),
        cli("alerts", "targets", "--json"),
        cli("alerts", "list", "--json"),
        cli("audit", "--json"),
    ]
    for done in printed:
        assert SECRET not in done.output
        assert "hidden-path" not in done.output
    assert cli.lines("alerts", "targets") == [
        ["chat", "chat", "https://chat.example/…"],
        ["ops", "webhook", "https://o.example/…"],
    ]
    book = cli.behind(lambda engine: engine.alerts.book())
    assert book.targets["ops"].secret == SECRET
    assert book.targets["chat"].text_field == "body"


def test_a_command_stands_after_two_dashes(cli: Cli) -> None:
    cli("alerts", "target", "page", "--command", "--", "/bin/page", "--now")
    book = cli.behind(lambda engine: engine.alerts.book())
    assert book.targets["page"].argv == ("/bin/page", "--now")
    assert "goes with a program" in cli("alerts", "target", "page", "--command", code=2).stderr
    both = cli("alerts", "target", "x", "--chat", "u", "--webhook", "u", code=2)
    assert "Give one of" in both.stderr


def test_list_now_says_what_would_be_told_and_tells_nothing(cli: Cli) -> None:
    cli("alerts", "target", "chat", "--chat", "https://chat.example/")
    cli("alerts", "add", "letters", "--when", "dead-letters", "--above", "0", "--to", "chat")
    cli.submit("job")
    cli.fail()
    done = cli("alerts", "list", "--now")
    assert done.stdout.split("\t")[1] == "firing"
    assert "Would tell chat: 🔴 Andon: letters is firing" in done.stderr
    told = cli.json("alerts", "list", "--now")["told"]
    assert [(one["type"], one["targets"]) for one in told] == [("alert.firing", ["chat"])]
    assert cli.json("alerts", "list")["rules"][0]["state"] == "new"
    stats = cli.behind(lambda engine: engine.stats())
    assert [one.queue for one in stats if any(one.counts.values())] == ["default"]


FILE = """
[targets.ops]
how = "webhook"
url_env = "OPS_URL"
secret_file = "secret.txt"

[rules.stuck]
when = "oldest-age"
above = "10m"
for = "2m"
targets = ["ops"]
"""


def test_a_file_is_applied_with_its_secrets_from_elsewhere(
    cli: Cli, secret: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPS_URL", "https://ops.example/hidden-path")
    cli("alerts", "target", "old", "--chat", "https://old.example/")
    file = tmp_path / "alerts.toml"
    file.write_text(FILE)
    changes = ["add target ops", "remove target old", "add rule stuck"]
    dry = cli("alerts", "apply", str(file), "--dry-run")
    assert sorted(dry.stdout.splitlines()) == sorted(changes)
    assert "Nothing was written" in dry.stderr
    assert [one[0] for one in cli.lines("alerts", "targets")] == ["old"]
    done = cli.json("alerts", "apply", str(file))
    assert (sorted(done["changes"]), done["applied"]) == (sorted(changes), True)
    book = cli.behind(lambda engine: engine.alerts.book())
    assert book.targets["ops"].secret == SECRET
    assert book.targets["ops"].url.endswith("hidden-path")
    assert "Nothing changes" in cli("alerts", "apply", "-", stdin=FILE.replace(
        'secret_file = "secret.txt"\n', ""
    )).stderr  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[rules", "is no TOML"),
        ('[targets.a]\nhow = "chat"\nurl_env = "NOT_SET"', "has no NOT_SET"),
        ('[targets.a]\nhow = "chat"\nurl = "x"\nurl_env = "X"', "give one of url"),
        ('[targets.a]\nhow = "chat"\nurl_file = "not-there"', "not-there: No such file"),
        ("[rules.a]\nabove = 5", "when is one of"),
        ("[rule.a]\nabove = 5", "not 'rule'"),
    ],
)
def test_a_file_that_cannot_be_is_refused_whole(
    cli: Cli, tmp_path: Path, text: str, said: str
) -> None:
    cli("storage", "init")
    file = tmp_path / "alerts.toml"
    file.write_text(text)
    assert said in cli.refusal("alerts", "apply", str(file))


def test_a_test_that_nobody_delivers_says_who_does(cli: Cli) -> None:
    cli("alerts", "target", "chat", "--chat", "https://chat.example/")
    told = cli.refusal("alerts", "test", "chat", "--timeout", "0.1")
    assert "delivered by andon serve" in told
    assert "no alert target 'chaat'" in cli.refusal("alerts", "test", "chaat")


def test_a_test_that_was_delivered_says_so(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from andon.engine.base import Submission, Submitted
    from andon.engine.local import LocalEngine
    from andon.model.alerts import ALERTS_QUEUE

    cli("alerts", "target", "chat", "--chat", "https://chat.example/")
    submit = LocalEngine.submit

    async def delivered(self: LocalEngine, wanted: list[Submission]) -> list[Submitted]:
        outcomes = await submit(self, wanted)
        from andon.contract.requests import ClaimRequest

        [task] = await self.claim(
            ClaimRequest(worker="w", token="t", queues=(ALERTS_QUEUE,), limit=1, lease_ms=60_000)
        )
        await self.report(task, Complete(result=json.dumps("200 ok").encode()))
        return outcomes

    monkeypatch.setattr(LocalEngine, "submit", delivered)
    [row] = cli.lines("alerts", "test", "chat")
    assert row[:2] == ["chat", "told"]
