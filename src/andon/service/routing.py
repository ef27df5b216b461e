"""Finds the handler's binder by method and path.

The framework's own routing (its application, its exception middleware twice, its router) costs as
much as the binder itself. It still routes what is not found here: other paths and methods, paths in
an unusual form, the pages of the document.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, cast

from litestar.exceptions import MethodNotAllowedException
from litestar.routes import HTTPRoute

from andon.service.binding import Binder

if TYPE_CHECKING:
    from litestar import Litestar
    from litestar.handlers import HTTPRouteHandler
    from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send

    from andon.service.service import Service

_OURS = "/api/"
_KEY = 3
"""The segment after /api/v1, which is never a parameter."""

_ROUTES = "andon.routes"
"""The key under which a request that the framework routes names its service."""


class _Route:
    """One method of one path."""

    def __init__(self, segments: list[str], template: str, binder: Binder) -> None:
        self.template = template
        self.binder = binder
        self.fixed = [(place, one) for place, one in enumerate(segments) if not _named(one)]
        self.names = [(place, one[1:-1]) for place, one in enumerate(segments) if _named(one)]


def _named(segment: str) -> bool:
    return segment.startswith("{")


class Routes:
    """The routes of the service under /api, with and without parameters."""

    def __init__(self, framework: "Litestar", service: "Service") -> None:
        self._service = service
        self._binders: dict[HTTPRouteHandler, Binder] = {}
        self._plain: dict[tuple[str, str], _Route] = {}
        self._others: dict[tuple[str, int, str], list[_Route]] = {}
        for route in framework.routes:
            if not isinstance(route, HTTPRoute) or not route.path_format.startswith(_OURS):
                continue
            segments = route.path_format.split("/")
            for handler in route.route_handlers:
                if "OPTIONS" in handler.http_methods:
                    continue  # the framework's own
                found = _Route(segments, route.path_format, self.binder_of(handler))
                for method in map(str, handler.http_methods):
                    if not found.names:
                        self._plain[method, route.path_format] = found
                    else:
                        key = (method, len(segments), segments[_KEY])
                        self._others.setdefault(key, []).append(found)

    def binder_of(self, handler: "HTTPRouteHandler") -> Binder:
        """The binder of a handler."""
        found = self._binders.get(handler)
        if found is None:
            found = self._binders[handler] = Binder(handler, self._service)
        return found

    def claim(self, scope: "HTTPScope") -> None:
        """Mark a request as this service's, before the framework routes it."""
        scope["state"][_ROUTES] = self

    def find(self, scope: "HTTPScope") -> Binder | None:
        """The binder for this request, whose scope then names the route; None: ask the framework.

        The path is still encoded.
        """
        path, method = scope["path"], cast("str", scope["method"])
        for name, value in scope["headers"]:
            if name == b"host" and not _is_plain_host(value):
                return None
        found = self._plain.get((method, path))
        if found is not None:
            scope["path_params"] = {}
            scope["path_template"] = found.template
            return found.binder
        segments = path.split("/")
        if len(segments) <= _KEY:
            return None
        for route in self._others.get((method, len(segments), segments[_KEY]), ()):
            if all(segments[place] == fixed for place, fixed in route.fixed):
                given = {name: segments[place] for place, name in route.names}
                if not all(given.values()):
                    return None
                scope["path_params"] = given
                scope["path_template"] = route.template
                return route.binder
        return None


def by_handler(app: "ASGIApp") -> "ASGIApp":
    """Middleware around one handler: the binder of the service that was asked, in its place."""

    async def bound(scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        handler = cast("HTTPRouteHandler", scope["route_handler"])
        if "OPTIONS" in handler.http_methods:  # the framework's own, which names some methods
            raise MethodNotAllowedException
        routes: Routes = scope["state"][_ROUTES]
        await routes.binder_of(handler)(scope, receive, send)

    return bound


@lru_cache(maxsize=256)
def _is_plain_host(value: bytes) -> bool:
    """Whether it is a name or address as most are, with or without a port."""
    return value.translate(None, b".:-[]_").isalnum()
