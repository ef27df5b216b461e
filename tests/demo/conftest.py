"""Folders with Python files, good and bad, and the demo as a real process."""

import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

UNPARSABLE = {
    "broken.py": b"def f(:\n",
    "latin.py": b"# \xff\xfe\n",
    "nested.py": b"x = " + b"-" * 50_000 + b"1\n",
    "null.py": b"x = 1\0\n",
}
LARGE = b"x = 1\n" * 12_000  # above the budget of the first try


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Eight files: four that parse, one of them large and one empty, and four that do not."""
    root = tmp_path / "some code"
    (root / "below").mkdir(parents=True)
    (root / ".hidden").mkdir()
    (root / ".hidden" / "no.py").write_text("import hidden\n")
    (root / "notes.txt").write_text("not Python")
    (root / "empty.py").write_bytes(b"")
    (root / "large.py").write_bytes(LARGE)
    (root / "one.py").write_text('"""Doc."""\nimport os, os.path\n\n# why\nclass A:\n    x = 1\n')
    (root / "below" / "two.py").write_text("from os import path\n\ndef f():\n    return path\n")
    for name, content in UNPARSABLE.items():
        (root / name).write_bytes(content)
    return root


@pytest.fixture
def long_folder(tmp_path: Path) -> Path:
    """Enough work to be interrupted in."""
    source = Path(sysconfig.get_path("stdlib"), "argparse.py").read_bytes()[:60_000]
    source = source[: source.rindex(b"\ndef ") + 1] if b"\ndef " in source else source
    root = tmp_path / "long"
    root.mkdir()
    for number in range(60):
        (root / f"f{number:02}.py").write_bytes(b"# copy\n" + source)
    (root / "broken.py").write_bytes(b"def f(:\n")
    return root


class Run:
    """One command, running."""

    def __init__(self, *args: str, cwd: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "andon.demo", *args],
            cwd=cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONWARNINGS": "ignore", "TMPDIR": str(cwd)},
        )

    def until_completed(self, least: int) -> None:
        """Read its lines until so many tasks are completed, and more are not."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            found = re.search(r"pending (\d+).*completed (\d+)", line)
            if found and int(found[2]) >= least:
                return
        raise AssertionError(f"it ended before {least} were completed")

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def end(self, number: signal.Signals | None = None) -> tuple[int, str, str]:
        """Its exit code, standard output and standard error."""
        if number is not None:
            self.process.send_signal(number)
        out, err = self.process.communicate(timeout=100)
        return self.process.returncode, out, err

    def ledger(self) -> dict[str, Any]:
        """What it printed with --json, once it has ended well."""
        code, out, err = self.end()
        assert code == 0, out + err
        return json.loads(out)


Start = Callable[..., Run]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    runs: list[Run] = []

    def begin(*args: object) -> Run:
        runs.append(Run(*map(str, args), cwd=tmp_path))
        return runs[-1]

    yield begin
    for run in runs:
        if run.process.poll() is None:
            run.kill()
