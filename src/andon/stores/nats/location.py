"""`nats://host:4222`, `tls://user:secret@host`, several hosts with commas, and their options."""

import re
from typing import Literal
from urllib.parse import parse_qsl, unquote

import msgspec

from andon.model.errors import ConfigurationError
from andon.model.urls import shown, split
from andon.stores.kit.url_options import MAX_EVENTS, number

_OPTIONS = ("namespace", "partitions", "storage", "replicas", "max_events", "monitor")
_NAMESPACE = re.compile(r"[a-z][a-z0-9_-]{0,31}")


class Location(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed URL. None: the value that the streams were made with, or the default for new
    ones."""

    servers: tuple[str, ...]
    shown: str  #: the servers without a password
    user: str | None = None
    password: str | None = None
    token: str | None = None
    namespace: str = "andon"
    partitions: int | None = None
    storage: Literal["file", "memory"] | None = None
    replicas: int | None = None
    max_events: int = MAX_EVENTS
    monitor: str = ""  #: the server's monitoring address, http://host:8222; only `info` asks it


def parse(url: str) -> Location:
    """Parse a NATS URL. Raises `ConfigurationError` naming what is wrong."""
    parts = split(url)
    credentials, _, hosts = parts.netloc.rpartition("@")
    addresses = [host for host in hosts.split(",") if host]
    if parts.scheme not in ("nats", "tls") or not addresses or parts.path not in ("", "/"):
        raise ConfigurationError(
            f"{shown(url)!r} is not a NATS URL; write nats://host:4222, or tls://host:4222."
        )
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = set(options) - set(_OPTIONS)
    if unknown:
        raise ConfigurationError(
            f"{shown(url)!r}: there is no option {min(unknown)!r}; known are {', '.join(_OPTIONS)}."
        )
    namespace = options.get("namespace", "andon")
    if not _NAMESPACE.fullmatch(namespace):
        raise ConfigurationError(
            f"{shown(url)!r}: a namespace is 1 to 32 of a-z, 0-9, _ and -, beginning with a "
            f"letter, not {namespace!r}."
        )
    storage = options.get("storage")
    if storage not in (None, "file", "memory"):
        raise ConfigurationError(f"{shown(url)!r}: storage is file or memory, not {storage!r}.")
    monitor = options.get("monitor", "").rstrip("/")
    if monitor and not monitor.startswith(("http://", "https://")):
        raise ConfigurationError(
            f"{shown(url)!r}: monitor is the address of the server's monitoring, "
            f"http://host:8222, not {monitor!r}."
        )
    user, has_password, password = credentials.partition(":")
    return Location(
        servers=tuple(f"{parts.scheme}://{address}" for address in addresses),
        shown=f"{parts.scheme}://{','.join(addresses)}",
        user=unquote(user) if has_password else None,
        password=unquote(password) if has_password else None,
        token=unquote(user) if user and not has_password else None,
        namespace=namespace,
        partitions=number(url, options, "partitions", 256),
        storage=storage,
        replicas=number(url, options, "replicas", 5),
        monitor=monitor,
        max_events=number(url, options, "max_events", 2**53) or MAX_EVENTS,
    )
