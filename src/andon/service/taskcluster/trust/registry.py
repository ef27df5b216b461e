"""Reads and changes clients and roles: one small setting of the store, changed by compare-and-set.

A service reads it again every `FRESH_S`, and at once for a client that it does not know: a new
client works immediately, a revoked one for `FRESH_S` at the most.
"""

import asyncio
import time
from collections.abc import Callable, Iterable

import msgspec

from andon.contract.store import Store
from andon.lifecycle.admission import LATEST_MS
from andon.model.errors import ConfigurationError, StoreUnavailable
from andon.model.settings import TASKCLUSTER_SETTING
from andon.service.taskcluster.trust import clients
from andon.service.taskcluster.trust.clients import MOST_BYTES, Client, Trust
from andon.service.trust.registry import FRESH_S

_MOST_TRIES = 20
_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(Trust).decode


class ClientRegistry:
    """The clients and roles of one store."""

    def __init__(
        self, store: Store, *, fresh: float = FRESH_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._fresh = fresh
        self._clock = clock
        self._read_at = float("-inf")
        self._reading = asyncio.Lock()
        self._stored: bytes | None = None
        self._trust: Trust | None = None

    # --- what commands do ---

    async def create(
        self, client_id: str, scopes: Iterable[str], *, expires: int | None = None
    ) -> tuple[str, Client]:
        """Make a client: its access token, and its record. Raises `ConfigurationError`."""
        now = self._store.now()
        if expires is not None and expires <= now:
            raise ConfigurationError("The client would have expired already; give a later time.")
        if expires is not None and expires > LATEST_MS:
            raise ConfigurationError("The client would expire after the year 9999; give no time.")
        wanted = tuple(scopes)
        return await self._change_client(
            lambda trust: clients.with_client(trust, client_id, wanted, now=now, expires=expires)
        )

    async def renew(self, client_id: str) -> tuple[str, Client]:
        """Give a client another access token. Raises `ConfigurationError`."""
        return await self._change_client(lambda trust: clients.renewed(trust, client_id))

    async def switch(self, client_id: str, *, disabled: bool) -> Client:
        """Refuse a client from now on, or accept it again. Raises `ConfigurationError`."""
        _, client = await self._change_client(
            lambda trust: clients.switched(trust, client_id, disabled=disabled)
        )
        return client

    async def revoke(self, client_id: str) -> Client:
        """Delete a client. Raises `ConfigurationError` when there is none."""
        _, client = await self._change_client(
            lambda trust: clients.without_client(trust, client_id)
        )
        return client

    async def set_role(self, role: str, scopes: Iterable[str] | None) -> Trust:
        """Say what a role grants; None: what it does by default. Raises `ConfigurationError`."""
        wanted = None if scopes is None else tuple(scopes)
        return await self._change(lambda trust: clients.with_role(trust, role, wanted))

    async def read(self) -> Trust | None:
        """What the store has now; None if nothing was ever set."""
        stored = await self._store.setting(TASKCLUSTER_SETTING)
        return _decode(stored) if stored else None

    async def _change_client(
        self, change: Callable[[Trust], tuple[Trust, Client]]
    ) -> tuple[str, Client]:
        touched: list[Client] = []

        def changed(trust: Trust) -> Trust:
            trust, client = change(trust)
            touched[:] = [client]
            return trust

        trust = await self._change(changed)
        return trust.access_token(touched[0]), touched[0]

    async def _change(self, change: Callable[[Trust], Trust]) -> Trust:
        for _ in range(_MOST_TRIES):
            stored = await self._store.setting(TASKCLUSTER_SETTING)
            trust = change(_decode(stored) if stored else clients.new_trust())
            encoded = _encode(trust)
            if len(encoded) > MOST_BYTES:
                raise ConfigurationError(
                    f"All clients and roles together have more than {MOST_BYTES // 1024} KiB; "
                    "give them wider scopes (`queue:*`), or revoke some."
                )
            if await self._store.put_setting(TASKCLUSTER_SETTING, encoded, expect=stored):
                return trust
        raise StoreUnavailable("The clients keep changing; try again.")

    # --- what a service asks ---

    @property
    def fresh(self) -> Trust | None:
        """What the store had a second ago at the most; None: that is not known without asking."""
        return self._trust if self._clock() - self._read_at < self._fresh else None

    async def trust(self, client_id: str | None = None) -> Trust | None:
        """What the store has, or had a second ago; read anew if `client_id` was none of them."""
        arrived = self._clock()
        is_known = client_id is None or (
            self._trust is not None and self._trust.find(client_id) is not None
        )
        if is_known and arrived - self._read_at < self._fresh:
            return self._trust
        async with self._reading:
            if self._read_at < arrived:  # else another caller has read since
                now = self._clock()
                stored = await self._store.setting(TASKCLUSTER_SETTING)
                if stored != self._stored:  # values derived from it stay valid otherwise
                    self._stored, self._trust = stored, _decode(stored) if stored else None
                self._read_at = now
        return self._trust
