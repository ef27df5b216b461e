"""The address of a service: the parts of its URL, the token and the certificate to use."""

import os
import ssl
from collections.abc import Mapping
from functools import cached_property
from urllib.parse import urlsplit

import msgspec

from andon.model.errors import ConfigurationError
from andon.model.urls import shown

SCHEMES = ("http", "https")


class ClientCertificate(msgspec.Struct, frozen=True):
    """The client certificate for a service that asks for one: PEM files."""

    file: str
    key: str | None = None  #: None: in the certificate's file

    @classmethod
    def read(cls, environment: Mapping[str, str] = os.environ) -> "ClientCertificate | None":
        """The one that ANDON_CLIENT_CERTIFICATE and ANDON_CLIENT_KEY name; None if they do not."""
        file = environment.get("ANDON_CLIENT_CERTIFICATE")
        key = environment.get("ANDON_CLIENT_KEY")
        if key and not file:
            raise ConfigurationError(
                "ANDON_CLIENT_KEY needs its certificate too: set ANDON_CLIENT_CERTIFICATE."
            )
        return cls(file, key or None) if file else None


def client_tls(certificate: ClientCertificate | None) -> ssl.SSLContext:
    """How clients speak TLS: certificates of services are checked; SSL_CERT_FILE names another
    authority, as usual. Raises `ConfigurationError` for a certificate that cannot be used."""
    context = ssl.create_default_context()
    if certificate is not None:
        try:
            context.load_cert_chain(certificate.file, certificate.key)
        except OSError as error:  # of which the errors of TLS are one kind
            reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
            files = " and ".join(filter(None, (certificate.file, certificate.key)))
            raise ConfigurationError(
                f"The client certificate in {files} cannot be used: {reason}. "
                "It is a PEM file with its key, or two files, as client_certificate= or "
                "ANDON_CLIENT_CERTIFICATE and ANDON_CLIENT_KEY name them."
            ) from error
    return context


class Place:
    """One service. `token` is sent with every request; it is never part of a message or repr.
    `certificate` is shown to a service that asks for one."""

    def __init__(
        self, url: str, token: str | None = None, certificate: ClientCertificate | None = None
    ) -> None:
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
        self.certificate = certificate

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
        """See `client_tls`."""
        return client_tls(self.certificate)
