"""From a URL to a store: `memory://`, `sqlite:///path`. Each store is imported when it is named."""

from importlib import import_module
from typing import cast
from urllib.parse import urlsplit

from andon.model.errors import ConfigurationError
from andon.stores.base import Store

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


def open_store(url: str) -> Store:
    """The store that `url` names; nothing is connected before its `open`.

    Raises `ConfigurationError` for a scheme that no store of this release has.
    """
    scheme = urlsplit(url).scheme
    known = " or ".join(f"{name}://" for name in _STORES)
    if scheme not in _STORES:
        raise ConfigurationError(f"There is no store for {url!r}. Use {known}.")
    module, _, name = _STORES[scheme].partition(":")
    return cast("Store", getattr(import_module(module), name)(url))
