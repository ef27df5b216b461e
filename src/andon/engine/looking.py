"""What an engine beside its store can tell besides, for who looks at tasks; one behind a service
cannot."""

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from andon.model.code import Code


@runtime_checkable
class BesideStore(Protocol):
    """An engine whose store is at hand."""

    async def code_lists(self, digests: Iterable[str]) -> dict[str, Code]:
        """What workers have code for, by the digests that they name."""
        ...
