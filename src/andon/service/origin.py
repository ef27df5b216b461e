"""The URL of this service as the client sees it, for the URLs in answers."""

from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from litestar.types import HTTPScope

    from andon.service.service import Service


def origin_of(scope: "HTTPScope", service: "Service") -> str:
    """Scheme, host and port, without a slash at the end: those of the setting `public_url`, else of
    the request itself. A trusted proxy may say that the request came by TLS."""
    public = service.settings.public_url
    if public is not None:
        return public.rstrip("/")
    host, scheme, said, port = "", scope["scheme"], "", ""
    for name, value in scope["headers"]:
        if name == b"host":
            host = value.decode("latin-1")
        elif name == b"x-forwarded-proto":
            said = value.decode("latin-1").strip().lower()
        elif name == b"x-forwarded-port":
            port = value.decode("latin-1").strip()
    client = scope["client"]
    if service.proxies.trusts("" if client is None else client[0]):
        if said in ("http", "https"):
            scheme = said
        if port.isascii() and port.isdecimal() and not _has_port(host):
            host = f"{host}:{port}"
    return f"{scheme}://{host or service.settings.host}"


def in_header(url: str) -> bytes:
    """A URL as a header has it: what cannot stand there is escaped."""
    return quote(url, safe=_IN_URLS).encode()


_IN_URLS = ":/?#[]@!$&'()*+,;=%-._~"


def _has_port(host: str) -> bool:
    return host.rpartition(":")[2].isdecimal()
