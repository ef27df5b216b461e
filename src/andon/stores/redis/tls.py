"""Sets up TLS towards a server. The standard library's `ssl` is loaded only if a URL asks for
it."""

from typing import TYPE_CHECKING

from andon.model.errors import ConfigurationError
from andon.stores.redis.connection import Lost
from andon.stores.redis.location import Location

if TYPE_CHECKING:
    import ssl


def context_for(location: Location) -> "ssl.SSLContext | None":
    """The TLS settings of a connection; None if it is not encrypted."""
    if not location.tls:
        return None
    import ssl

    try:
        return ssl.create_default_context(cafile=location.ca or None)
    except OSError as error:
        raise ConfigurationError(
            f"The authorities in {location.ca} (?ca= of the store's URL) cannot be read: {error}."
        ) from None


def untrusted(location: Location, error: OSError) -> ConfigurationError | Lost | None:
    """The message for a connection that could not be made, if TLS may be why."""
    if not location.tls:
        return None
    import ssl

    if isinstance(error, ssl.SSLCertVerificationError):
        return ConfigurationError(
            f"The certificate of the Redis server at {location.shown} is not trusted: "
            f"{error.verify_message}. Name the file of the authority that signed it with ?ca=FILE, "
            "and the host as the certificate does."
        )
    if isinstance(error, TimeoutError | ssl.SSLError):
        said = "it does not answer" if isinstance(error, TimeoutError) else str(error)
        return Lost(f"no TLS connection ({said}); of a server without TLS, the URL is redis://")
    return None
