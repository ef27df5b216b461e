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
    max_events: int = 1_000_000  #: events kept in the log (R12)


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
    unknown = set(options) - {"synchronous", "partitions", "max_events"}
    if unknown:
        raise ConfigurationError(
            f"{url!r}: there is no option {min(unknown)!r}; known are synchronous=full|normal, "
            "partitions=N and max_events=N."
        )
    synchronous = options.get("synchronous", "full").lower()
    if synchronous not in ("full", "normal"):
        raise ConfigurationError(f"{url!r}: synchronous is full or normal, not {synchronous!r}.")
    return Location(
        path=Path(path).absolute(),
        synchronous=synchronous,
        partitions=_number(url, options, "partitions", 256),
        max_events=_number(url, options, "max_events", 2**53) or 1_000_000,
    )


def _number(url: str, options: dict[str, str], name: str, most: int) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not (text.isdigit() and 1 <= int(text) <= most):
        raise ConfigurationError(f"{url!r}: {name} is a number from 1 to {most}, not {text!r}.")
    return int(text)
