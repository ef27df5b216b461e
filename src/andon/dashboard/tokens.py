"""API tokens as the board sees them: the process that serves it passes in a registry, if there is
one."""

from collections.abc import Sequence
from typing import Protocol

import msgspec


class TokenRow(msgspec.Struct, frozen=True, kw_only=True):
    """One token, without its secret."""

    id: str
    name: str
    state: str  #: valid, expired or revoked
    scopes: tuple[str, ...]
    created_at: int  #: ms UTC
    expires_at: int | None
    revoked_at: int | None


class TokenBook(Protocol):
    """Tokens made, listed and revoked."""

    async def rows(self) -> Sequence[TokenRow]:
        """Every token, oldest first."""
        ...

    async def create(
        self, name: str, scopes: Sequence[str], *, days: float | None
    ) -> tuple[str, TokenRow]:
        """Make a token. Returns its text, which cannot be read again. Raises
        `ConfigurationError`."""
        ...

    async def revoke(self, token_id: str) -> TokenRow:
        """Revoke a token by its id. Raises `ConfigurationError` if there is none."""
        ...
