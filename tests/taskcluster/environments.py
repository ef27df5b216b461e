"""The environments of programs that were written for the original service, in `.clients`.

Each program has one of its own: none of them, nor what they need, is ever imported here. They are
made when a test first asks, and kept; tests that run side by side wait for one another. What cannot
be installed is skipped, and the reason shown.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = ROOT / ".clients"
PATIENCE = 300

TASKCLUSTER = ("taskcluster",)
"""The client for Python; its version stands in constraints.txt."""

NODE_CLIENT = ("taskcluster-client@87.1.3",)
"""The client for JavaScript."""


@cache
def python_with(name: str, requires: Sequence[str] = TASKCLUSTER) -> Path:
    """The interpreter of an environment with these packages; skips the test where there is none."""
    folder = ENVIRONMENTS / name
    python = folder / "bin" / "python"
    constraints = ROOT / "constraints.txt"
    wanted = "\n".join([str(folder), sys.version, *requires, constraints.read_text()])
    with _alone(name):
        if not _is_ready(folder, wanted):
            _run(name, sys.executable, "-m", "venv", "--without-pip", str(folder))
            pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q")
            into = ("--python", str(python), "install", "--constraint", str(constraints))
            _run(name, *pip, *into, *requires)
            _say_ready(folder, wanted)
    return python


@cache
def node_with(name: str, packages: Sequence[str] = NODE_CLIENT) -> Path:
    """A folder in which Node.js finds these packages; skips the test where there is none."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("there is no Node.js here")
    folder = ENVIRONMENTS / name
    wanted = "\n".join([str(folder), *packages])
    with _alone(name):
        if not _is_ready(folder, wanted):
            folder.mkdir(parents=True)
            (folder / "package.json").write_text('{"private": true}\n', encoding="utf-8")
            quiet = ("--no-audit", "--no-fund", "--no-save", "--no-package-lock", "--silent")
            soon = ("--fetch-retries=1", "--fetch-retry-maxtimeout=10000")  # else minutes, offline
            _run(name, "npm", "install", "--prefix", str(folder), *quiet, *soon, *packages)
            _say_ready(folder, wanted)
    return folder


def run_script(command: Sequence[str | Path], given: Any, **environment: str) -> Any:
    """What a program says in JSON on its standard output, given something in JSON."""
    done = subprocess.run(
        [str(part) for part in command],
        input=json.dumps(given),
        env={**clean_environment(), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout)


def clean_environment() -> dict[str, str]:
    """This process's environment without what speaks to Python, Andon or a client."""
    ours = ("PYTHON", "ANDON", "TASKCLUSTER", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


@contextmanager
def _alone(name: str) -> Iterator[None]:
    ENVIRONMENTS.mkdir(exist_ok=True)
    with (ENVIRONMENTS / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _is_ready(folder: Path, wanted: str) -> bool:
    """Whether the environment is there as wanted; what is there of another one is removed."""
    ready = folder / ".ready"
    if ready.exists() and ready.read_text(encoding="utf-8") == wanted:
        return True
    shutil.rmtree(folder, ignore_errors=True)
    return False


def _say_ready(folder: Path, wanted: str) -> None:
    (folder / ".ready").write_text(wanted, encoding="utf-8")


_not_had: dict[str, str] = {}
"""Environments that could not be made, and why: they are not tried again by each test."""


def _run(name: str, *command: str) -> None:
    if name in _not_had:
        pytest.skip(_not_had[name])
    done = subprocess.run(
        command, env=clean_environment(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line and "WARN" not in line.upper()]
        _not_had[name] = f"{name} cannot be installed here: {lines[-1] if lines else command}"
        pytest.skip(_not_had[name])
