"""Remembers the last id submitted or shown, by store: what `-` means on a terminal.

Kept in the user's state directory (`XDG_STATE_HOME`, else `~/.local/state`), only on a terminal:
scripts neither write nor read it. The file names the store by a digest: a URL may hold a password.
"""

import contextlib
import hashlib
import os
from pathlib import Path

import click

from andon.cli import people
from andon.lifecycle.admission import is_id


def remember(url: str, task_id: str) -> None:
    """Note the id, if a person uses the command. Errors of writing are ignored."""
    if not people.person_present():
        return
    with contextlib.suppress(OSError, RuntimeError):
        place = _place(url)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = place.with_name(f"{place.name}.{os.getpid()}")
        draft.write_text(task_id, encoding="ascii")
        draft.replace(place)


def last_id(url: str) -> str:
    """The id noted last. Raises `click.UsageError` if there is none."""
    with contextlib.suppress(OSError, RuntimeError, UnicodeDecodeError):
        task_id = _place(url).read_text(encoding="ascii")
        if is_id(task_id):
            return task_id
    raise click.UsageError(
        "- is the last id that you submitted or showed here, and there is none yet; "
        "in a pipe it reads ids from stdin."
    )


def _place(url: str) -> Path:
    """The file for a store. Raises `RuntimeError` where there is no home."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    digest = hashlib.sha256(_whole(url).encode(errors="replace")).hexdigest()
    return Path(state, "andon", "last", digest[:32])


def _whole(url: str) -> str:
    """The URL; of a file, wherever it is named from."""
    from andon.engine.opening import file_of

    file = file_of(url)
    return url if file is None else f"sqlite:{file.resolve()}"
