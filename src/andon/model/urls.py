"""Taking the URL of a store apart."""

import re
from urllib.parse import SplitResult, urlsplit

_WITH_HOSTS = re.compile(r"([^:/?#]+://)([^/?#]*)(.*)", re.DOTALL)


def split(url: str) -> SplitResult:
    """`urlsplit`, also where several hosts are named and one is an IPv6 address in brackets: newer
    releases of Python refuse brackets that do not begin the host."""
    found = _WITH_HOSTS.fullmatch(url)
    if found is None:
        return urlsplit(url)
    scheme, hosts, rest = found.groups()
    return urlsplit(scheme + rest)._replace(netloc=hosts)
