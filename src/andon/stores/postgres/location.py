"""`postgresql://user:password@host:port/database`, and our options among the driver's."""

import re
from typing import Literal
from urllib.parse import parse_qsl, urlencode, urlunsplit

import msgspec

from andon.model.errors import ConfigurationError
from andon.model.urls import shown, split
from andon.stores.kit.url_options import MAX_EVENTS, number

_OURS = {
    "namespace": "a schema name",
    "partitions": "a number",
    "max_events": "a number",
    "pool": "a number of connections",
    "synchronous_commit": "on|off",
    "pgbouncer": "true|false",
}
_DRIVERS = frozenset(
    {
        "host", "port", "user", "password", "passfile", "database", "dbname", "service",
        "servicefile", "target_session_attrs", "krbsrvname", "gsslib", "sslmode", "sslcert",
        "sslkey", "sslrootcert", "sslcrl", "sslpassword", "sslnegotiation",
        "ssl_min_protocol_version", "ssl_max_protocol_version",
    }
)  # fmt: skip
"""Options that go to the driver as they are."""

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,39}")


class Location(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed URL. `partitions` None: whatever the schema was made with (1 when it is new)."""

    dsn: str  #: what the driver is given
    shown: str  #: the same without a password
    namespace: str = "andon"  #: the schema
    partitions: int | None = None
    max_events: int = MAX_EVENTS  #: events kept in the log (docs/rulings.md, R12)
    pool: int = 4  #: most connections for statements at once
    synchronous_commit: Literal["on", "off"] = "on"
    pgbouncer: bool = False  #: behind a pooler in transaction mode


def parse(url: str) -> Location:
    """Parse a `postgresql:` URL. Raises `ConfigurationError` naming what is wrong."""
    parts = split(url)
    if parts.scheme not in ("postgresql", "postgres"):
        raise ConfigurationError(
            f"{shown(url)!r} is not a PostgreSQL URL; write postgresql://user@host/database."
        )
    given = parse_qsl(parts.query, keep_blank_values=True)
    options = dict(given)
    unknown = set(options) - set(_OURS) - _DRIVERS
    if unknown:
        known = ", ".join(f"{name}={what}" for name, what in _OURS.items())
        raise ConfigurationError(
            f"{shown(url)!r}: there is no option {min(unknown)!r}; known are {known}, "
            "and libpq's for connecting."
        )
    namespace = options.get("namespace", "andon")
    if not _NAME.fullmatch(namespace) or namespace.startswith("pg_"):
        raise ConfigurationError(
            f"{shown(url)!r}: namespace={namespace} cannot be a schema; use 1 to 40 of a-z, 0-9 "
            "and _, beginning with a letter, and not with pg_."
        )
    for name, allowed in (
        ("synchronous_commit", ("on", "off")),
        ("pgbouncer", ("true", "false")),
    ):
        if options.get(name, allowed[0]) not in allowed:
            raise ConfigurationError(
                f"{shown(url)!r}: {name} is {allowed[0]} or {allowed[1]}, not {options[name]!r}."
            )
    query = urlencode([(name, value) for name, value in given if name not in _OURS])
    dsn = urlunsplit(("postgresql", parts.netloc, parts.path, query, ""))
    return Location(
        dsn=dsn,
        shown=shown(dsn),
        namespace=namespace,
        partitions=number(url, options, "partitions", 256),
        max_events=number(url, options, "max_events", 2**53) or MAX_EVENTS,
        pool=number(url, options, "pool", 100) or 4,
        synchronous_commit="off" if options.get("synchronous_commit") == "off" else "on",
        pgbouncer=options.get("pgbouncer") == "true",
    )
