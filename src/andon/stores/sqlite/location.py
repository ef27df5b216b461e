"""`sqlite:///relative/path`, `sqlite:////absolute/path`, and their options."""

import os
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from andon.model.errors import ConfigurationError, StoreUnavailable
from andon.model.urls import shown
from andon.stores.kit.url_options import MAX_EVENTS, number


class Location(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed URL. `partitions` None: whatever the file was made with (1 when it is new)."""

    path: Path
    synchronous: Literal["full", "normal"] = "full"
    partitions: int | None = None
    max_events: int = MAX_EVENTS  #: events kept in the log (docs/rulings.md, R12)


class SameFile:
    """Notices that the file at a path is no longer the one that was opened.

    A process goes on writing to a file that was deleted or replaced under it, and what it writes
    is gone when it ends: better an error. Costs one `stat`, about 2 us.
    """

    def __init__(self, path: Path) -> None:
        """Raises `StoreUnavailable` if there is no file any more."""
        self._path = str(path)
        try:
            found = path.stat()
        except OSError as error:
            raise self._is_gone() from error
        self._opened = found.st_dev, found.st_ino

    def check(self) -> None:
        """Raise `StoreUnavailable` if the file was deleted or replaced."""
        try:
            found = os.stat(self._path)  # noqa: PTH116 - a `Path` costs twice as much
        except OSError as error:
            raise self._is_gone() from error
        if (found.st_dev, found.st_ino) != self._opened:
            raise self._is_gone()

    def _is_gone(self) -> StoreUnavailable:
        return StoreUnavailable(
            f"{self._path} was deleted or replaced while this process had it open; nothing "
            "was stored. Put the file back, or restart this process to use what is there now."
        )


def parse(url: str) -> Location:
    """Parse a `sqlite:` URL. Raises `ConfigurationError` naming what is wrong."""
    parts = urlsplit(url)
    if parts.scheme != "sqlite" or parts.netloc:
        raise ConfigurationError(
            f"{shown(url)!r} is not a SQLite URL; write sqlite:///file.db, or sqlite:////path/file.db."
        )
    path = unquote(parts.path)[1:]
    if not path or path == ":memory:":
        raise ConfigurationError(
            f"{shown(url)!r} names no file. For a store in memory write memory://, "
            "for one in a file sqlite:///file.db."
        )
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = set(options) - {"synchronous", "partitions", "max_events"}
    if unknown:
        raise ConfigurationError(
            f"{shown(url)!r}: there is no option {min(unknown)!r}; known are "
            "synchronous=full|normal, partitions=N and max_events=N."
        )
    synchronous = options.get("synchronous", "full").lower()
    if synchronous not in ("full", "normal"):
        raise ConfigurationError(
            f"{shown(url)!r}: synchronous is full or normal, not {synchronous!r}."
        )
    return Location(
        path=Path(path).absolute(),
        synchronous=synchronous,
        partitions=number(url, options, "partitions", 256),
        max_events=number(url, options, "max_events", 2**53) or MAX_EVENTS,
    )
