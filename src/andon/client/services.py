"""Makes the engine for a service from its URL."""

import os
from typing import TYPE_CHECKING, Any

from andon.model.errors import ConfigurationError
from andon.model.urls import shown

if TYPE_CHECKING:
    from andon.engine.http.engine import HttpEngine
    from andon.engine.http.place import ClientCertificate

PathLike = str | os.PathLike[str]

CertificateFiles = PathLike | tuple[PathLike, PathLike]
"""A PEM file with a certificate and its private key, or the files of both."""


def is_service(url: str) -> bool:
    """Whether the URL is that of a service rather than of a store."""
    return url.startswith(("http://", "https://"))


def certificate_of(given: CertificateFiles | None) -> "ClientCertificate | None":
    """The client certificate for a service that asks for one: the files given, else those that
    ANDON_CLIENT_CERTIFICATE and ANDON_CLIENT_KEY name. They are read at the first request.

    Raises `ConfigurationError` for what names no files.
    """
    from andon.engine.http.place import ClientCertificate

    if given is None:
        return ClientCertificate.read()
    files: tuple[Any, ...] = given if isinstance(given, tuple) else (given,)
    if len(files) not in (1, 2) or not all(map(_is_file_name, files)):
        raise ConfigurationError(
            "client_certificate= names a PEM file, or two: the certificate's and its key's."
        )
    return ClientCertificate(*map(os.fspath, files))


def _is_file_name(file: object) -> bool:
    return (isinstance(file, str) and file != "") or hasattr(file, "__fspath__")


def service_at(
    url: str, token: str | None = None, client_certificate: CertificateFiles | None = None
) -> "HttpEngine":
    """An engine behind the service at `url`, not yet open; `token`, or else ANDON_TOKEN. To a
    service that asks for a certificate it shows the one that `certificate_of` names.

    Raises `ConfigurationError` for a URL that cannot be, or where the library is missing.
    """
    try:
        from andon.engine.http.engine import HttpEngine
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"To speak to {shown(url)}, {error.name} is needed. "
            "Install it with: pip install 'andon[http]'."
        ) from error
    return HttpEngine(
        url,
        token=token or os.environ.get("ANDON_TOKEN") or None,
        certificate=certificate_of(client_certificate),
    )
