"""Tokens as the board knows them: whoever serves it hands in a book of them, if there is one."""

from collections.abc import Sequence
from typing import Protocol

import msgspec


class TokenRow(msgspec.Struct, frozen=True, kw_only=True):
    """One token, without what it is."""

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
        """Make a token: its text, which nobody can ask for again. Raises `ConfigurationError`."""
        ...

    async def revoke(self, token_id: str) -> TokenRow:
        """Revoke a token by its id. Raises `ConfigurationError` when there is none."""
        ...
