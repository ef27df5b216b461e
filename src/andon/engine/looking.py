"""What only an engine with its store in this process can answer about workers; one behind a service
cannot."""

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from andon.model.code import Code


@runtime_checkable
class BesideStore(Protocol):
    """An engine with its store in this process."""

    async def code_lists(self, digests: Iterable[str]) -> dict[str, Code]:
        """What workers have code for, by the digests that they name."""
        ...
