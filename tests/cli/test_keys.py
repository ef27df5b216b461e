"""`andon keys`, `andon submit --sign`, and what a worker is told to trust."""

import logging
import stat
from pathlib import Path

import pytest

from andon.model.headers import SIGNATURE_HEADER
from andon.signing import SigningKey, TrustedKeys

from .conftest import Cli


@pytest.fixture
def key(cli: Cli, tmp_path: Path) -> Path:
    path = tmp_path / "shop.pem"
    cli("keys", "new", str(path))
    return path


def test_a_new_key_is_two_files_of_which_one_is_its_owners_only(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "shop.pem"
    [[key_id]] = cli.lines("keys", "new", str(path))
    public = tmp_path / "shop.pem.pub"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert SigningKey.load(path).key_id == key_id
    assert TrustedKeys.load(public).ids == (key_id,)


def test_a_file_that_is_there_is_never_replaced(cli: Cli, key: Path, tmp_path: Path) -> None:
    before = key.read_bytes()
    assert "is there already" in cli.refusal("keys", "new", str(key))
    (tmp_path / "other.pub").write_text("mine")
    assert "other.pub is there already" in cli.refusal("keys", "new", str(tmp_path / "other"))
    assert key.read_bytes() == before
    assert not (tmp_path / "other").exists()
    assert "cannot be written" in cli.refusal("keys", "new", str(tmp_path / "no" / "folder"))


def test_of_a_private_key_only_the_public_half_is_shown(cli: Cli, key: Path) -> None:
    public = Path(f"{key}.pub")
    shown = cli("keys", "show", str(key))
    assert shown.stdout == public.read_text()
    assert "private key" in shown.stderr
    one, other = cli.json("keys", "show", str(key), str(public))
    assert (one["kind"], other["kind"]) == ("private", "public")
    assert one["id"] == other["id"]
    assert one["public"] == other["public"]


def test_what_is_no_key_is_one_sentence(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    assert "no key in PEM form" in cli.refusal("keys", "show", str(tmp_path / "text"))
    assert "cannot be read" in cli.refusal("keys", "show", str(tmp_path / "none"))


def signature_of(cli: Cli, task_id: str) -> str | None:
    return cli.json("tasks", "show", task_id)["headers"].get(SIGNATURE_HEADER)


def test_a_submit_is_signed_with_the_key_that_it_names(cli: Cli, key: Path, tmp_path: Path) -> None:
    cli("submit", "job", "--id", "one", "--args", '{"n": 1}', "--sign", str(key))
    assert (signature_of(cli, "one") or "").startswith(f"v1.{SigningKey.load(key).key_id}.")
    lines = tmp_path / "many.jsonl"
    lines.write_text("".join(f'{{"id": "m{n}", "name": "job"}}\n' for n in range(3)))
    cli("submit", "--jsonl", str(lines), "--sign", str(key))
    assert all(signature_of(cli, f"m{n}") for n in range(3))
    cli("submit", "job", "--id", "plain")
    assert signature_of(cli, "plain") is None


def test_a_submit_is_signed_with_the_key_of_the_environment(
    cli: Cli, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANDON_SIGNING_KEY", str(key))
    cli("submit", "job", "--id", "one")
    assert signature_of(cli, "one")


def test_a_key_that_cannot_be_used_is_told_before_anything_is_submitted(
    cli: Cli, key: Path, tmp_path: Path
) -> None:
    told = cli.refusal("submit", "job", "--id", "one", "--sign", f"{key}.pub")
    assert "holds no private key" in told
    assert not (cli.folder / "andon.db").exists()


def test_a_worker_is_not_started_on_keys_that_cannot_be_used(
    cli: Cli, key: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = tmp_path / "shop_of_keys.py"
    app.write_text("from andon import Andon\napp = Andon()\n")
    with caplog.at_level(logging.WARNING):
        told = cli.refusal("worker", str(app), "--trust", str(key))
    assert "workers are given the public one" in told
