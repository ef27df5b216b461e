"""Which files a folder has, and the list of them that a round works through.

The list is taken once and kept in a file beside the store. A scan that was killed and starts again
reads it, so it submits exactly what it submitted before, whatever happened to the folder since.
"""

import os
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

import msgspec

from andon.demo.files import write_whole

SKIPPED = frozenset({"__pycache__", "site-packages", "dist-packages", "node_modules"})
"""Folders that hold somebody else's code; hidden ones are skipped too."""


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """The files of one round."""

    folder: str
    files: tuple[str, ...]  #: paths below the folder, with slashes, sorted
    unnameable: int = 0  #: files left out because their names are not text


def walk(folder: Path) -> Iterator[str]:
    """Paths of the Python files below a folder. Symbolic links to folders are not followed."""
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(d for d in folders if d not in SKIPPED and not d.startswith("."))
        below = Path(here).relative_to(folder)
        for name in sorted(files):
            if name.endswith(".py") and Path(here, name).is_file():
                yield (below / name).as_posix()


def take(folder: Path, kept: Path) -> Listing:
    """The listing kept in this file, or a new one that is kept there from now on."""
    try:
        return msgspec.json.decode(kept.read_bytes(), type=Listing)
    except FileNotFoundError:
        pass
    files: list[str] = []
    unnameable = 0
    for path in walk(folder):
        try:
            path.encode()
            files.append(path)
        except UnicodeEncodeError:  # JSON has no way to say such a name
            unnameable += 1
    listing = Listing(folder=str(folder), files=tuple(files), unnameable=unnameable)
    write_whole(kept, msgspec.json.encode(listing))
    return listing


def file_id(prefix: str, path: str) -> str:
    """The id of the task that analyses a file: the same whenever the round submits it."""
    return f"{prefix}-file-{blake2b(path.encode(), digest_size=10).hexdigest()}"
