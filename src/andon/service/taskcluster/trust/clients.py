"""Clients that may sign requests, and their keys. Pure.

Hawk needs the key itself, so a hash of it would not do. No key is stored all the same: the access
token of a client is derived from one key of the namespace, the client's id and its serial. That
key is not the one that signs run tokens: turning it would end every client at once.
"""

import hmac
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping

import msgspec

from andon.model.errors import ConfigurationError
from andon.service.taskcluster.trust.certificates import CLIENT_ID
from andon.service.taskcluster.trust.roles import DEFAULT_ROLES, ROLE_ID
from andon.service.taskcluster.trust.scopes import is_scope

TASKS_ISSUER = "andon-tasks/"
"""The prefix of the client ids that sign the credentials of tasks; no client may have such an
id."""

TASK_CLIENT = "task-client/"
"""The prefix of the client ids of tasks' own credentials; no client may have such an id."""

MOST_CLIENTS = 1_000
MOST_BYTES = 512 * 1024
"""Of all clients and roles together, encoded: any store takes a setting of that size."""


class Client(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One client as it is kept. Times are ms UTC by the store's clock."""

    client_id: str
    scopes: tuple[str, ...]
    serial: int  #: never given twice in a namespace, so that no key comes back
    created_at: int
    expires: int | None = None
    disabled: bool = False

    def state(self, now: int) -> str:
        """`valid`, `expired` or `disabled`."""
        if self.disabled:
            return "disabled"
        return "expired" if self.expires is not None and self.expires <= now else "valid"


class Trust(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All clients and roles of one namespace. Its repr does not show the key."""

    key: bytes
    serial: int = 0  #: of the newest client
    clients: tuple[Client, ...] = ()
    roles: dict[str, tuple[str, ...]] = {}
    """Scopes by role id. A role of `DEFAULT_ROLES` that does not stand here is as it is there."""

    def __repr__(self) -> str:
        return f"<Trust in {len(self.clients)} clients>"

    def find(self, client_id: str) -> Client | None:
        """The client of an id."""
        return next((one for one in self.clients if one.client_id == client_id), None)

    def access_token(self, client: Client) -> str:
        """The key that a client signs with."""
        stated = f"hawk\n{client.client_id}\n{client.serial}".encode()
        return text_of(hmac.digest(self.key, stated, "sha256"))

    @property
    def all_roles(self) -> Mapping[str, tuple[str, ...]]:
        """Scopes by role id, the defaults among them."""
        return {**DEFAULT_ROLES, **self.roles}


def new_trust() -> Trust:
    """A trust without clients, with a new key."""
    return Trust(key=secrets.token_bytes(32))


def with_client(
    trust: Trust, client_id: str, scopes: Iterable[str], *, now: int, expires: int | None = None
) -> tuple[Trust, Client]:
    """The trust with one more client. Raises `ConfigurationError`."""
    if not CLIENT_ID.match(client_id):
        raise ConfigurationError(
            f"{client_id[:80]!r} is no client id: letters, digits and !@/:.+|_- make one."
        )
    if client_id.startswith((TASKS_ISSUER, TASK_CLIENT)):
        raise ConfigurationError(
            f"Client ids that begin with {TASKS_ISSUER} or {TASK_CLIENT} are the service's own."
        )
    if trust.find(client_id) is not None:
        raise ConfigurationError(
            f"There is a client {client_id!r} already. For another access token: "
            f"andon token renew {client_id}; to begin anew, revoke it first."
        )
    if len(trust.clients) >= MOST_CLIENTS:
        raise ConfigurationError(
            f"There are {MOST_CLIENTS} clients, the most there can be; revoke some."
        )
    client = Client(
        client_id=client_id,
        scopes=checked(scopes),
        serial=trust.serial + 1,
        created_at=now,
        expires=expires,
    )
    clients = (*trust.clients, client)
    return msgspec.structs.replace(trust, serial=client.serial, clients=clients), client


def renewed(trust: Trust, client_id: str) -> tuple[Trust, Client]:
    """Another access token for a client; the one before is worth nothing from then on."""
    serial = trust.serial + 1
    client = msgspec.structs.replace(known(trust, client_id), serial=serial)
    return msgspec.structs.replace(_put(trust, client), serial=serial), client


def switched(trust: Trust, client_id: str, *, disabled: bool) -> tuple[Trust, Client]:
    """A client that is refused from now on, or accepted again."""
    client = msgspec.structs.replace(known(trust, client_id), disabled=disabled)
    return _put(trust, client), client


def without_client(trust: Trust, client_id: str) -> tuple[Trust, Client]:
    """Trust without a client."""
    gone = known(trust, client_id)
    left = tuple(one for one in trust.clients if one is not gone)
    return msgspec.structs.replace(trust, clients=left), gone


def with_role(trust: Trust, role: str, scopes: Iterable[str] | None) -> Trust:
    """A role with these scopes, whatever it had before; None: as if it had never been set."""
    if not ROLE_ID.match(role):
        raise ConfigurationError(f"{role[:80]!r} is no role: 1 to 512 printable characters.")
    roles = {name: held for name, held in trust.roles.items() if name != role}
    if scopes is not None:
        roles[role] = checked(scopes)
    elif role not in trust.roles:
        raise ConfigurationError(f"There is no role {role!r} that was set; see: andon token roles.")
    return msgspec.structs.replace(trust, roles=roles)


def known(trust: Trust, client_id: str) -> Client:
    """The client of an id. Raises `ConfigurationError` when there is none."""
    client = trust.find(client_id)
    if client is None:
        raise ConfigurationError(
            f"There is no client {client_id[:80]!r}; see: andon token list --taskcluster."
        )
    return client


def checked(scopes: Iterable[str]) -> tuple[str, ...]:
    """The scopes, each once, if they can be some. Raises `ConfigurationError`."""
    found = tuple(dict.fromkeys(scopes))
    for scope in found:
        if not is_scope(scope) or not scope:
            raise ConfigurationError(f"{scope[:80]!r} is no scope: printable ASCII characters.")
        if scope.endswith("**"):
            raise ConfigurationError(f"The scope {scope[:80]!r} ends in two stars; one is enough.")
    return found


def text_of(raw: bytes) -> str:
    """Bytes as URL-safe base64 without padding."""
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def _put(trust: Trust, client: Client) -> Trust:
    clients = tuple(client if one.client_id == client.client_id else one for one in trust.clients)
    return msgspec.structs.replace(trust, clients=clients)
