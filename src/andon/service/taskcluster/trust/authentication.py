"""Authenticates requests to the face; the one place that does.

A service that listens on loopback only authenticates no caller, as everywhere in Andon: the header
is not even read, and every caller may do anything. Any other service accepts signatures with the
key of one of its clients, or with credentials that such a client issued. A caller without a
signature has the scopes that every caller has.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from andon.contract.store import Store
from andon.model.errors import AuthenticationFailed, ConfigurationError
from andon.service.taskcluster.trust import certificates, hawk, taskcredentials
from andon.service.taskcluster.trust.caller import OPEN, Caller
from andon.service.taskcluster.trust.certificates import Certificate, Credentials
from andon.service.taskcluster.trust.clients import TASKS_ISSUER, Trust
from andon.service.taskcluster.trust.registry import ClientRegistry
from andon.service.taskcluster.trust.roles import ANONYMOUS, ASSUME, DEFAULT_ROLES, expanded
from andon.service.taskcluster.trust.scopes import EVERYTHING, is_scope
from andon.service.trust.access import Access, refuse_strangers
from andon.service.trust.proxies import Proxies

if TYPE_CHECKING:
    from litestar.types import HTTPScope


class Incoming(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a request that authentication reads."""

    method: str
    resource: str  #: path and query as they were sent, latin-1 for bytes beyond ASCII
    headers: Iterable[tuple[bytes, bytes]]  #: names in small letters
    body: bytes = b""
    address: str = ""  #: of the peer
    is_tls: bool = False

    @classmethod
    def of(cls, scope: "HTTPScope", body: bytes) -> "Incoming":
        """The same from an ASGI scope."""
        resource = scope["raw_path"]
        if scope["query_string"]:
            resource += b"?" + scope["query_string"]
        client = scope["client"]
        return cls(
            method=str(scope["method"]),
            resource=resource.decode("latin-1"),
            headers=scope["headers"],
            body=body,
            address="" if client is None else client[0],
            is_tls=scope["scheme"] == "https",
        )


class Authentication:
    """Authenticates the callers of one service's face."""

    def __init__(
        self,
        store: Store,
        access: Access,
        *,
        proxies: Proxies | None = None,
        clients: ClientRegistry | None = None,
    ) -> None:
        self._store = store
        self._access = access
        self._proxies = proxies or Proxies()
        self.clients = clients or ClientRegistry(store)
        self._known = _Known(None)

    @property
    def is_open(self) -> bool:
        """Whether every caller may do everything."""
        return self._access.is_open

    async def check(self, host: str) -> None:
        """Raise `ConfigurationError` if others can reach `host` and no client is valid."""
        if self.is_open:
            return
        now = self._store.now()
        trust = await self.clients.read()
        if trust is None or not any(one.state(now) == "valid" for one in trust.clients):
            raise ConfigurationError(
                f"What listens on {host} asks Taskcluster clients who they are, and there is none "
                "that could say; make one: andon token create NAME --taskcluster --scope SCOPE."
            )

    async def authenticate(self, request: Incoming) -> Caller:
        """The caller of a request. Raises `AuthenticationFailed`."""
        if self.is_open:
            refuse_strangers(request.headers)
            return OPEN
        headers = _Headers(request.headers)
        bewit = hawk.bewit_in(request.resource)
        if headers.authorization is None:
            if bewit is None:
                return (await self._knowing(None)).anonymous
            return await self._of_bewit(request, headers, *bewit)
        if bewit is not None:
            raise AuthenticationFailed("Sign the request in its header or in its URL, not in both.")
        header = hawk.parse_header(headers.authorization)
        signer = await self._signer(header.id, header.ext)
        hawk.check_header(
            header,
            signer.key,
            self._signed(request, headers, request.resource),
            signer.now / 1000,
            content_type=headers.content_type,
            body=request.body,
        )
        return await self._admitted(signer, request)

    async def task_credentials(
        self, *, task_id: str, run_id: int, worker: str, taken_until: int, scopes: Iterable[str]
    ) -> Credentials:
        """Credentials for one claim of a run; see `taskcredentials.issue`."""
        return taskcredentials.issue(
            await self._access.registry.keys(),
            task_id=task_id,
            run_id=run_id,
            worker=worker,
            taken_until=taken_until,
            scopes=scopes,
            now=self._store.now(),
        )

    # --- the steps ---

    async def _of_bewit(
        self, request: Incoming, headers: "_Headers", text: str, resource: str
    ) -> Caller:
        if request.method not in hawk.READING:
            raise AuthenticationFailed(f"A signed URL is for GET, not for {request.method}.")
        if len(text) > hawk.MAX_HEADER:
            raise AuthenticationFailed(f"The bewit has more than {hawk.MAX_HEADER} bytes.")
        bewit = hawk.parse_bewit(text)
        signer = await self._signer(bewit.id, bewit.ext)
        signed = replace(self._signed(request, headers, resource), method=hawk.READING[0])
        hawk.check_bewit(bewit, signer.key, signed, signer.now / 1000)
        return await self._admitted(signer, request)

    def _signed(self, request: Incoming, headers: "_Headers", resource: str) -> hawk.Request:
        port = self._proxies.port(
            request.address,
            headers.port,
            is_tls=request.is_tls,
            port=headers.forwarded_port,
            proto=headers.forwarded_proto,
        )
        if port is None:
            raise AuthenticationFailed("The header X-Forwarded-Port of the proxy is no port.")
        return hawk.Request(
            method=request.method, resource=resource, hosts=headers.hosts, port=port
        )

    async def _signer(self, client_id: str, ext: str) -> "_Signer":
        """The signer that the request names."""
        said = _ext(ext)
        if said.certificate is None:
            known = await self._knowing(client_id)
            now = self._store.now()
            key = known.key(client_id, now)
            return _Signer(key, known, known.callers[client_id], said.authorized, now)
        certificate = certificates.read(said.certificate)
        issuer = certificate.issuer or client_id
        known = await self._knowing(None if issuer.startswith(TASKS_ISSUER) else issuer)
        key, who = await self._issuer(known, issuer)
        now = self._store.now()
        certificates.check_signature(certificate, client_id, key)
        certificates.check_time(certificate, now)
        _check_leave(certificate, client_id, who)
        is_tasks = issuer.startswith(TASKS_ISSUER)
        caller = Caller(
            client_id,
            known.expanded(certificate.scopes),
            run=taskcredentials.run_named(client_id) if is_tasks else None,
        )
        derived = certificates.derived_key(key, certificate.seed)
        return _Signer(derived, known, caller, said.authorized, now)

    async def _issuer(self, known: "_Known", issuer: str) -> tuple[str, Caller]:
        """The key and scopes of a certificate's issuer."""
        if not issuer.startswith(TASKS_ISSUER):
            return known.key(issuer, self._store.now()), known.callers[issuer]
        keys = await self._access.registry.keys(issuer[len(TASKS_ISSUER) :])
        key = taskcredentials.issuer_key(keys, issuer)
        if key is None:
            raise AuthenticationFailed(
                "These credentials of a task were signed with a key that is not good any more."
            )
        return key, _TASKS

    async def _admitted(self, signer: "_Signer", request: Incoming) -> Caller:
        """The caller whose signature was right, with the scopes that count."""
        caller = signer.caller
        if signer.authorized is not None:
            beyond = [scope for scope in signer.authorized if not caller.satisfies(scope)]
            if beyond:
                raise AuthenticationFailed(
                    f"authorizedScopes has {beyond[0][:200]!r}, which {caller.client_id} has not."
                )
            scopes = signer.known.expanded_alone(signer.authorized)
            caller = Caller(caller.client_id, scopes, run=caller.run)
        run = caller.run
        if run is None or taskcredentials.is_own_route(run, request.method, request.resource):
            return caller
        [task] = await self._store.get([run.task_id])
        if taskcredentials.has_left(run, task, self._store.now()):
            return taskcredentials.after_its_end(caller, run)
        return caller

    async def _knowing(self, client_id: str | None) -> "_Known":
        known, fresh = self._known, self.clients.fresh
        if fresh is not None and fresh is known.trust and known.has(client_id):
            return known
        trust = await self.clients.trust(client_id)
        if trust is not self._known.trust:
            self._known = _Known(trust)
        return self._known


_TASKS = Caller(TASKS_ISSUER, (EVERYTHING,))
"""The issuer of the credentials of tasks."""


class _Signer(msgspec.Struct, frozen=True):
    """The named signer, and the caller if the signature is right."""

    key: str
    known: "_Known"
    caller: Caller
    authorized: tuple[str, ...] | None
    now: int
    """When it was asked for, ms UTC: everything about the request is held against one time."""


class _Known:
    """Values derived from the store's clients and roles, cached until these change."""

    def __init__(self, trust: Trust | None) -> None:
        self.trust = trust
        self._roles = DEFAULT_ROLES if trust is None else trust.all_roles
        self._by_id = {} if trust is None else {one.client_id: one for one in trust.clients}
        self._keys: dict[str, str] = {}
        self.callers: dict[str, Caller] = {}
        """The callers of the clients whose key was asked for."""
        self.anonymous = Caller("", self.expanded(()))

    def has(self, client_id: str | None) -> bool:
        """Whether there is such a client; True for None."""
        return client_id is None or client_id in self._by_id

    def key(self, client_id: str, now: int) -> str:
        """A client's access token. Raises `AuthenticationFailed` unless it is valid."""
        client = self._by_id.get(client_id)
        if client is None or self.trust is None:
            raise AuthenticationFailed(
                f"There is no client {client_id[:80]!r}; see: andon token list --taskcluster."
            )
        state = client.state(now)
        if state != "valid":
            raise AuthenticationFailed(f"The client {client_id} is {state}.")
        key = self._keys.get(client_id)
        if key is None:
            key = self._keys[client_id] = self.trust.access_token(client)
            self.callers[client_id] = Caller(client_id, self.expanded(client.scopes))
        return key

    def expanded(self, scopes: Iterable[str]) -> tuple[str, ...]:
        """Scopes with those of the roles that they grant, and with those that every caller has."""
        return expanded((*scopes, ASSUME + ANONYMOUS), self._roles)

    def expanded_alone(self, scopes: Iterable[str]) -> tuple[str, ...]:
        """Scopes with those of the roles that they grant."""
        return expanded(scopes, self._roles)


class _Ext(msgspec.Struct):
    """The decoded signed `ext`."""

    certificate: object = None
    authorized: tuple[str, ...] | None = msgspec.field(default=None, name="authorizedScopes")


_decode_ext = msgspec.json.Decoder(_Ext).decode
_NOTHING = _Ext()


def _ext(text: str) -> _Ext:
    if text in ("", "e30=", "e30"):  # which is {}, and most of what is sent
        return _NOTHING
    try:
        said = _decode_ext(hawk.decode_base64(text))
    except (ValueError, RecursionError, msgspec.MsgspecError):
        raise AuthenticationFailed("The ext of the signature is not base64 of JSON.") from None
    if said.authorized is not None and not all(map(is_scope, said.authorized)):
        raise AuthenticationFailed("A scope in authorizedScopes is not printable ASCII.")
    return said


def _check_leave(certificate: Certificate, client_id: str, issuer: Caller) -> None:
    """Raise unless the issuer may issue this certificate."""
    if certificate.issuer is not None:
        if certificate.issuer == client_id or not certificates.CLIENT_ID.match(client_id):
            raise AuthenticationFailed(
                "Named credentials have a client id of their own, other than their issuer's."
            )
        if not issuer.satisfies(f"auth:create-client:{client_id}"):
            raise AuthenticationFailed(
                f"{certificate.issuer} may not name credentials {client_id}: that needs "
                f"auth:create-client:{client_id}."
            )
    for scope in certificate.scopes:
        if not issuer.satisfies(scope):
            raise AuthenticationFailed(
                f"The certificate has the scope {scope[:200]!r}, which its issuer has not."
            )


class _Headers:
    """The headers that count. Raises `AuthenticationFailed` for what is given twice."""

    def __init__(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        found: dict[bytes, str] = {}
        for name, value in headers:
            if name in _COUNTING:
                if name in found:
                    raise AuthenticationFailed(
                        f"The header {name.decode().title()} is given twice."
                    )
                found[name] = value.decode("latin-1")
        self.authorization = found.get(b"authorization")
        self.content_type = found.get(b"content-type", "")
        self.forwarded_port = found.get(b"x-forwarded-port", "").strip()
        self.forwarded_proto = found.get(b"x-forwarded-proto", "").strip()
        self.hosts, self.port = _host(found.get(b"host", ""))


_COUNTING = frozenset(
    {b"authorization", b"content-type", b"host", b"x-forwarded-port", b"x-forwarded-proto"}
)


@lru_cache(maxsize=256)
def _host(value: str) -> tuple[tuple[str, ...], int | None]:
    """The name in a Host header, as clients may have signed it, and the port."""
    name, colon, port = value.rpartition(":")
    if not colon or not (port.isascii() and port.isdecimal() and len(port) <= len("65535")):
        name, port = value, ""
    hosts = (name, name[1:-1]) if name.startswith("[") and name.endswith("]") else (name,)
    return hosts, int(port) if port else None
