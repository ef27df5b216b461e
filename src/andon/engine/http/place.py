"""Where a service is, and what to say of it: the parts of its URL, its token, its certificate."""

import ssl
from functools import cached_property
from urllib.parse import urlsplit

from andon.model.errors import ConfigurationError
from andon.model.urls import shown

SCHEMES = ("http", "https")


class Place:
    """One service. `token` is sent with every request; it is never part of a message or repr."""

    def __init__(self, url: str, token: str | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in SCHEMES or not parts.hostname:
            raise ConfigurationError(f"{shown(url)!r} is no service; write http://host:port.")
        if parts.username or parts.password:
            raise ConfigurationError(
                "A service's URL must not carry a password; put the token into ANDON_TOKEN."
            )
        self.url = url.rstrip("/")
        self.shown = shown(self.url)
        self.secure = parts.scheme == "https"
        self.host = parts.hostname
        self.port = parts.port or (443 if self.secure else 80)
        self.path = parts.path.rstrip("/")
        self._token = token

    def __repr__(self) -> str:
        return f"<Place {self.shown}>"

    @property
    def headers(self) -> dict[str, str]:
        """What goes with every request."""
        headers = {"content-type": "application/json"}
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        return headers

    @cached_property
    def tls(self) -> ssl.SSLContext:
        """Certificates are checked; SSL_CERT_FILE names another authority, as usual."""
        return ssl.create_default_context()
