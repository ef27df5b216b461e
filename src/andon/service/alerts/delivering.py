"""Delivers alerts to targets: by a signed request, a chat message, or a program.

A delivery task is trusted only with the seal of the store's key. The target's address and secret
are read from the store when the task runs, and appear in no error: errors are kept with the task,
where others can read them.

A signature is that of Standard Webhooks (`service.webhook_signing`).
"""

import base64
import binascii
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from andon.engine.alerts import Alerts, Delivery
from andon.lifecycle.alerts.telling import document_of, is_sealed, text_of
from andon.model.alerts import Target
from andon.model.errors import ConfigurationError
from andon.model.text import one_line
from andon.service.alerts.programs import Programs
from andon.service.webhook_signing import signed
from andon.worker.context import Context
from andon.worker.control import Terminate

if TYPE_CHECKING:
    import aiohttp

ANSWER_S = 20.0
"""How long a target may take to answer."""

_MOST_READ = 2_000
_MOST_SHOWN = 200


class DeliveryFailed(Exception):
    """An alert was not delivered. It is tried again while the budget of the task lasts."""

    code = "DELIVERY_FAILED"


class Deliverer:
    """Delivers to the targets of one store."""

    def __init__(
        self,
        alerts: Alerts,
        *,
        commands: bool,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`commands`: whether programs may be run here. `clock`: the time in signatures."""
        self._alerts = alerts
        self._commands = commands
        self._clock = clock
        self._programs = Programs()
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close connections, and the process that watches over programs."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
        self._programs.close()

    async def tell(self, ctx: Context, delivery: Delivery) -> str:
        """Deliver to one target. Returns its answer. The handler of every kind of delivery."""
        book = await self._alerts.book()
        if not is_sealed(book.key, delivery.notice, delivery.target, delivery.seal):
            raise Terminate("This notice was not made by Andon's alert rules; nobody is told.")
        target = book.targets.get(delivery.target)
        if target is None:
            raise Terminate(f"There is no alert target {delivery.target!r} any more.")
        notice = delivery.notice
        document = msgspec.json.encode(document_of(notice, ctx.task_id))
        match target.how:
            case "webhook":
                headers = signed(key_of(target.secret), ctx.task_id, round(self._clock()), document)
                return await self._post(target, document, headers)
            case "chat":
                body = msgspec.json.encode({target.text_field: text_of(notice)})
                return await self._post(target, body, {})
            case "command":
                if not self._commands:
                    raise DeliveryFailed(
                        f"Alert target {delivery.target!r} is a command, and this service runs "
                        "none: start it with --alert-commands."
                    )
                said = {
                    "ANDON_ALERT_RULE": notice.rule,
                    "ANDON_ALERT_HAPPENED": notice.happened,
                    "ANDON_ALERT_TEXT": text_of(notice),
                }
                code, output = await self._programs.run(target.argv, document, said)
                if code:
                    raise DeliveryFailed(f"The command ended with {code}: {output}")
                return output

    async def _post(self, target: Target, body: bytes, headers: Mapping[str, str]) -> str:
        import aiohttp

        sent = {"content-type": "application/json", "user-agent": "andon", **headers}
        try:
            async with self._connections().post(
                target.url, data=body, headers=sent, allow_redirects=False
            ) as reply:
                start = await reply.content.read(_MOST_READ)
                status = reply.status
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise DeliveryFailed(_without_url(error)) from None
        said = _shown(start, target)
        if 200 <= status < 300:
            return f"{status} {said}".strip()
        if 300 <= status < 400:
            raise DeliveryFailed(
                f"The target answered {status}, a redirect, which is not followed: give its own "
                "URL."
            )
        raise DeliveryFailed(f"The target answered {status}: {said}")

    def _connections(self) -> "aiohttp.ClientSession":
        if self._session is None:
            try:
                import aiohttp
            except ModuleNotFoundError:
                raise ConfigurationError(
                    "Alerts to URLs need aiohttp. Install it with: pip install 'andon[server]'."
                ) from None
            # A connection kept for the next alert, hours later, would be dead by then.
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=ANSWER_S, sock_connect=10),
                connector=aiohttp.TCPConnector(force_close=True),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=True,
            )
        return self._session


def key_of(secret: str) -> bytes:
    """The key of a secret: base64 after `whsec_`, else its own characters."""
    if secret.startswith("whsec_"):
        try:
            return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        except binascii.Error:
            pass
    return secret.encode()


def _without_url(error: Exception) -> str:
    """What went wrong, without the URL: it may be a secret."""
    if isinstance(error, TimeoutError):
        return f"The target did not answer within {ANSWER_S:.0f} s."
    why = getattr(error, "strerror", None) or type(error).__name__
    return f"The target could not be asked: {why}."


def _shown(start: bytes, target: Target) -> str:
    text = one_line(start.decode("utf-8", "replace").strip())
    parts = urlsplit(target.url)
    for secret in (target.url, parts.path.strip("/"), parts.query, target.secret):
        if secret:
            text = text.replace(secret, "…")
    return text[:_MOST_SHOWN]
