"""`andon artifacts` and `andon logs`."""

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from andon.artifacts import Artifact, LogLine
from andon.engine.local import LocalEngine

from .conftest import Cli


def leave(cli: Cli, task_id: str, name: str, content: bytes, run: int = 0) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield content

    async def act(engine: LocalEngine) -> None:
        artifacts = await engine.artifacts()
        await artifacts.put(task_id, run, name, pieces(), content_type="text/plain")

    cli.behind(act)


def say(cli: Cli, task_id: str, number: int, *texts: str, run: int = 0) -> None:
    async def act(engine: LocalEngine) -> None:
        lines = [LogLine(1_000 * number, "info", text) for text in texts]
        await (await engine.artifacts()).append_log(task_id, run, number, lines)

    cli.behind(act)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ANDON_ARTIFACTS", raising=False)


def test_artifacts_are_listed_and_fetched(cli: Cli):
    task_id = cli.submit()
    cli.end()
    leave(cli, task_id, "out.txt", b"hello")
    [row] = cli.lines("artifacts", "list", task_id)
    assert row[:4] == ["0", "out.txt", "5 B", "text/plain"]
    [shown] = cli.json("artifacts", "list", task_id)
    assert shown["sha256"] == hashlib.sha256(b"hello").hexdigest()
    assert "data" not in shown
    cli("artifacts", "get", task_id, "out.txt")
    assert Path("out.txt").read_bytes() == b"hello"
    assert cli("artifacts", "get", task_id, "out.txt", "-o", "-").stdout == "hello"


def test_a_file_that_is_there_is_not_replaced_unless_it_is_named(cli: Cli):
    task_id = cli.submit()
    cli.end()
    leave(cli, task_id, "out.txt", b"new")
    Path("out.txt").write_bytes(b"old")
    assert "there already" in cli("artifacts", "get", task_id, "out.txt", code=2).stderr
    assert Path("out.txt").read_bytes() == b"old"
    cli("artifacts", "get", task_id, "out.txt", "-o", "out.txt")
    assert Path("out.txt").read_bytes() == b"new"


def test_a_run_can_be_chosen(cli: Cli):
    task_id = cli.submit()
    cli.end()
    leave(cli, task_id, "out", b"first", run=0)
    leave(cli, task_id, "out", b"second", run=1)
    assert cli("artifacts", "get", task_id, "out", "-o", "-").stdout == "second"
    assert cli("artifacts", "get", task_id, "out", "--run", "0", "-o", "-").stdout == "first"


def test_what_is_not_there_is_one_sentence(cli: Cli):
    task_id = cli.submit()
    assert cli.lines("artifacts", "list", task_id) == []
    assert "no task" in cli.refusal("artifacts", "list", "nobody").lower()
    assert "has no artifact" in cli.refusal("artifacts", "get", task_id, "out")


def test_the_logs_of_all_runs_are_printed_in_order(cli: Cli):
    task_id = cli.submit()
    cli.fail_once()
    cli("tasks", "retry", task_id)
    cli.end()
    say(cli, task_id, 1, "one", "two")
    say(cli, task_id, 2, "three", run=1)
    texts = [line.partition("info")[2].strip() for line in cli("logs", task_id).stdout.splitlines()]
    assert texts == ["one", "two", "three"]
    assert len(cli("logs", task_id, "--run", "1").stdout.splitlines()) == 1
    assert "three" in cli("logs", task_id, "--follow", "--run", "1").stdout


def test_the_place_can_be_named_for_everybody(cli: Cli, tmp_path: Path):
    task_id = cli.submit()
    cli.end()
    cli("storage", "configure", "--artifacts", f"file://{tmp_path / 'elsewhere'}")
    leave(cli, task_id, "out", b"x")
    assert list((tmp_path / "elsewhere").rglob("meta/out"))
    told = cli.refusal("storage", "configure", "--artifacts", "ftp://host")
    assert "no place for artifacts" in told


def register(cli: Cli, task_id: str, name: str, **fields: Any) -> None:
    async def act(engine: LocalEngine) -> None:
        artifacts = await engine.artifacts()
        fields.setdefault("content_type", "text/plain")
        await artifacts.register(
            Artifact(task=task_id, run=0, name=name, created_at=engine.now(), **fields)
        )

    cli.behind(act)


def test_what_is_no_file_is_listed_as_what_it_is_and_links_are_followed(cli: Cli):
    task_id = cli.submit()
    cli.end()
    leave(cli, task_id, "a.txt", b"hello")
    register(cli, task_id, "b", kind="link", target="a.txt")
    register(cli, task_id, "c", kind="reference", url="https://example.org/c")
    register(cli, task_id, "d", kind="error", reason="too-large", message="It has 9 GiB.")
    register(cli, task_id, "e")
    assert [row[-1] for row in cli.lines("artifacts", "list", task_id)] == [
        "file",
        "link to a.txt",
        "reference to https://example.org/c",
        "error: too-large",
        "file, not there yet",
    ]
    shown = cli.json("artifacts", "list", task_id)[1]
    assert (shown["kind"], shown["target"]) == ("link", "a.txt")
    assert "upload" not in shown
    assert cli("artifacts", "get", task_id, "b", "-o", "-").stdout == "hello"
    assert "https://example.org/c" in cli.refusal("artifacts", "get", task_id, "c")
    assert "It has 9 GiB." in cli.refusal("artifacts", "get", task_id, "d")
    assert "have not come" in cli.refusal("artifacts", "get", task_id, "e")
