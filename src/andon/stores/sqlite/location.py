"""`sqlite:///relative/path`, `sqlite:////absolute/path`, and their options."""

from pathlib import Path
from typing import Literal
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from andon.model.errors import ConfigurationError


class Location(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed URL. `partitions` None: whatever the file was made with (1 when it is new)."""

    path: Path
    synchronous: Literal["full", "normal"] = "full"
    partitions: int | None = None


def parse(url: str) -> Location:
    """Parse a `sqlite:` URL. Raises `ConfigurationError` naming what is wrong."""
    parts = urlsplit(url)
    if parts.scheme != "sqlite" or parts.netloc:
        raise ConfigurationError(
            f"{url!r} is not a SQLite URL; write sqlite:///file.db, or sqlite:////path/file.db."
        )
    path = unquote(parts.path)[1:]
    if not path or path == ":memory:":
        raise ConfigurationError(
            f"{url!r} names no file. For a store in memory write memory://, "
            "for one in a file sqlite:///file.db."
        )
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = set(options) - {"synchronous", "partitions"}
    if unknown:
        raise ConfigurationError(
            f"{url!r}: there is no option {min(unknown)!r}; known are synchronous=full|normal "
            "and partitions=N."
        )
    synchronous = options.get("synchronous", "full").lower()
    if synchronous not in ("full", "normal"):
        raise ConfigurationError(f"{url!r}: synchronous is full or normal, not {synchronous!r}.")
    partitions = options.get("partitions")
    if partitions is not None and not (partitions.isdigit() and 1 <= int(partitions) <= 256):
        raise ConfigurationError(f"{url!r}: partitions is a number from 1 to 256.")
    return Location(
        path=Path(path).absolute(),
        synchronous=synchronous,
        partitions=None if partitions is None else int(partitions),
    )
