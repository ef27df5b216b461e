"""The board of a service: a token identifies its user, and the token's scopes say what they may see
and do."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from andon.dashboard.access import Visitor
from andon.dashboard.board import Board
from andon.dashboard.requests import Refused
from andon.dashboard.tokens import TokenRow
from andon.lifecycle.admission import LATEST_MS
from andon.model.errors import AuthenticationFailed, ConfigurationError
from andon.model.urls import shown
from andon.service.trust.access import OPEN, Access, refuse_strangers

if TYPE_CHECKING:
    from andon.dashboard.requests import Request
    from andon.engine.base import Engine
    from andon.service.trust.apitokens import ApiToken
    from andon.service.trust.registry import Registry

DAY_MS = 86_400_000


def board_of(served: "Engine", access: Access, url: str) -> Board:
    """The board over the engine of a service, with the access rules of the service."""

    async def engine() -> "Engine":
        return served

    return Board(
        engine,
        gate=TokenGate(access),
        tokens=Book(access.registry, served.now),
        at="",
        location=shown(url),
    )


class TokenGate:
    """Asks for a token, where the service does."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def visitor(self, request: "Request", token: str) -> Visitor | None:
        """The user of this token; without a token, where none is needed, any user of this machine.
        Raises `Refused` for a page from elsewhere, and `AuthenticationFailed` for an invalid
        token."""
        if self._access.is_open:
            try:
                refuse_strangers(request.headers)
            except AuthenticationFailed as error:
                raise Refused(403, "Not from here", str(error)) from error
            return Visitor(name=OPEN.name, scopes=OPEN.scopes, actor=OPEN.actor, is_known=False)
        if not token:
            return None
        caller = await self._access.identify(f"Bearer {token}")
        if caller.run is not None:
            raise AuthenticationFailed("That is the token of a run; the board takes API tokens.")
        return Visitor(name=caller.name, scopes=caller.scopes, actor=caller.actor)


class Book:
    """The tokens of a service's store."""

    def __init__(self, registry: "Registry", now: Callable[[], int]) -> None:
        self._registry = registry
        self._now = now

    async def rows(self) -> list[TokenRow]:
        """Every token, oldest first."""
        now = self._now()
        return [_row(token, now) for token in await self._registry.tokens()]

    async def create(
        self, name: str, scopes: Sequence[str], *, days: float | None
    ) -> tuple[str, TokenRow]:
        """Make a token. Raises `ConfigurationError`."""
        now = self._now()
        ends = None
        if days is not None:
            if not 0 < days * DAY_MS < LATEST_MS - now:
                raise ConfigurationError("A token lasts for some days, or for ever: give a number.")
            ends = now + round(days * DAY_MS)
        text, token = await self._registry.create(name, scopes, expires_at=ends)
        return text, _row(token, now)

    async def revoke(self, token_id: str) -> TokenRow:
        """Revoke a token by its id. Raises `ConfigurationError` when there is none."""
        token = await self._registry.revoke(token_id)
        return _row(token, self._now())


def _row(token: "ApiToken", now: int) -> TokenRow:
    return TokenRow(
        id=token.id,
        name=token.name,
        state=token.state(now),
        scopes=token.scopes,
        created_at=token.created_at,
        expires_at=token.expires_at,
        revoked_at=token.revoked_at,
    )
