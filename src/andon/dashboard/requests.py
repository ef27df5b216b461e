"""Requests and answers of the board over ASGI: without a framework, so that mounting the board
needs none."""

from collections.abc import Iterable, Iterator
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import msgspec

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MOST_FORM = 1024 * 1024
"""The most bytes of a form: ten thousand ids, and some more."""

MOST_FIELDS = 12_000
MOST_QUERY = 16 * 1024

HTML = b"text/html; charset=utf-8"
TEXT = b"text/plain; charset=utf-8"


class Refused(Exception):
    """A request that is refused; shown as a page."""

    def __init__(self, status: int, title: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.title = title
        self.detail = detail


class Answer(msgspec.Struct, kw_only=True):
    """One whole answer."""

    status: int = 200
    body: bytes = b""
    content_type: bytes = HTML
    headers: list[tuple[bytes, bytes]] = []


def see_other(path: str) -> Answer:
    """A redirection with GET: it follows an act, so that reloading the page repeats nothing."""
    location = quote(path, safe="/?&=%~:@!$'()*+,;-._#")
    return Answer(status=303, content_type=TEXT, headers=[(b"location", location.encode())])


def path_in(back: str) -> str:
    """A path of the board to return to; never one of another site."""
    if back.startswith("/") and not back.startswith(("//", "/\\")) and "\n" not in back:
        return back[:2_000]
    return "/"


class Fields:
    """Names and values of a query or a form, in order; a name may come more than once."""

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self.pairs = list(pairs)

    def get(self, name: str, default: str = "") -> str:
        """The first value of that name."""
        return next((value for key, value in self.pairs if key == name), default)

    def all(self, name: str) -> list[str]:
        """Every value of that name."""
        return [value for key, value in self.pairs if key == name]

    def names(self) -> Iterator[str]:
        """The names, each as often as it was given."""
        return (key for key, _ in self.pairs)

    def encoded(self) -> str:
        """The fields as a query string."""
        return urlencode(self.pairs)


class Request:
    """One HTTP request below the place where the board is mounted.

    `at` is that place if it was given; else the server's `root_path`. Some frameworks leave it in
    the path and some remove it, so it is removed if it is there.
    """

    def __init__(self, scope: "Scope", receive: "Receive", at: str | None = None) -> None:
        self.scope = scope
        self._receive = receive
        self.method: str = scope["method"]
        self.root: str = (scope.get("root_path", "") if at is None else at).rstrip("/")
        #: below the place where it is mounted, and still encoded: a name may have a slash in it
        self.path = _path_below(self.root, scope)
        self.headers: list[tuple[bytes, bytes]] = list(scope["headers"])
        self.cookies = _cookies(self.header("cookie"))
        self.query = Fields(_pairs(scope.get("query_string", b"")))

    def header(self, name: str) -> str:
        """A header's value; empty if it was not sent."""
        wanted = name.encode()
        return next((v.decode("latin-1") for key, v in self.headers if key.lower() == wanted), "")

    @property
    def is_secure(self) -> bool:
        """Whether the request came over TLS."""
        return self.scope.get("scheme") == "https"

    @property
    def client(self) -> str:
        """The address that the request came from; empty if the server does not say."""
        client = self.scope.get("client")
        return client[0] if client else ""

    @property
    def is_of_this_site(self) -> bool:
        """Whether a page of the board's own origin sent the request, as the browser says. A request
        that does not say so is not trusted."""
        site = self.header("sec-fetch-site")
        if site:
            return site == "same-origin"
        origin, host = self.header("origin"), self.header("host")
        try:
            return bool(host) and urlsplit(origin).netloc.lower() == host.lower()
        except ValueError:
            return False

    async def form(self) -> Fields:
        """The fields of the form. Raises `Refused`."""
        kind = self.header("content-type").partition(";")[0].strip().lower()
        if kind != "application/x-www-form-urlencoded":
            raise Refused(415, "Not a form", "The board takes forms, and this is none.")
        parts: list[bytes] = []
        size = 0
        more = True
        while more:
            message = await self._receive()
            if message["type"] != "http.request":
                raise Refused(400, "Cut off", "The form ended early.")
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            more = message.get("more_body", False)
            if size > MOST_FORM:
                raise Refused(413, "Too large", f"A form has {MOST_FORM:,} bytes at the most.")
        return Fields(_pairs(b"".join(parts), most=MOST_FORM))


def _path_below(root: str, scope: "Scope") -> str:
    """The path below a root: as it was sent, if the server passes that on, else as the framework
    left it."""
    path: str = scope["path"]
    raw = (scope.get("raw_path") or b"").decode("latin-1").partition("?")[0]
    if (root and raw.startswith(f"{root}/")) or unquote(raw) == path:
        path = raw
    else:
        path = quote(path, safe="/:@!$&'()*+,;=~")
    if root and (path == root or path.startswith(f"{root}/")):
        path = path[len(root) :]
    return path.rstrip("/") or "/"


def _pairs(encoded: bytes, most: int = MOST_QUERY) -> list[tuple[str, str]]:
    if len(encoded) > most:
        raise Refused(414, "Too long", f"A query has {most:,} bytes at the most.")
    try:
        return parse_qsl(
            encoded.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
    except ValueError:  # UnicodeDecodeError is one
        raise Refused(400, "Malformed", "What was sent cannot be read as fields.") from None


def _cookies(header: str) -> dict[str, str]:
    jar = SimpleCookie()
    try:
        jar.load(header)
    except CookieError:
        return {}
    return {name: morsel.value for name, morsel in jar.items()}


async def send_answer(answer: Answer, send: "Send", *, head: bool = False) -> None:
    """Send the answer; with `head` without its body."""
    headers = [
        (b"content-type", answer.content_type),
        (b"content-length", b"%d" % len(answer.body)),
        *answer.headers,
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head else answer.body})
