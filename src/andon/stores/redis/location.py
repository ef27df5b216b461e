"""The parts of a Redis URL: which server, which user, and which namespace."""

import re
from typing import Any
from urllib.parse import parse_qsl, unquote

import msgspec

from andon.model.errors import ConfigurationError
from andon.model.urls import split
from andon.stores.kit.url_options import MAX_EVENTS

DEFAULT_PORT = 6379
MOST_PARTITIONS = 1024

_NAMESPACE = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_KINDS = {
    "redis": ("single", False),
    "rediss": ("single", True),
    "valkey": ("single", False),
    "valkeys": ("single", True),
    "redis+cluster": ("cluster", False),
    "rediss+cluster": ("cluster", True),
    "redis+sentinel": ("sentinel", False),
}
_NUMBERS = ("partitions", "max_events", "wait", "wait_ms")

Address = tuple[str, int]


class Location(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed URL."""

    kind: str  #: single, cluster or sentinel
    tls: bool
    addresses: tuple[Address, ...]  #: of the server, of cluster nodes, or of sentinels
    service: str = ""  #: the sentinels' name for the primary
    username: str = ""
    password: str = ""
    database: int = 0
    namespace: str = "andon"
    partitions: int | None = None  #: None: the number that the namespace was made with
    max_events: int = MAX_EVENTS
    wait: int = 0  #: replicas that must have a write before it is answered
    wait_ms: int = 1_000  #: how long to wait for them
    ca: str = ""  #: file of the authorities that a TLS server's certificate is checked against

    @property
    def shown(self) -> str:
        """Where the store is, without the password."""
        hosts = ",".join(f"{host}:{port}" for host, port in self.addresses)
        service = f"{self.service}@" if self.service else ""
        return f"{service}{hosts}/{self.database} namespace {self.namespace}"


def parse(url: str) -> Location:
    """Parse a URL; `ConfigurationError` says what is wrong with it."""
    parts = split(url)
    if parts.scheme not in _KINDS:
        raise ConfigurationError(f"{parts.scheme}:// does not name a Redis store; use redis://.")
    kind, tls = _KINDS[parts.scheme]
    credentials, _, hosts = parts.netloc.rpartition("@")
    username, _, password = credentials.partition(":")
    default_port = 26379 if kind == "sentinel" else DEFAULT_PORT
    addresses = tuple(_address(host, default_port) for host in hosts.split(",") if host)
    service, database = _path(kind, parts.path)
    options = _options(parts.query)
    return Location(
        kind=kind,
        tls=tls,
        addresses=addresses or (("localhost", default_port),),
        service=service,
        username=unquote(username),
        password=unquote(password),
        database=database,
        **options,
    )


def _address(text: str, default_port: int) -> Address:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(default_port)
    if not port.isdecimal() or not 0 < int(port) < 65_536:
        raise ConfigurationError(f"{text!r} is not HOST or HOST:PORT; use a port from 1 to 65535.")
    return host.strip("[]"), int(port)


def _path(kind: str, path: str) -> tuple[str, int]:
    """The sentinels' service and the number of the database."""
    segments = [segment for segment in path.split("/") if segment]
    service = ""
    if kind == "sentinel":
        if not segments:
            raise ConfigurationError(
                "redis+sentinel:// needs the name of the primary as its path: "
                "redis+sentinel://host:26379/mymaster."
            )
        service = segments.pop(0)
    database = segments[0] if segments else "0"
    if len(segments) > 1 or not database.isdecimal():
        raise ConfigurationError(
            f"{path!r} is not a database; the path of a Redis URL is its number, as in /0."
        )
    if kind == "cluster" and int(database):
        raise ConfigurationError("A Redis cluster has database 0 only; leave out the path.")
    return service, int(database)


def _options(query: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in _NUMBERS:
            least = 0 if name == "wait" else 1
            if not value.isdecimal() or int(value) < least:
                raise ConfigurationError(f"{name}={value} must be a number from {least}.")
            options[name] = int(value)
        elif name == "namespace":
            if not _NAMESPACE.fullmatch(value):
                raise ConfigurationError(
                    f"namespace={value} cannot be used: a namespace is a lower-case letter and "
                    "up to 31 more of a-z, 0-9, _ and -."
                )
            options[name] = value
        elif name == "ca":
            options[name] = value
        else:
            known = ", ".join(("namespace", *_NUMBERS, "ca"))
            raise ConfigurationError(
                f"{name}={value} is not an option of the Redis store. It has {known}."
            )
    if options.get("partitions", 1) > MOST_PARTITIONS:
        partitions = options["partitions"]
        raise ConfigurationError(f"partitions={partitions} is more than {MOST_PARTITIONS}.")
    return options
