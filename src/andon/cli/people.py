"""The user of the command line: whether a person can be asked, and the actor of acts by hand."""

import getpass
import os
import socket
import sys


def person_present() -> bool:
    """Whether a person can read and answer a question."""
    return sys.stdin.isatty()


def actor() -> str:
    """The actor: `ANDON_ACTOR`, else the user and this machine."""
    given = os.environ.get("ANDON_ACTOR", "").strip()
    if given:
        return given
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may run as a user that has no name
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()}"
