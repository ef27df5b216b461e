"""The ASGI application: the routes in the framework, and the middleware around them."""

import logging
import math
import time
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from litestar import Litestar, Request, Response
from litestar.exceptions import HTTPException

from andon.service.binding import send_problem
from andon.service.calls import Call
from andon.service.openapi import document_of, openapi_config
from andon.service.problems import Problem, malformed, not_found, unexpected
from andon.service.rates import Rates
from andon.service.routes import (
    about,
    alerts,
    artifacts,
    audit,
    blobs,
    bulk,
    dead_letters,
    engine,
    events,
    flows,
    groups,
    jobs,
    logs,
    minutes,
    policies,
    queues,
    runs,
    schedules,
    tasks,
    tokens,
    workers,
)
from andon.service.routing import Routes, by_handler
from andon.service.taskcluster.errors import ApiError, transient
from andon.service.taskcluster.face import PREFIXES, Face

if TYPE_CHECKING:
    from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send

    from andon.service.service import Service

log = logging.getLogger("andon.service")

ROUTERS = [
    tasks.router,
    bulk.router,
    dead_letters.router,
    schedules.router,
    queues.router,
    minutes.router,
    policies.router,
    alerts.router,
    flows.router,
    groups.router,
    events.router,
    jobs.router,
    runs.router,
    engine.router,
    artifacts.router,
    blobs.router,
    logs.router,
    tokens.router,
    audit.router,
    workers.router,
    about.router,
]


FACE = tuple(prefix.encode() for prefix in PREFIXES)
"""How the paths of the Taskcluster face begin."""


@cache
def routed() -> tuple[Litestar, bytes]:
    """The routes in the framework and their OpenAPI document: the same for every service of this
    process, and most of what it takes to start one."""
    framework = Litestar(
        route_handlers=ROUTERS,
        middleware=[by_handler],
        request_class=Call,
        exception_handlers={Exception: _unrouted},
        openapi_config=openapi_config(),
        logging_config=None,
    )
    return framework, document_of(framework)


def make_app(service: "Service") -> "ASGIApp":
    """The application of a service. Starting and stopping the service is the server's."""
    framework, service.openapi = routed()
    settings = service.settings
    rates = None if settings.rate_limit is None else Rates(settings.rate_limit, settings.rate_burst)
    routes = Routes(framework, service)
    board = service.board
    face = None
    if settings.taskcluster is not None:
        face = Face(service, settings.taskcluster, service.authentication)

    async def front(scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] == "http":
            wait = 0.0 if rates is None else rates.take(_address(scope), time.monotonic())
            if face is not None and scope["raw_path"].startswith(FACE):
                await face(scope, receive, send, _refusal(scope, wait))
                return
            if wait:
                await send_problem(_too_many(wait), scope, send)
                return
            if _names_two_hosts(scope):
                await send_problem(_TWO_HOSTS, scope, send)
                return
            if board is not None and board.is_here(scope["path"]):
                await board(scope, receive, send)  # pyright: ignore[reportArgumentType]
                return
            # Still encoded: a name may have a slash in it (%2F). `Binder` decodes the parameters.
            scope["path"] = scope["raw_path"].decode("latin-1")
            binder = routes.find(scope)
            if binder is not None:
                await binder(scope, receive, send)
                return
            routes.claim(scope)
        await framework(scope, receive, send)

    return front


_TWO_HOSTS = malformed("The header Host is given twice; one request is for one host.")


def _refusal(scope: "HTTPScope", wait: float) -> ApiError | None:
    """Why a request to the face is refused at once; None if it is not. Its clients do not know
    status 429."""
    if wait:
        return transient(_TOO_MANY, math.ceil(wait))
    if _names_two_hosts(scope):
        return ApiError("InvalidRequestArguments", str(_TWO_HOSTS))
    return None


def _names_two_hosts(scope: "HTTPScope") -> bool:
    """Whether a proxy before this service may have routed the request by another host name."""
    hosts = 0
    for name, _ in scope["headers"]:
        if name == b"host":
            hosts += 1
    return hosts > 1


_TOO_MANY = "This address sends more requests than the service takes."


def _address(scope: "HTTPScope") -> str:
    client = scope["client"]
    return "" if client is None else client[0]


def _too_many(wait: float) -> Problem:
    return Problem(
        429,
        "too-many-requests",
        "Too many requests",
        _TOO_MANY,
        headers={"Retry-After": str(math.ceil(wait))},
    )


class _Answer(Response[bytes]):
    """A problem, where the framework wants a response."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(b"")
        self._problem = problem

    def to_asgi_response(self, *args: Any, **kwargs: Any) -> Any:
        async def answer(scope: "Scope", receive: "Receive", send: "Send") -> None:
            await send_problem(self._problem, scope, send)

        return answer


def _unrouted(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Answers errors before a handler is found."""
    return _Answer(_problem(request, error))


def _problem(request: Request[Any, Any, Any], error: Exception) -> Problem:
    path, method = request.scope["path"], cast("str", request.scope["method"])
    if not isinstance(error, HTTPException):
        log.error("%s %s failed", method, path, exc_info=error)
        return unexpected()
    if error.status_code == 404:
        return not_found(f"There is nothing at {path[:200]}. See /openapi.json for what there is.")
    if error.status_code == 405:
        return Problem(
            405,
            "method-not-allowed",
            "Method not allowed",
            f"{path[:200]} does not take {method}. See /openapi.json for what it takes.",
            headers=dict(error.headers or {}),
        )
    return malformed(error.detail)
