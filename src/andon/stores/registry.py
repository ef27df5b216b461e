"""From a URL to a store: `sqlite:///path`, `redis://host`. Each is imported when it is named."""

from importlib import import_module
from pathlib import Path
from typing import cast

from andon.contract.store import Store
from andon.model.errors import ConfigurationError
from andon.model.urls import WITHHELD, shown, split

_REDIS = "andon.stores.redis:RedisStore"

_STORES = {
    "memory": "andon.stores.memory:MemoryStore",
    "sqlite": "andon.stores.sqlite:SqliteStore",
    "redis": _REDIS,
    "rediss": _REDIS,
    "redis+cluster": _REDIS,
    "rediss+cluster": _REDIS,
    "redis+sentinel": _REDIS,
    "valkey": _REDIS,
    "valkeys": _REDIS,
    "postgresql": "andon.stores.postgres:PostgresStore",
    "postgres": "andon.stores.postgres:PostgresStore",
    "nats": "andon.stores.nats:NatsStore",
    "tls": "andon.stores.nats:NatsStore",
}

_EXTRAS = {"hiredis": "redis", "asyncpg": "postgres", "nats": "nats"}
"""Modules that a store needs beside Andon, and the extra that brings them."""

_SHOWN = ("memory", "sqlite", "redis", "postgresql", "nats")
"""Schemes that a message names: one of each store."""


def open_store(url: str) -> Store:
    """The store that `url` names; nothing is connected before its `open`.

    Raises `ConfigurationError` for a scheme that no store of this release has.
    """
    scheme = split(url).scheme
    known = " or ".join(f"{name}://" for name in _SHOWN)
    if scheme == WITHHELD:
        raise ConfigurationError(
            "A handler in a child process is not told where the tasks are: ANDON_URL is withheld "
            "from it. Return what is to be submitted and submit it elsewhere, give the application "
            "its URL in its code, or start the worker with --pass-env ANDON_URL,ANDON_TOKEN."
        )
    if scheme not in _STORES:
        raise ConfigurationError(f"There is no store for {shown(url)!r}. Use {known}.")
    module, _, name = _STORES[scheme].partition(":")
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get(error.name or "")
        if extra is None:
            raise
        raise ConfigurationError(
            f"{scheme}:// needs {error.name}, which is not installed; "
            f"run: pip install 'andon[{extra}]'."
        ) from error
    return cast("Store", getattr(found, name)(url))


def file_of(url: str) -> Path | None:
    """The file in which a store keeps its tasks, if it is one that keeps them in a file."""
    if url.partition(":")[0] != "sqlite":
        return None
    from andon.stores.sqlite.location import parse

    return parse(url).path
