"""Decodes a request into a handler's arguments, and encodes what the handler returns as the answer.

One way for every route, in place of the framework's: the body is decoded by msgspec straight into
the handler's own type, an unknown query parameter or field is refused, and every error is answered
with problem details. It also costs a third of what the framework's way costs, which is why a submit
can be as fast as it is (docs/decisions/http-server.md).

The framework still does the routing, and reads the same signatures for the OpenAPI document.
"""

import asyncio
import inspect
import logging
import time
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, cast, get_type_hints
from urllib.parse import parse_qsl, unquote

import msgspec
from litestar.params import (
    BodyKwarg,
    HeaderParameter,
    KwargDefinition,
    PathParameter,
    QueryParameter,
)

from andon.engine.actor import ACTOR
from andon.lifecycle.admission import is_id
from andon.model.errors import (
    AndonError,
    AuthenticationFailed,
    StoreError,
    StoreUnavailable,
    TaskNotFound,
)
from andon.service.calls import Call
from andon.service.decoding import EACH_ALONE, BodyDecoder, what_is_wrong
from andon.service.problems import (
    CONTENT_TYPE,
    Problem,
    body_too_large,
    invalid,
    malformed,
    problem_of,
    unexpected,
)
from andon.service.protocol import answer as at_once
from andon.service.protocol import cycle_of, whole_body
from andon.service.trust.access import NOBODY

if TYPE_CHECKING:
    from collections.abc import Callable

    from litestar.handlers import HTTPRouteHandler
    from litestar.types import HTTPScope, Receive, Scope, Send
    from prometheus_client import Histogram

    from andon.service.service import Service

log = logging.getLogger("andon.service")

_JSON = b"application/json"
_IDS = frozenset({"task_id", "job_id"})
"""Parameters of paths that are ids of tasks."""

_MOST_INT = 2**63 - 1
_DIGITS = 19
_MOST_SHOWN = 100
_SAY_EVERY_S = 1.0
"""A store that is away fails every request; it is logged for one of them."""

_encode = msgspec.json.Encoder().encode


class Stream:
    """An answer that writes itself; a handler returns one for what is not a single document."""

    endless = False  #: it goes on for as long as the client wants, and may

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Send everything, from the start of the response to its end."""
        raise NotImplementedError


class _Plan:
    """The plan by which one handler is called, the same for every service."""

    def __init__(self, handler: "HTTPRouteHandler") -> None:
        self.function = cast("Callable[..., Any]", handler.fn)
        self.status = handler.status_code or 200
        self.paths: list[str] = []
        self.headers: list[tuple[str, bytes]] = []
        self.body: BodyDecoder | None = None
        self.raw = False
        names: dict[str, str] = {}
        fields: list[tuple[str, Any, Any]] = []
        hints = get_type_hints(self.function, include_extras=True)
        for name, parameter in inspect.signature(self.function).parameters.items():
            if name == "request":
                continue
            kind, told = _parted(hints[name])
            if isinstance(told, BodyKwarg):
                self.raw = kind is bytes
                alone = EACH_ALONE in hints[name].__metadata__
                self.body = BodyDecoder(kind, each_alone=alone)
            elif isinstance(told, PathParameter):
                self.paths.append(name)
            elif isinstance(told, HeaderParameter):
                self.headers.append((name, (told.name or name).lower().encode()))
            elif isinstance(told, QueryParameter):
                required = parameter.default is parameter.empty
                names[name] = told.name or name
                least, most = told.ge, told.le
                if kind in (int, int | None):  # no store counts further
                    least = -_MOST_INT if least is None else least
                    most = _MOST_INT if most is None else most
                if least is not None or most is not None:
                    kind = _bounded(kind, msgspec.Meta(ge=least, le=most))
                fields.append((name, kind, msgspec.NODEFAULT if required else parameter.default))
            else:
                raise TypeError(f"{self.function.__qualname__}: what is {name!r} bound to?")
        returned = hints.get("return")
        self.streams = isinstance(returned, type) and issubclass(returned, Stream)
        self.query_names = tuple(names)
        self.query: type[msgspec.Struct] | None = None
        if fields:
            self.query = msgspec.defstruct(
                "Query", fields, kw_only=True, forbid_unknown_fields=True, rename=names
            )


_plan_of = cache(_Plan)


def _parted(hint: Any) -> tuple[Any, Any]:
    """The type, and the framework's settings for the parameter."""
    for told in getattr(hint, "__metadata__", ()):
        if isinstance(told, KwargDefinition):
            return hint.__origin__, told
    return hint, None


def _bounded(kind: Any, bound: msgspec.Meta) -> Any:
    """The type of a number within bounds; one that may be left out stays so."""
    annotated: Any = Annotated
    return annotated[int, bound] | None if kind == (int | None) else annotated[kind, bound]


class Binder:
    """One handler, called for one service."""

    def __init__(self, handler: "HTTPRouteHandler", service: "Service") -> None:
        self._plan = _plan_of(handler)
        self._service = service
        self._seconds: dict[int, Histogram] = {}  #: by status: where the time taken is counted
        self._said_at = 0.0

    async def __call__(self, scope: "HTTPScope", receive: "Receive", send: "Send") -> None:
        plan, service = self._plan, self._service
        began = time.perf_counter()
        call = Call(scope, receive, send)
        call.service = service
        call.caller = NOBODY
        try:
            status = await self._answer(plan, call, scope, receive, send)
        except Problem as problem:
            status = await _refuse(problem, scope, send)
        except AndonError as error:
            if isinstance(error, StoreError) and began - self._said_at > _SAY_EVERY_S:
                self._said_at = began
                log.warning("%s %s failed: %s", scope["method"], scope["path"][:200], error)
            status = await _refuse(problem_of(call.told(error)), scope, send)
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            status = await _refuse(unexpected(), scope, send)
        if not plan.streams:
            seconds = self._seconds.get(status)
            if seconds is None:
                seconds = self._seconds[status] = service.metrics.requests.labels(
                    scope["method"], scope["path_template"], status
                )
            seconds.observe(time.perf_counter() - began)

    async def _answer(
        self,
        plan: _Plan,
        call: Call,
        scope: "HTTPScope",
        receive: "Receive",
        send: "Send",
    ) -> int:
        service = call.service
        call.status = plan.status
        call.answer_type = _JSON
        call.answer_headers = []
        caller = call.caller = await service.guard.authorize(scope)
        ACTOR.set(caller.actor)
        arguments: dict[str, Any] = {"request": call}
        for name in plan.paths:
            value = arguments[name] = unquote(scope["path_params"][name])
            if name in _IDS and not is_id(value):
                raise TaskNotFound(value[:_MOST_SHOWN])
        for name, header in plan.headers:
            found = [value for given, value in scope["headers"] if given == header]
            if len(found) > 1:
                raise malformed(f"The header {header.decode().title()} is given twice.")
            arguments[name] = found[0].decode("latin-1") if found else None
        _bind_query(plan, scope, arguments)
        if plan.body is not None:
            body = await read_body(scope, receive, service)
            arguments["data"] = (
                body if plan.raw else await plan.body.decode(scope, body, call.unread)
            )
        answer = await plan.function(**arguments)
        if isinstance(answer, Stream):
            if answer.endless and any(name == b"authorization" for name, _ in scope["headers"]):
                await _while_allowed(answer, service, scope, receive, send)
            else:
                await answer(scope, receive, send)
            return call.status
        headers = call.answer_headers
        if answer is None:
            await send({"type": "http.response.start", "status": call.status, "headers": headers})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return call.status
        body = answer if type(answer) is bytes else _encode(answer)
        await send_answer(scope, send, call.status, call.answer_type, body, headers=headers)
        return call.status


async def send_answer(
    scope: "HTTPScope",
    send: "Send",
    status: int,
    media_type: bytes,
    body: bytes,
    *,
    headers: list[tuple[bytes, bytes]],
) -> None:
    """Send a whole answer, in one write where that can be."""
    cycle = cycle_of(scope)
    if cycle is not None and at_once(cycle, status, media_type, body, headers):
        return
    headers += ((b"content-type", media_type), (b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def _while_allowed(
    answer: Stream, service: "Service", scope: "HTTPScope", receive: "Receive", send: "Send"
) -> None:
    """Cut a stream once its token would be refused: it may be revoked, expire, or its run end."""
    streaming = asyncio.ensure_future(answer(scope, receive, send))
    try:
        while not streaming.done():
            await asyncio.wait([streaming], timeout=service.settings.stream_ping)
            try:
                await service.guard.authorize(scope)
            except AuthenticationFailed:
                cycle = cycle_of(scope)
                if cycle is not None and not streaming.done():
                    cycle.transport.abort()  # or it would be taken for the whole
                    await asyncio.wait([streaming], timeout=service.settings.stream_ping)
                break
            except StoreUnavailable:
                continue  # not known now; it is checked again
            except Exception:
                log.exception("it is not known whether a token is good still")
    finally:
        streaming.cancel()
        await asyncio.gather(streaming, return_exceptions=True)
    if not streaming.cancelled():
        streaming.result()


def _bind_query(plan: _Plan, scope: "HTTPScope", arguments: dict[str, Any]) -> None:
    given = scope["query_string"]
    if plan.query is None:
        if given:
            raise invalid(
                "This route takes no query parameters.",
                field=given.decode("latin-1").partition("=")[0][:100],
            )
        return
    if not given:
        fields: dict[str, Any] = {}
    else:
        try:
            pairs = parse_qsl(given.decode("ascii"), keep_blank_values=True, errors="strict")
        except ValueError as error:
            raise malformed("The query string is not UTF-8.") from error
        fields = {}
        for name, value in pairs:
            if name in fields:
                raise invalid(f"{name} is given twice.", field=name)
            if "\0" in value:
                raise invalid(f"{name} holds a NUL, and nothing has one in its name.", field=name)
            fields[name] = value
    try:
        bound = msgspec.convert(fields, plan.query, strict=False)
    except msgspec.ValidationError as error:
        raise what_is_wrong(error, "The query") from error
    for name in plan.query_names:
        arguments[name] = getattr(bound, name)


async def read_body(
    scope: "HTTPScope", receive: "Receive", service: "Service", limit: int | None = None
) -> bytes:
    """The whole body, at most `limit` bytes of it (None: `max_body`). Raises `Problem` (413, 408,
    400)."""
    if limit is None:
        limit = service.settings.max_body
    cycle = cycle_of(scope)
    whole = None if cycle is None else whole_body(cycle)
    if whole is not None:  # it has come with the headers: nothing to wait for
        if len(whole) > limit:
            raise body_too_large(limit)
        return whole
    for name, value in scope["headers"]:
        if name == b"content-length" and not is_at_most(value, limit):
            raise body_too_large(limit)
    message = await next_part(receive, service)
    body: bytes = message["body"]
    parts, size = [body], len(body)
    while message["more_body"] and size <= limit:
        message = await next_part(receive, service)
        parts.append(message["body"])
        size += len(parts[-1])
    if size > limit:
        raise body_too_large(limit)
    return b"".join(parts) if len(parts) > 1 else body


def is_at_most(length: bytes, limit: int) -> bool:
    """Whether a Content-Length is a number, and no larger."""
    return length.isdigit() and len(length) < _DIGITS and int(length) <= limit


async def next_part(receive: "Receive", service: "Service") -> Any:
    """The next part of a body. Raises `Problem` (408, 400)."""
    try:
        async with asyncio.timeout(service.settings.body_timeout):
            message = await receive()
    except TimeoutError:
        raise Problem(
            408,
            "request-timeout",
            "Request timeout",
            "The body did not come in time.",
            headers={"Connection": "close"},
        ) from None
    if message["type"] != "http.request":
        raise malformed("The body ended early.")
    return message


async def _refuse(problem: Problem, scope: "HTTPScope", send: "Send") -> int:
    """Answer with problem details; where an answer has begun, cut that off, or what was sent of it
    would be taken for the whole."""
    cycle = cycle_of(scope)
    if cycle is not None and cycle.response_started:
        if not cycle.response_complete:
            cycle.transport.abort()
        return problem.status
    return await send_problem(problem, scope, send)


async def send_problem(problem: Problem, scope: "Scope", send: "Send") -> int:
    """Answer with problem details; the status."""
    body = _encode({**problem.document, "instance": scope["path"]})
    headers = [(b"content-type", CONTENT_TYPE), (b"content-length", b"%d" % len(body))]
    headers += [(name.lower().encode(), value.encode()) for name, value in problem.headers.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
    return problem.status
