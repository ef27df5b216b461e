"""Which port a request was sent to, as its sender saw it. Pure.

A proxy before the service may have received it at another port, or by TLS. Only a trusted proxy's
headers count: any client can send them.
"""

import ipaddress
from collections.abc import Iterable

from andon.model.errors import ConfigurationError

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_PORTS = range(1, 65_536)


class Proxies:
    """The proxies that are trusted: addresses or networks. Raises `ConfigurationError`."""

    def __init__(self, trusted: Iterable[str] = ()) -> None:
        self._networks = tuple(_network(one) for one in trusted)

    def trusts(self, address: str) -> bool:
        """Whether what connects from this address is one of them."""
        if not self._networks:
            return False
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(found in network for network in self._networks)

    def port(
        self, address: str, given: int | None, *, is_tls: bool, port: str, proto: str
    ) -> int | None:
        """The port, out of that in the Host header and, from a trusted proxy, X-Forwarded-Port and
        X-Forwarded-Proto (empty if not sent); None if that is none."""
        if self.trusts(address):
            if port:
                is_one = port.isascii() and port.isdecimal() and len(port) <= len("65535")
                return int(port) if is_one and int(port) in _PORTS else None
            if proto.lower() == "https":
                return 443
        if given is not None:
            return given
        return 443 if is_tls else 80


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ConfigurationError(
            f"{text[:80]!r} is no address of a proxy; name 10.0.0.7 or 10.0.0.0/8 for example."
        ) from None
