"""A virtual environment for each peer, made when it is first measured, in `.bench/envs`.

Each driver names the versions of what it drives, so that a run can be repeated. What cannot be
installed is said and left out; the others are measured.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from peers.shape import Peer

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = HERE.parent / ".bench" / "envs"


class NotInstallable(Exception):
    """A peer that cannot be measured here; says why."""


def python_for(name: str, peer: type[Peer]) -> Path:
    """The interpreter of the peer's environment, with everything in it."""
    folder = ENVIRONMENTS / name
    python = folder / "bin" / "python"
    wanted = "\n".join([str(folder), *peer.requires])  # moved, its scripts name nothing
    ready = folder / ".ready"
    if ready.exists() and ready.read_text(encoding="utf-8") == wanted and _runs(python):
        return python
    print(f"  making the environment of {name} ...", file=sys.stderr, flush=True)
    base = _interpreter(peer.python)
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    _run(name, [base, "-m", "venv", str(folder)])
    install = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    _run(name, [*install, "psutil", *peer.requires])
    ready.write_text(wanted, encoding="utf-8")
    return python


def _run(name: str, command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "WARNING" not in line]
        why = lines[-1] if lines else f"code {done.returncode}"
        raise NotInstallable(f"{name} cannot be installed here: {why}")


def _runs(python: Path | str) -> bool:
    try:
        return not subprocess.run([python, "-c", ""], check=False, capture_output=True).returncode
    except OSError:
        return False


def _interpreter(oldest: tuple[int, int]) -> str:
    """This Python, so that all sides run on the same, unless the peer needs a newer one."""
    if sys.version_info >= oldest:
        return sys.executable
    names = [f"python3.{minor}" for minor in range(oldest[1], oldest[1] + 3)]
    # On PATH, or installed beside this one, as version managers do it.
    beside = Path(sys.base_prefix).parent
    candidates = [
        *names,
        *(str(path) for name in names for path in sorted(beside.glob(f"*/bin/{name}"))),
    ]
    for candidate in candidates:
        if _runs(candidate):
            return candidate
    wanted = ".".join(map(str, oldest))
    raise NotInstallable(f"It needs Python {wanted} or newer, and none was found; install one.")
