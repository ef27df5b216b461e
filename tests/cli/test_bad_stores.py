"""Files that are no store, or not one for this release: one sentence, nothing changed."""

import os
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from .conftest import Cli


def test_a_file_that_is_no_database_is_refused_and_left_alone(cli: Cli) -> None:
    file = cli.folder / "andon.db"
    file.write_bytes(b"Dear diary, " * 400)
    before = file.read_bytes()
    assert "is not a SQLite database" in cli.refusal("tasks", "list")
    assert "is not a SQLite database" in cli.refusal("submit", "job")
    assert file.read_bytes() == before


def test_a_database_of_another_program_is_refused_and_left_alone(cli: Cli) -> None:
    with closing(sqlite3.connect(cli.folder / "andon.db")) as db, db:
        db.execute("CREATE TABLE diary (entry TEXT)")
    db.close()
    assert "is a database of another program" in cli.refusal("submit", "job")


def test_a_newer_schema_is_refused(cli: Cli) -> None:
    cli.submit()
    with closing(sqlite3.connect(cli.folder / "andon.db")) as db, db:
        db.execute("PRAGMA user_version = 999")
    db.close()
    told = cli.refusal("tasks", "list")
    assert "schema 999" in told
    assert "Upgrade Andon" in told


def test_a_folder_that_is_missing_is_refused(cli: Cli) -> None:
    url = f"sqlite:///{cli.folder}/no/such/folder/andon.db"
    assert "does not exist" in cli.refusal("submit", "job", "--url", url)
    assert not (cli.folder / "no").exists()


def test_a_file_that_is_read_only_is_refused(cli: Cli) -> None:
    cli.submit()
    if os.geteuid() == 0:
        pytest.skip("root may write everything; see the next test")
    (cli.folder / "andon.db").chmod(0o444)
    cli.folder.chmod(0o555)
    try:
        assert "read-only" in cli.refusal("submit", "job")
    finally:
        cli.folder.chmod(0o755)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_file_that_somebody_else_may_only_read_is_refused(
    tmp_path: Path,
) -> None:
    elsewhere = tmp_path
    with tempfile.TemporaryDirectory() as name:
        cli = Cli(Path(name))
        cli.submit()
        cli.folder.chmod(0o755)
        for file in cli.folder.iterdir():
            file.chmod(0o444)
        # Everything is imported by a first submit, elsewhere: nobody may not read the library.
        code = (
            "import os; from andon.cli.root import root\n"
            "submit = lambda url: root(['submit', 'job', '--url', url], prog_name='andon')\n"
            f"try: submit('sqlite:///{elsewhere}/andon.db')\n"
            "except SystemExit: pass\n"
            "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
            f"submit({cli.url!r})"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
        assert done.returncode == 1, done.stderr
        [told] = done.stderr.splitlines()
        assert told.startswith("andon: ")
        assert "read-only" in told or "writable" in told or "yours" in told


def test_a_url_with_an_option_that_there_is_not_is_refused(cli: Cli) -> None:
    assert "there is no option 'sync'" in cli.refusal("submit", "job", "--url", f"{cli.url}?sync=1")
