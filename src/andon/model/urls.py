"""Parses the URL of a store, and shows it without its secrets."""

import re
from urllib.parse import SplitResult, unquote, urlsplit

WITHHELD = "withheld"
"""Scheme of the URL that a worker's child process gets in place of the store's."""

_WITH_HOSTS = re.compile(r"([^:/?#]+://)([^/?#]*)(.*)", re.DOTALL)


def split(url: str) -> SplitResult:
    """`urlsplit`, also where several hosts are named and one is an IPv6 address in brackets: newer
    releases of Python refuse brackets that do not begin the host."""
    found = _WITH_HOSTS.fullmatch(url)
    if found is None:
        return urlsplit(url)
    scheme, hosts, rest = found.groups()
    return urlsplit(scheme + rest)._replace(netloc=hosts)


HIDDEN = "***"
_AUTHORITY = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)(.*)", re.DOTALL)
_SECRET = re.compile(
    r"pass|pwd|secret|token|credential|signature|api_?key|access_?key", re.IGNORECASE
)
_TOKEN_ALONE = ("nats", "tls", "ws", "wss")
"""Schemes whose user without a password is a token."""


def shown(url: str) -> str:
    """The URL without secrets, for a log, an error or a `repr`: passwords and tokens hidden,
    wherever a URL of a store, a service or a place for artifacts may have them. A URL that cannot
    be parsed with certainty is hidden whole."""
    found = _AUTHORITY.fullmatch(url)
    if found is None:
        return url if "@" not in url and not _SECRET.search(url) else HIDDEN
    scheme, rest = found.groups()
    rest, mark, fragment = rest.partition("#")
    rest, question, query = rest.partition("?")
    if ("@" in fragment or "@" in query) and "@" not in rest and "/" not in rest:
        # A password with an unescaped # or ? in it: where it ends is not known.
        return f"{scheme}{HIDDEN}"
    hosts, slash, path = rest.partition("/")
    if hosts and "@" in path:  # likewise with an unescaped slash
        return f"{scheme}{HIDDEN}@{path.rpartition('@')[2]}"
    fragment = HIDDEN if fragment else ""
    named = _without_password(scheme, hosts)
    return f"{scheme}{named}{slash}{path}{question}{_without_secrets(query)}{mark}{fragment}"


def _without_password(scheme: str, hosts: str) -> str:
    """The hosts and their user. Whatever stands between the first colon and the last @ may be a
    password, of one host or of several."""
    user, at, last = hosts.rpartition("@")
    if not at:
        return hosts
    name, colon, _ = user.partition(":")
    if colon:
        return f"{name}:{HIDDEN}@{last}"
    return f"{HIDDEN if scheme[:-3].lower() in _TOKEN_ALONE else name}@{last}"


def _without_secrets(query: str) -> str:
    parts: list[str] = []
    for part in query.split("&"):
        name, equals, value = part.partition("=")
        told = HIDDEN if _SECRET.search(unquote(name)) and value else value
        parts.append(f"{name}{equals}{told}")
    return "&".join(parts)
