"""What every side has: where to write, which server, how large. Uses nothing but Python itself."""

import os
import sys
import time
from pathlib import Path

MEMBERS = 20
"""Tasks of a group."""

MEMBER_S = 0.1
"""Seconds that a member takes."""

AT_ONCE = 4
"""Tasks that a worker runs at once."""

SOON_S = 10
"""Seconds after which a worker that was killed is to be missed, where that can be set."""

URL = os.environ.get("SIDE_URL", "")
FOLDER = os.environ.get("SIDE_FOLDER", ".")


def line(*words: object) -> None:
    """Append a line, whole or not at all."""
    file = os.open(f"{FOLDER}/lines", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(file, (" ".join(map(str, words)) + "\n").encode())
    os.close(file)


def member(group: int, number: int) -> None:
    """What a member does."""
    time.sleep(MEMBER_S)
    line("member", group, number)


def tick() -> None:
    """What an occurrence does."""
    line("tick", time.time())


def program(name: str) -> str:
    """A command of this environment."""
    return str(Path(sys.executable).with_name(name))
