"""The embedded store: one file, durable, shared by the processes of one machine."""

from andon.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
