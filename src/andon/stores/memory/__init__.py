"""The `memory://` store: every rule of the contract, kept in one process and gone with it."""

from andon.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
