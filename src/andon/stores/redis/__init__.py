"""The store in Redis or Valkey."""

from andon.stores.redis.store import RedisStore

__all__ = ["RedisStore"]
