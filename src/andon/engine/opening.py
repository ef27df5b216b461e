"""Opens a store by its URL; the only module above the stores that does.

Everything else knows the contract only, and stores are imported when one is named.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from andon.contract.store import Store


def open_store(url: str) -> "Store":
    """The store that `url` names; nothing is connected before its `open`.

    Raises `ConfigurationError` for a scheme that no store of this release has.
    """
    from andon.stores import registry

    return registry.open_store(url)


def file_of(url: str) -> Path | None:
    """The file in which a store keeps its tasks, if it is one that keeps them in a file."""
    from andon.stores import registry

    return registry.file_of(url)
