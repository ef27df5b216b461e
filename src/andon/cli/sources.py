"""Watches the source files of an application for changes."""

import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path

from andon.cli.apps import module_of, split

MOST_FILES = 10_000
"""More than this is not an application's source tree; the rest is not watched."""

_SKIPPED = frozenset(
    {"__pycache__", "node_modules", "site-packages", "venv", "env", "build", "dist"}
)

Snapshot = dict[Path, tuple[int, int]]


def roots_of(spec: str) -> list[Path]:
    """The folders to watch for an application, found without importing it.

    That of its top package, or that of its file.
    """
    name, folder = module_of(split(spec)[0])
    top = name.partition(".")[0]
    found = PathFinder.find_spec(top, [str(folder), *sys.path])
    if found is None:
        return [folder]
    if found.submodule_search_locations:
        return [Path(place) for place in found.submodule_search_locations]
    return [Path(found.origin).parent] if found.origin else [folder]


class Sources:
    """Python files below some folders. `changed` says which differ from the last look."""

    def __init__(self, roots: list[Path]) -> None:
        self._roots = roots
        self._seen = self._look()

    def __len__(self) -> int:
        return len(self._seen)

    def changed(self) -> list[Path]:
        """Files written, made or removed since the last call."""
        now, before = self._look(), self._seen
        self._seen = now
        return sorted(
            path for path in now.keys() | before.keys() if now.get(path) != before.get(path)
        )

    def _look(self) -> Snapshot:
        found: Snapshot = {}
        for root in self._roots:
            for folder, folders, files in os.walk(root):
                folders[:] = [
                    name for name in folders if name not in _SKIPPED and not name.startswith(".")
                ]
                for name in files:
                    if name.endswith(".py") and len(found) < MOST_FILES:
                        self._note(found, Path(folder, name))
        return found

    @staticmethod
    def _note(found: Snapshot, path: Path) -> None:
        try:
            stat = path.stat()
        except OSError:  # removed in between
            return
        found[path] = (stat.st_mtime_ns, stat.st_size)
