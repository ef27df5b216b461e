"""Authenticates and authorizes callers; the one place of the service that does.

A service that listens on loopback only is open: a process that can reach it could read the store's
file. Even so it refuses requests by pages from elsewhere that a browser on this machine has open
(see `refuse_strangers`). Any other service needs a token with every request. A token that is given
is checked on an open service too, so that a mistake shows where it is made.

A run token acts for its run. For anything else it carries the scopes of its task, and those count
only while the run holds the task, which only the store knows.
"""

import ipaddress
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote, urlsplit

import msgspec

from andon.artifacts.base import Artifact
from andon.contract.store import Store
from andon.lifecycle.actors import actor_name
from andon.model.errors import (
    AuthenticationFailed,
    ConfigurationError,
    PermissionRefused,
)
from andon.model.scopes import EVERYTHING, holds_some, satisfies
from andon.model.task import Task
from andon.model.words import State
from andon.service.trust import runtokens, signedurls
from andon.service.trust.registry import Registry
from andon.service.trust.runtokens import Claims
from andon.service.trust.signedurls import Signed

if TYPE_CHECKING:
    from litestar.types import HTTPScope


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """A caller and its scopes."""

    name: str
    scopes: tuple[str, ...]
    id: str = ""  #: of the API token, or of the run; empty without a token
    actor: str = ""  #: the name recorded with the caller's acts by hand
    run: Claims | None = None  #: with a run token: its claims

    def may(self, scope: str) -> bool:
        """Whether the caller may do this."""
        return satisfies(self.scopes, scope)

    def require(self, scope: str) -> None:
        """Raise `PermissionRefused` unless the caller may do this."""
        if not self.may(scope):
            raise PermissionRefused(scope)

    def require_some(self, kind: str) -> None:
        """Raise `PermissionRefused` unless the caller may do this for something at least."""
        if not holds_some(self.scopes, kind):
            raise PermissionRefused(f"{kind}*")


OPEN = Caller(name="anyone on this machine", scopes=(EVERYTHING,), actor="anyone on this machine")
"""The caller without a token, where none is needed."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens there."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


NOBODY = Caller(name="anyone", scopes=())
"""The caller of routes that are open to every caller."""

PUBLIC = frozenset({"/healthz", "/readyz", "/openapi.json"})
"""Routes that say nothing about tasks, for callers without a token."""

ACTOR_HEADER = b"andon-actor"
"""The header in which a caller without a token names the actor, percent-encoded."""

CLAIM = "/api/v1/runs/claim"
RUN_ROUTES = ("/api/v1/runs/", "/api/v1/engine/renew", "/api/v1/engine/report")
"""Routes where a run token acts only for its own run, and the store decides whether that run is
over."""


class Access:
    """Authenticates callers. `is_open`: no token is needed."""

    def __init__(self, store: Store, *, is_open: bool, registry: Registry | None = None) -> None:
        self._store = store
        self.is_open = is_open
        self.registry = registry or Registry(store)

    async def check(self, host: str) -> None:
        """Raise `ConfigurationError` if others can reach `host` and no token is valid."""
        if self.is_open:
            return
        now = self._store.now()
        if not any(token.state(now) == "valid" for token in await self.registry.tokens()):
            raise ConfigurationError(
                f"What listens on {host} asks for a token, and there is none; make one: "
                "andon token create NAME --scope SCOPE."
            )

    async def authorize(self, scope: "HTTPScope") -> Caller:
        """The caller, by the request's headers. Raises `AuthenticationFailed`."""
        path = scope["path"]
        if path in PUBLIC or path.startswith(signedurls.PREFIX):
            return NOBODY
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if self.is_open:
            refuse_strangers(scope["headers"])
            if not given:
                return _open_caller(scope["headers"])
        if len(given) > 1:
            raise AuthenticationFailed("The header Authorization is given twice.")
        caller = await self.identify(given[0].decode("latin-1") if given else None)
        if caller.run is not None and (path == CLAIM or not path.startswith(RUN_ROUTES)):
            return await self.alive(caller)
        return caller

    async def identify(self, authorization: str | None) -> Caller:
        """The caller behind an `Authorization` header. Raises `AuthenticationFailed`."""
        if authorization is None:
            if self.is_open:
                return OPEN
            raise AuthenticationFailed(
                "This service needs a token: send the header Authorization: Bearer TOKEN, "
                "or set ANDON_TOKEN."
            )
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise AuthenticationFailed("The Authorization header must be: Bearer TOKEN.")
        if runtokens.is_run_token(token):
            claims = await self.claims(token)
            name = f"run {claims.number} of task {claims.task}"
            return Caller(
                name=name, scopes=claims.scopes, id=claims.run, actor=actor_name(name), run=claims
            )
        return await self._of_api_token(token)

    async def _of_api_token(self, token: str) -> Caller:
        record = await self.registry.find(token)
        if record is None:
            raise AuthenticationFailed("This token is not known here; see: andon token list.")
        state = record.state(self._store.now())
        if state != "valid":
            raise AuthenticationFailed(
                f"Token {record.id} ({record.name}) is {state}; make another: andon token create."
            )
        name = f"token {record.id} ({record.name})"
        actor = actor_name(f"token {record.name}")
        return Caller(name=name, scopes=record.scopes, id=record.id, actor=actor)

    async def claims(self, token: str) -> Claims:
        """The claims of a run token. Raises `AuthenticationFailed`."""
        if not runtokens.is_run_token(token):
            raise AuthenticationFailed("That is no run token; a claim gives one with every run.")
        return runtokens.verify(await self.registry.keys(runtokens.key_of(token)), token)

    async def alive(self, caller: Caller) -> Caller:
        """The caller, whose scopes count: a run token's do only while its run holds the task.

        Raises `AuthenticationFailed` when it does not any more.
        """
        if caller.run is None:
            return caller
        [task] = await self._store.get([caller.run.task])
        if not holds(task, caller.run):
            raise AuthenticationFailed(
                f"The token is of {caller.name}, which no longer holds that task."
            )
        return caller

    async def signed_path(
        self,
        method: Literal["GET", "PUT"],
        artifact: Artifact,
        *,
        expires_at: int,
    ) -> str:
        """The path under which a file can be sent or fetched without a token, until then (ms
        UTC)."""
        keys = await self.registry.keys()
        kind = artifact.content_type if method == "PUT" else ""
        return signedurls.path_of(
            keys,
            Signed(
                namespace=keys.namespace,
                method=method,
                task=artifact.task,
                run=artifact.run,
                name=artifact.name,
                expires_at=expires_at,
                content_type=kind,
            ),
        )

    async def signed(self, opaque: str, method: str) -> Signed:
        """The claims in the last segment of a signed path. Raises `AuthenticationFailed`."""
        keys = await self.registry.keys(signedurls.key_of(opaque))
        return signedurls.verify(keys, opaque, method, self._store.now())

    async def run_signer(self) -> Callable[[Task], str]:
        """The function that makes the token of the run that holds a task."""
        keys = await self.registry.keys()

        def signed(task: Task) -> str:
            run = task.status.runs[-1]
            return runtokens.sign(keys, task.id, run.id, run.number, task.definition.scopes)

        return signed


def refuse_strangers(headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Refuse requests that a page from elsewhere makes through a browser on this machine: by a
    foreign name that was made to point here (DNS rebinding), or across origins."""
    host = origin = b""
    for name, value in headers:
        if name == b"host":
            host = value
        elif name == b"origin":
            origin = value
    problem = _strange(host, origin)
    if problem:
        raise AuthenticationFailed(problem)


@lru_cache(maxsize=256)
def _strange(given_host: bytes, given_origin: bytes) -> str:
    """Why such a request is refused; empty if it is not. Remembered: few are ever sent."""
    host, origin = given_host.decode("latin-1"), given_origin.decode("latin-1")
    if host and not is_loopback(_name_in(host)):
        return (
            f"Without tokens this service answers to localhost only, not to {host[:100]!r}; "
            "start it with --require-token."
        )
    if origin and _netloc(origin) != host:
        return (
            f"Without tokens this service answers no page of {origin[:100]!r}; "
            "start it with --require-token."
        )
    return ""


def _name_in(host: str) -> str:
    """The name in a Host header, without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _netloc(origin: str) -> str:
    """Host and port in an Origin header; none in one that is no URL."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def _open_caller(headers: Iterable[tuple[bytes, bytes]]) -> Caller:
    """The caller without a token, by the name it gives itself, which cannot be checked."""
    for name, value in headers:
        if name == ACTOR_HEADER:
            actor = actor_name(unquote(value.decode("latin-1"), errors="replace"))
            return msgspec.structs.replace(OPEN, actor=actor) if actor else OPEN
    return OPEN


def holds(task: Task | None, claims: Claims) -> bool:
    """Whether the run that a token names holds its task."""
    return (
        task is not None
        and task.state is State.ACTIVE
        and task.status.run == claims.run
        and task.id == claims.task
    )
