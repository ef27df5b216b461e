"""From a URL to a store: `memory://`, `sqlite:///path`. Each store is imported when it is named."""

from importlib import import_module
from typing import cast
from urllib.parse import urlsplit

from andon.model.errors import ConfigurationError
from andon.stores.base import Store

_STORES = {
    "memory": "andon.stores.memory:MemoryStore",
    "sqlite": "andon.stores.sqlite:SqliteStore",
    "postgresql": "andon.stores.postgres:PostgresStore",
    "postgres": "andon.stores.postgres:PostgresStore",
}

_EXTRAS = {"asyncpg": "postgres"}
"""Modules that a store needs beside Andon, and the extra that brings them."""

_SERVERS = {
    "redis": "Redis",
    "rediss": "Redis",
    "valkey": "Valkey",
    "nats": "NATS",
}


def open_store(url: str) -> Store:
    """The store that `url` names; nothing is connected before its `open`.

    Raises `ConfigurationError` for a scheme that no store of this release has.
    """
    scheme = urlsplit(url).scheme
    known = " or ".join(f"{name}://" for name in _STORES)
    if scheme in _SERVERS:
        raise ConfigurationError(
            f"This release has no {_SERVERS[scheme]} store, so {scheme}:// cannot be used. "
            f"Use {known}."
        )
    if scheme not in _STORES:
        raise ConfigurationError(f"There is no store for {url!r}. Use {known}.")
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
