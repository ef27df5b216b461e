"""From a URL to the engine behind a service."""

import os
from typing import TYPE_CHECKING

from andon.model.errors import ConfigurationError
from andon.model.urls import shown

if TYPE_CHECKING:
    from andon.engine.http.engine import HttpEngine


def is_service(url: str) -> bool:
    """Whether the URL is that of a service rather than of a store."""
    return url.startswith(("http://", "https://"))


def service_at(url: str, token: str | None = None) -> "HttpEngine":
    """An engine behind the service at `url`, not yet open; `token`, or else ANDON_TOKEN. To a
    service that asks for a certificate it shows the one in ANDON_CLIENT_CERTIFICATE.

    Raises `ConfigurationError` for a URL that cannot be, or where the library is missing.
    """
    try:
        from andon.engine.http.engine import HttpEngine
        from andon.engine.http.place import ClientCertificate
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"To speak to {shown(url)}, {error.name} is needed. "
            "Install it with: pip install 'andon[http]'."
        ) from error
    return HttpEngine(
        url,
        token=token or os.environ.get("ANDON_TOKEN") or None,
        certificate=ClientCertificate.read(),
    )
