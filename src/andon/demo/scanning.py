"""Which files there are, which of them have changed, and the list that a flow works through.

A list is taken once and kept in a file beside the store. The occurrence that begins a flow, first
or after a crash, reads it, so that the same tasks are submitted whatever happened to the folder
since.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from andon.demo import scratch
from andon.demo.files import write_whole
from andon.demo.names import Names
from andon.lifecycle.flows import MOST_MEMBERS

SKIPPED = frozenset({"__pycache__", "site-packages", "dist-packages", "node_modules"})
"""Folders with third-party code; hidden ones are skipped too."""

MOST_FILES = MOST_MEMBERS - 3
"""Files of one flow: beside them it has a scan and a report, and the demo has a file of its
own."""

Stamp = tuple[int, int]
"""Size in bytes and time of the last change in ns: what a file is known to be the same by."""


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """What a flow works through."""

    flow: int  #: from 1
    taken_by: str  #: id of the task that took it
    files: dict[str, Stamp]  #: all there were, by path below the folder, with slashes
    changed: tuple[str, ...]  #: those to analyse: in the first flow all, sorted


def walk(folder: Path) -> Iterator[str]:
    """Paths of the Python files below a folder. Symbolic links to folders are not followed, and
    names that are not text are left out: JSON has no way to say them."""
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(d for d in folders if d not in SKIPPED and not d.startswith("."))
        below = Path(here).relative_to(folder)
        for name in sorted(files):
            if name.endswith(".py") and Path(here, name).is_file():
                path = (below / name).as_posix()
                if path.isascii() or _is_text(path):
                    yield path


def root_of(names: Names, path: str) -> Path:
    """The folder that a path of a listing is below."""
    return Path(names.home if path == scratch.PATH else names.folder)


def look(names: Names) -> dict[str, Stamp]:
    """All files as they are now. One that goes away meanwhile is not among them."""
    found: dict[str, Stamp] = {}
    for path in (*walk(Path(names.folder)), scratch.PATH):
        now = stamp(names, path)
        if now is not None:
            found[path] = now
    return found


def stamp(names: Names, path: str) -> Stamp | None:
    """One file as it is now; None if it is not there."""
    try:
        now = (root_of(names, path) / path).stat()
    except FileNotFoundError:
        return None
    return (now.st_size, now.st_mtime_ns)


def read(names: Names, number: int) -> Listing:
    """The list of a flow. Raises `FileNotFoundError`."""
    return msgspec.json.decode(names.listing(number).read_bytes(), type=Listing)


def newest(names: Names) -> Listing | None:
    """The list of the newest flow; None before the first."""
    number = 1
    while names.listing(number).exists():
        number += 1
    return read(names, number - 1) if number > 1 else None


def listings(names: Names) -> list[Listing]:
    """The lists of all flows, the first one first."""
    last = newest(names)
    return [] if last is None else [*(read(names, number) for number in range(1, last.flow)), last]


def forget(names: Names) -> None:
    """Remove the lists of all flows, the newest one first."""
    for number in range(len(listings(names)), 0, -1):
        names.listing(number).unlink()


def take(
    names: Names, before: Listing | None, files: dict[str, Stamp], *, taken_by: str
) -> Listing | None:
    """The list of another flow, of what has changed since `before`, kept from now on; None if
    nothing has."""
    known = {} if before is None else before.files
    changed = tuple(sorted(path for path, stamp in files.items() if known.get(path) != stamp))
    if not changed:
        return None
    number = 1 if before is None else before.flow + 1
    listing = Listing(flow=number, taken_by=taken_by, files=files, changed=changed)
    write_whole(names.listing(number), msgspec.json.encode(listing))
    return listing


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
