"""Reads and changes tokens and signing keys: two small settings of the store.

Both are written by compare-and-set, so that two that write at once both count. They are few, and
read whole. A service reads them again every `FRESH_S`, and at once for a token it does not know: a
new token works immediately, a revoked one for `FRESH_S` at the most.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

import msgspec

from andon.contract.store import Store
from andon.engine.audit import Audit
from andon.lifecycle.admission import LATEST_MS
from andon.model.errors import ConfigurationError, StoreUnavailable
from andon.model.settings import KEYS_SETTING, TOKENS_SETTING
from andon.service.trust import apitokens, runtokens
from andon.service.trust.apitokens import ApiToken
from andon.service.trust.runtokens import Keys

FRESH_S = 1.0
"""How long a service relies on what it read."""

_MOST_TOKENS = 1_000
_MOST_TRIES = 20
_encode = msgspec.json.encode
_tokens = msgspec.json.Decoder(tuple[ApiToken, ...]).decode
_keys = msgspec.json.Decoder(Keys).decode


class Registry:
    """The tokens and keys of one store."""

    def __init__(
        self, store: Store, *, fresh: float = FRESH_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._audit = Audit(store)
        self._fresh = fresh
        self._clock = clock
        self._read_at = float("-inf")
        self._reading = asyncio.Lock()
        self._by_id: dict[str, ApiToken] = {}
        self._kept_keys: Keys | None = None

    # --- what commands do ---

    async def create(
        self, name: str, scopes: Sequence[str], *, expires_at: int | None = None
    ) -> tuple[str, ApiToken]:
        """Make a token. Returns its text, which cannot be read again, and its record."""
        if not name:
            raise ConfigurationError("A token needs a name: who it is for.")
        if not scopes:
            raise ConfigurationError("A token needs at least one scope; `*` allows everything.")
        now = self._store.now()
        if expires_at is not None and expires_at <= now:
            raise ConfigurationError("The token would have expired already; give a later time.")
        if expires_at is not None and expires_at > LATEST_MS:
            raise ConfigurationError("The token would expire after the year 9999; give no time.")
        text, record = apitokens.make(name, scopes, now, expires_at)

        def add(tokens: tuple[ApiToken, ...]) -> tuple[ApiToken, ...]:
            if len(tokens) >= _MOST_TOKENS:
                tokens = tuple(t for t in tokens if t.state(now) == "valid")
            if len(tokens) >= _MOST_TOKENS:
                raise ConfigurationError(
                    f"There are {_MOST_TOKENS} valid tokens, the most there can be; revoke some."
                )
            return (*tokens, record)

        await self._audit.asked("create-token", record.id, name=name, scopes=list(scopes))
        await self._change_tokens(add)
        return text, record

    async def tokens(self) -> list[ApiToken]:
        """Every token, oldest first."""
        stored = await self._store.setting(TOKENS_SETTING)
        return list(_tokens(stored)) if stored else []

    async def revoke(self, token_id: str) -> ApiToken:
        """Revoke a token by its id, or by a name that only one valid token has. Repeated: the
        same. Raises `ConfigurationError` when there is none."""
        now = self._store.now()
        known = await self.tokens()
        found = [t for t in known if t.id == token_id]
        found = found or [t for t in known if t.name == token_id and t.state(now) == "valid"]
        if len(found) != 1:
            how = "no token" if not found else "more than one token"
            raise ConfigurationError(
                f"There is {how} {token_id[:80]!r}; see: andon token list. Revoke by its id."
            )
        [one] = found
        if one.revoked_at is None:
            await self._audit.asked("revoke-token", one.id, name=one.name)

        def change(tokens: tuple[ApiToken, ...]) -> tuple[ApiToken, ...]:
            return tuple(
                msgspec.structs.replace(t, revoked_at=now)
                if t.id == one.id and t.revoked_at is None
                else t
                for t in tokens
            )

        changed = await self._change_tokens(change)
        return next(t for t in changed if t.id == one.id)

    async def rotate(self) -> Keys:
        """Sign run tokens with a new key from now on; those signed with the last stay valid."""
        await self._audit.asked("rotate-keys", KEYS_SETTING)
        for _ in range(_MOST_TRIES):
            stored = await self._store.setting(KEYS_SETTING)
            keys = runtokens.new_keys(self._store.now(), _keys(stored) if stored else None)
            if await self._store.put_setting(KEYS_SETTING, _encode(keys), expect=stored):
                return keys
        raise StoreUnavailable("The signing keys keep changing; try again.")

    async def _change_tokens(
        self, change: Callable[[tuple[ApiToken, ...]], tuple[ApiToken, ...]]
    ) -> tuple[ApiToken, ...]:
        for _ in range(_MOST_TRIES):
            stored = await self._store.setting(TOKENS_SETTING)
            tokens = change(_tokens(stored) if stored else ())
            if await self._store.put_setting(TOKENS_SETTING, _encode(tokens), expect=stored):
                return tokens
        raise StoreUnavailable("The tokens keep changing; try again.")

    # --- what a service asks ---

    async def find(self, token: str) -> ApiToken | None:
        """The valid or invalid record whose text this is; None if there is none."""
        token_id = apitokens.id_of(token)
        await self._refresh(unless=token_id is None or token_id in self._by_id)
        record = self._by_id.get(token_id or "")
        return record if apitokens.matches(record, token) else None

    async def is_valid(self, token_id: str) -> bool:
        """Whether there is a token of this id that is neither revoked nor expired."""
        await self._refresh(unless=token_id in self._by_id)
        record = self._by_id.get(token_id)
        return record is not None and record.state(self._store.now()) == "valid"

    async def keys(self, key_id: str | None = None) -> Keys:
        """The signing keys, made when there are none; read anew when `key_id` is none of them."""
        known = self._kept_keys is not None and (
            key_id is None or any(key.id == key_id for key in self._kept_keys.keys)
        )
        await self._refresh(unless=known)
        if self._kept_keys is None:
            await self._make_keys()
        assert self._kept_keys is not None
        return self._kept_keys

    async def _make_keys(self) -> None:
        made = runtokens.new_keys(self._store.now())
        await self._store.put_setting(KEYS_SETTING, _encode(made), expect=None)
        stored = await self._store.setting(KEYS_SETTING)
        assert stored, "nobody takes the keys away"
        self._kept_keys = _keys(stored)

    async def _refresh(self, *, unless: bool) -> None:
        """Read what is older than it may be, or does not have what is asked for."""
        arrived = self._clock()
        if unless and arrived - self._read_at < self._fresh:
            return
        async with self._reading:
            if self._read_at >= arrived:
                return  # another caller has read since; of many callers, one reads at a time
            now = self._clock()
            tokens = await self._store.setting(TOKENS_SETTING)
            keys = await self._store.setting(KEYS_SETTING)
            self._by_id = {t.id: t for t in _tokens(tokens)} if tokens else {}
            self._kept_keys = _keys(keys) if keys else None
            self._read_at = now
