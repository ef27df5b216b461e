"""From a URL to a store: `memory://`, `sqlite:///path`. Each store is imported when it is named."""

from importlib import import_module
from typing import cast
from urllib.parse import urlsplit

from andon.model.errors import ConfigurationError
from andon.stores.base import Store

_STORES = {
    "memory": "andon.stores.memory:MemoryStore",
    "sqlite": "andon.stores.sqlite:SqliteStore",
    "nats": "andon.stores.nats:NatsStore",
    "tls": "andon.stores.nats:NatsStore",
}

_SERVERS = {
    "redis": "Redis",
    "rediss": "Redis",
    "valkey": "Valkey",
    "postgres": "PostgreSQL",
    "postgresql": "PostgreSQL",
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
    return cast("Store", getattr(import_module(module), name)(url))
