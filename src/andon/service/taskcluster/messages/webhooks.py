"""Messages sent to a URL, signed (`service.webhook_signing`).

Only the operator names URLs: callers that submit or run tasks cannot. Redirects are not followed,
so only URLs that the operator wrote are requested.
"""

import time
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from andon.model.errors import ConfigurationError
from andon.service.taskcluster.messages.delivery import NotNow, Refused
from andon.service.webhook_signing import signed

if TYPE_CHECKING:
    from andon.service.taskcluster.messages.configuration import WebhookSettings
    from andon.service.taskcluster.messages.exchanges import Message

REFUSALS = frozenset({400, 405, 406, 413, 414, 415, 422, 431})
"""Answers about the message itself: it will not be accepted later either. Any other status that is
not 2xx may be temporary: an address that is not there yet, a key that is not known yet, a server in
trouble."""

_LONGEST_WAIT_S = 3_600.0


class Webhook:
    """One URL."""

    def __init__(self, settings: "WebhookSettings") -> None:
        try:
            import aiohttp
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                f"Webhooks need {error.name}. Install it with: pip install 'andon[server]'."
            ) from error
        self.name = f"webhook.{settings.name}"
        self.bindings = settings.bindings
        self.at_once = settings.at_once
        self._settings = settings
        self._aiohttp = aiohttp
        self._session: Any = None

    async def send(self, message: "Message") -> None:
        """Send it, until it is answered. Raises `NotNow` or `Refused`."""
        body, timestamp = message.envelope, int(time.time())
        headers = {
            "content-type": "application/json",
            "user-agent": f"andon/{version('andon')}",
            **signed(self._settings.secret, message.id, timestamp, body),
        }
        try:
            async with self._opened().post(
                self._settings.url, data=body, headers=headers, allow_redirects=False
            ) as answer:
                status, retry_after = answer.status, answer.headers.get("retry-after", "")
        except (self._aiohttp.ClientError, OSError, ValueError) as error:
            raise NotNow(self._why(error)) from None
        if 200 <= status < 300:
            return
        if status in REFUSALS:
            raise Refused(f"it answered {status}")
        raise NotNow(f"it answered {status}", wait=_seconds(retry_after), is_answer=True)

    def _why(self, error: Exception) -> str:
        """What went wrong, without the URL: it may be a secret."""
        if isinstance(error, TimeoutError):
            return f"it did not answer within {self._settings.timeout:g} s"
        why = getattr(error, "strerror", None) or type(error).__name__
        return f"it could not be asked: {why}"

    def _opened(self) -> Any:
        if self._session is None:
            aiohttp = self._aiohttp
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=self._settings.timeout),
                connector=aiohttp.TCPConnector(limit=self.at_once),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    async def close(self) -> None:
        """Close its connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def _seconds(retry_after: str) -> float | None:
    """The seconds of a Retry-After, if it has a number."""
    if retry_after.isascii() and retry_after.isdecimal() and len(retry_after) < 9:
        return min(float(retry_after), _LONGEST_WAIT_S)
    return None
