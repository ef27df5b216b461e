"""TLS towards a server. The standard library's `ssl` is loaded only where a URL asks for it."""

from typing import TYPE_CHECKING

from andon.stores.redis.location import Location

if TYPE_CHECKING:
    import ssl


def context_for(location: Location) -> "ssl.SSLContext | None":
    """What a connection is made with; None where it is not encrypted."""
    if not location.tls:
        return None
    import ssl

    return ssl.create_default_context(cafile=location.ca or None)
