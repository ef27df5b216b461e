"""Answers the requests of the Taskcluster face, under `/api/queue/v1`.

It stands above the engine and has no rule of the lifecycle in it. A request is checked in the order
of the original service: the body is parsed, then the caller is identified and authorized, then
path, query and body are compared with what the route takes.
"""

import logging
import re
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import msgspec

from andon.model.errors import AndonError, StoreError
from andon.service.binding import Stream, read_body, send_answer
from andon.service.problems import Problem, without_place
from andon.service.taskcluster import errors
from andon.service.taskcluster.asked import Answer, Asked
from andon.service.taskcluster.cors import SHARED
from andon.service.taskcluster.errors import ApiError
from andon.service.taskcluster.inputs import Input, InputDecoder
from andon.service.taskcluster.patterns import is_parameter
from andon.service.taskcluster.routes import (
    about,
    artifacts,
    control,
    events,
    groups,
    provisioners,
    queues,
    runs,
    tasks,
    workers,
)
from andon.service.taskcluster.shared import Shared
from andon.service.taskcluster.table import RouteTable
from andon.service.taskcluster.times import written
from andon.service.taskcluster.trust.authentication import Incoming

if TYPE_CHECKING:
    from litestar.types import HTTPScope, Receive, Send
    from prometheus_client import Histogram

    from andon.service.service import Service
    from andon.service.taskcluster.settings import TaskclusterSettings
    from andon.service.taskcluster.table import Route
    from andon.service.taskcluster.trust.authentication import Authentication

log = logging.getLogger("andon.service")

PREFIXES = ("/api/queue/", "/api/queue-events/")
"""All that the face answers begins with one of them."""

_BASE = "/api/queue/v1"
_EVENTS_BASE = "/api/queue-events/v1"
_JSON = b"application/json"
_EVENTS = b"text/event-stream"
_LIMIT = re.compile(r"[0-9]{1,18}\Z", re.ASCII)
_BEWIT = "bewit"
_MOST_ECHOED = 1024 * 1024
_SAY_EVERY_S = 1.0
_UNKNOWN = "unknown"
"""The method, in an error about a path that has none."""

_UNCACHED = (b"cache-control", b"no-store no-cache must-revalidate")

TABLE = RouteTable(
    [
        *about.ROUTES,
        *tasks.ROUTES,
        *control.ROUTES,
        *groups.ROUTES,
        *runs.ROUTES,
        *queues.ROUTES,
        *provisioners.ROUTES,
        *workers.ROUTES,
        *artifacts.ROUTES,
    ]
)
"""Every route of the queue."""

EVENTS = RouteTable(events.ROUTES)
"""The route of its messages."""

_TABLES = {_BASE: TABLE, _EVENTS_BASE: EVENTS}

_DECODERS: dict[str, InputDecoder] = {
    route.name: InputDecoder(route.takes) for route in TABLE.routes if route.takes is not None
}
_encode = msgspec.json.Encoder().encode
_any = msgspec.json.Decoder(msgspec.Raw).decode


class Face:
    """The face of one service."""

    def __init__(
        self, service: "Service", settings: "TaskclusterSettings", trust: "Authentication"
    ) -> None:
        self.shared = Shared(service, settings, trust)
        service.metrics.waiting_workers.set_function(lambda: len(self.shared.lines))
        self._said_at = 0.0
        self._seconds: dict[tuple[Route, str, int], Histogram] = {}
        """Where the time taken is counted."""
        self._headers = [_UNCACHED] if trust.is_open else [_UNCACHED, *SHARED]

    async def __call__(
        self, scope: "HTTPScope", receive: "Receive", send: "Send", refusal: ApiError | None = None
    ) -> None:
        """Answer one request; with `refusal`, refuse it so."""
        began = time.perf_counter()
        path, method = scope["raw_path"].decode("latin-1"), str(scope["method"])
        if method == "OPTIONS" and not self.shared.trust.is_open and refusal is None:
            await self._send(scope, send, 200, b"", ())
            return
        base = _base_of(path)
        asked = "GET" if method == "HEAD" else method  # the same, but that no body is sent
        found = None if base is None else _TABLES[base].find(asked, path[len(base) :])
        route, params = (None, {}) if found is None else found
        request = _Request(self.shared, route, params)
        status = await self._answered(request, refusal, scope, receive, send)
        if route is not None and base is not None and status:
            seconds = self._seconds.get((route, method, status))
            if seconds is None:
                requests = self.shared.service.metrics.requests
                seconds = requests.labels(method, base + route.path, status)
                self._seconds[route, method, status] = seconds
            seconds.observe(time.perf_counter() - began)

    async def _answered(
        self,
        request: "_Request",
        refusal: ApiError | None,
        scope: "HTTPScope",
        receive: "Receive",
        send: "Send",
    ) -> int:
        try:
            if refusal is not None:
                raise refusal
            answer = await request.answer(scope, receive)
        except ApiError as error:
            return await self._refuse(request, error, scope, send)
        except Problem as problem:
            return await self._refuse(request, errors.error_of_body(problem), scope, send)
        except AndonError as error:
            return await self._refuse(request, self._told(error, scope), scope, send)
        except Exception:
            incident, path = errors.new_incident(), scope["path"][:200]
            log.exception("incident %s: %s %s failed", incident, scope["method"], path)
            return await self._refuse(request, errors.unexpected(incident), scope, send)
        if isinstance(answer, Stream) and scope["method"] == "HEAD":
            await self._send(scope, send, 200, b"", (), media_type=_EVENTS)
            return 200
        if isinstance(answer, Stream):
            await answer(scope, receive, send)
            return 0  # the time a client listens does not count as request time
        status, document, headers = answer
        body = b"" if document is None else _encode(document)
        await self._send(scope, send, status, body, headers)
        return status

    def _told(self, error: AndonError, scope: "HTTPScope") -> ApiError:
        if isinstance(error, StoreError):
            now = time.monotonic()
            if now - self._said_at > _SAY_EVERY_S:
                self._said_at = now
                log.warning("%s %s failed: %s", scope["method"], scope["path"][:200], error)
            error = without_place(error)
        return errors.error_of(error)

    async def _refuse(
        self, request: "_Request", error: ApiError, scope: "HTTPScope", send: "Send"
    ) -> int:
        document = error.document(
            method=_UNKNOWN if request.route is None else request.route.name,
            params={name: _sayable(value) for name, value in request.params.items()},
            payload=request.payload,
            time=written(self.shared.service.engine.now()),
        )
        await self._send(scope, send, error.status, _encode(document), error.headers)
        return error.status

    async def _send(
        self,
        scope: "HTTPScope",
        send: "Send",
        status: int,
        body: bytes,
        headers: tuple[tuple[bytes, bytes], ...],
        *,
        media_type: bytes = _JSON,
    ) -> None:
        given = [*self._headers, *headers]
        await send_answer(scope, send, status, media_type, body, headers=given)


def _base_of(path: str) -> str | None:
    """What a path of one of the tables begins with; None for any other."""
    for base in _TABLES:
        if path.startswith(base):
            return base
    return None


class _Request:
    """One request, as far as it is understood."""

    def __init__(self, shared: Shared, route: "Route | None", params: dict[str, str]) -> None:
        self.shared = shared
        self.route = route
        self.params = params
        self.payload: Any = {}  #: the body as it was sent, for error messages

    async def answer(self, scope: "HTTPScope", receive: "Receive") -> Answer | Stream:
        """The answer. Raises `ApiError`, `AndonError`, and `Problem` for a body that did not
        come."""
        shared, route = self.shared, self.route
        limit = shared.settings.max_body
        body = await read_body(scope, receive, shared.service, limit)
        if route is None:
            raise errors.not_found(
                f"There is nothing for {scope['method']} at {scope['path'][:200]} here."
            )
        data, wrong = self._parsed(route, body, _has_json(scope))
        asked = Asked(shared, route, self.params, scope, receive)
        asked.incoming = Incoming.of(scope, body)
        asked.caller = await shared.trust.authenticate(asked.incoming)
        if route.is_early:
            asked.require()
        for name, value in self.params.items():
            if not is_parameter(name, value):
                raise ApiError(
                    "InvalidRequestArguments", f"{_sayable(value)[:100]!r} is no {name}."
                )
        asked.query, asked.lists = _query(route, scope["query_string"])
        if wrong is not None:
            raise wrong
        answer = await route.handler(asked, data)
        return answer if isinstance(answer, Answer | Stream) else Answer(200, answer)

    def _parsed(
        self, route: "Route", body: bytes, is_json: bool
    ) -> tuple[Input | None, ApiError | None]:
        """The decoded body, or why it does not fit the route; that error is raised later. Raises
        `ApiError` for a body that cannot be parsed."""
        if body and is_json and not body.isascii():
            _check_utf8(body)
        if body and not is_json:
            if route.takes is None:
                return None, None
            return None, ApiError(
                "MalformedPayload", "The body must be JSON: send Content-Type: application/json."
            )
        decode = _DECODERS.get(route.name)
        if decode is None:
            if body:
                self.payload = _parsed(body)
            return None, None
        if not body:
            body = b"{}"
        try:
            data = decode(body)
        except msgspec.ValidationError as error:
            self.payload = _parsed(body)
            return None, ApiError("InputValidationError", f"The body does not fit: {error}.")
        except (ValueError, RecursionError):
            _parsed(body)
            raise
        if len(body) <= _MOST_ECHOED:
            self.payload = msgspec.Raw(body)
        return data, None


def _check_utf8(body: bytes) -> None:
    """Raise `ApiError` (400) for invalid parts that are kept undecoded, which decoding would not
    find."""
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise ApiError("MalformedPayload", f"The body is not UTF-8: {error}.") from None


def _parsed(body: bytes) -> msgspec.Raw:
    """The body, known to be JSON. Raises `ApiError` (400)."""
    try:
        raw = _any(body)
    except RecursionError:
        raise ApiError("MalformedPayload", "The body is nested too deeply.") from None
    except ValueError as error:
        raise ApiError("MalformedPayload", f"The body is not JSON: {error}.") from None
    if not body.lstrip().startswith((b"{", b"[")):
        raise ApiError("MalformedPayload", "The body is neither an object nor a list.")
    return raw if len(body) <= _MOST_ECHOED else msgspec.Raw(b"{}")


def _has_json(scope: "HTTPScope") -> bool:
    for name, value in scope["headers"]:
        if name == b"content-type":
            return value.split(b";")[0].strip().lower() == _JSON
    return False


def _query(route: "Route", given: bytes) -> tuple[dict[str, str], dict[str, list[str]]]:
    """The query, once known to be one that the route takes: what comes once, and what may come
    again. Raises `ApiError` (400)."""
    query: dict[str, str] = {}
    lists: dict[str, list[str]] = {}
    if not given:
        return query, lists
    try:
        pairs = parse_qsl(given.decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError:
        raise ApiError("InvalidRequestArguments", "The query string is not UTF-8.") from None
    for name, value in pairs:
        if name == _BEWIT:
            continue
        if name not in route.query or name in query:
            known = ", ".join(sorted(route.query)) or "none"
            raise ApiError(
                "InvalidRequestArguments",
                f"The query parameter {name[:100]!r} is not one that {route.name} takes once "
                f"(it takes {known}).",
            )
        if not value or (name == "limit" and not _LIMIT.match(value)):
            raise ApiError("InvalidRequestArguments", f"{name} cannot be {value[:100]!r}.")
        if name in route.many:
            lists.setdefault(name, []).append(value)
        else:
            query[name] = value
    return query, lists


def _sayable(text: str) -> str:
    """A text of a path, which may not have been UTF-8, in a form that an answer can contain."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
