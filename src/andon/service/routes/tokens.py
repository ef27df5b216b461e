"""API tokens: made, listed and revoked by administrators.

A caller cannot make a token that allows more than the caller's own.
"""

from typing import TYPE_CHECKING, Annotated, cast

import msgspec
from litestar import Router, delete, get, post
from litestar.params import FromPath, JSONBody
from msgspec import Meta

from andon.lifecycle.admission import LATEST_MS
from andon.lifecycle.faces.fields import maybe_iso
from andon.model.errors import ConfigurationError
from andon.service.calls import Call
from andon.service.problems import invalid, not_found
from andon.service.trust.apitokens import ApiToken
from andon.service.trust.scopes import check

if TYPE_CHECKING:
    from andon.service.trust.access import Caller

SCOPE = "admin:tokens"

_LONGEST_S = 1e12
"""More seconds than there are until the year 9999, and few enough to count in."""


class NewToken(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A token to be made."""

    name: Annotated[str, Meta(min_length=1, max_length=128, description="For people.")]
    scopes: Annotated[list[str], Meta(min_length=1, examples=[["tasks:create:mail"]])]
    expires_in: Annotated[float, Meta(gt=0, description="Seconds.")] | None = None


class TokenShown(msgspec.Struct, kw_only=True):
    """A token, without what it is."""

    id: str
    name: str
    state: str
    scopes: list[str]
    created_at: str | None
    expires_at: str | None
    revoked_at: str | None


class TokenMade(TokenShown, kw_only=True):
    """A token that was made just now, with its text, which is not shown again."""

    token: str


def _fields(record: ApiToken, now: int) -> dict[str, object]:
    return {
        "id": record.id,
        "name": record.name,
        "state": record.state(now),
        "scopes": list(record.scopes),
        "created_at": maybe_iso(record.created_at),
        "expires_at": maybe_iso(record.expires_at),
        "revoked_at": maybe_iso(record.revoked_at),
    }


def _shown(record: ApiToken, now: int) -> TokenShown:
    return msgspec.convert(_fields(record, now), TokenShown)


@get("/", summary="List tokens")
async def list_tokens(request: Call) -> list[TokenShown]:
    """Every token, oldest first."""
    request.need(SCOPE)
    service = request.service
    now = service.engine.now()
    return [_shown(record, now) for record in await service.access.registry.tokens()]


@post("/", status_code=201, summary="Make a token")
async def make(request: Call, data: JSONBody[NewToken]) -> TokenMade:
    """Make a token. Its scopes must be ones that the caller has."""
    request.need(SCOPE)
    try:
        for scope in data.scopes:
            check(scope)
    except ConfigurationError as error:
        raise invalid(str(error), field="scopes") from error
    for scope in data.scopes:
        cast("Caller", request.caller).require(scope)
    service = request.service
    now = service.engine.now()
    ends = None
    if data.expires_in is not None:
        ends = now + max(1, round(min(data.expires_in, _LONGEST_S) * 1000))
        if ends > LATEST_MS:
            raise invalid("The token would expire after the year 9999.", field="expires_in")
    text, record = await service.access.registry.create(data.name, data.scopes, expires_at=ends)
    request.made(f"tokens/{record.id}")
    return msgspec.convert({**_fields(record, now), "token": text}, TokenMade)


@delete("/{token_id:str}", status_code=200, summary="Revoke a token")
async def revoke(request: Call, token_id: FromPath[str]) -> TokenShown:
    """Revoke a token by its id. Every service refuses it within a second."""
    request.need(SCOPE)
    service = request.service
    try:
        record = await service.access.registry.revoke(token_id)
    except ConfigurationError as error:
        raise not_found(str(error)) from error
    return _shown(record, service.engine.now())


router = Router("/api/v1/tokens", route_handlers=[list_tokens, make, revoke], tags=["tokens"])
