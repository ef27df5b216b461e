"""The routes of the face, and from a method and a path to one of them.

A path is split while it is encoded and decoded after that: clients encode the slash of a queue's id
or of an artifact's name. Two plain segments are accepted as well, for URLs typed by hand.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple
from urllib.parse import unquote

from andon.service.taskcluster.needs import Needs, places

Handler = Callable[[Any, Any], Awaitable[Any]]
"""Answers a request, given its decoded parts (`asked.Asked`) and its decoded body."""

QUEUE = "taskQueueId"
"""The parameter that may come as two segments."""

_PAGED = frozenset({"continuationToken", "limit"})


class Route:
    """One method of the API: its path, the scopes it needs, what it takes, and its handler."""

    def __init__(
        self,
        name: str,
        method: str,
        path: str,
        handler: Handler,
        *,
        needs: Needs | None = None,
        takes: type[Any] | None = None,
        paged: bool = False,
        query: Iterable[str] = (),
        many: Iterable[str] = (),
        late: bool = False,
    ) -> None:
        """`path` has parameters as in `/task/<taskId>`; `<name*>` takes the rest of the path.
        `takes` is the type of the body, for routes that have one. `many` are parameters of the
        query that may come again and again. `late`: scopes are checked after the record was found,
        though the path says enough."""
        self.name = name
        self.method = method
        self.path = path
        self.handler = handler
        self.needs = needs
        self.takes = takes
        self.paged = paged
        self.many = frozenset(many)
        self.query = frozenset((*query, *many, *(_PAGED if paged else ())))
        self.parts = tuple(_Part.of(text) for text in path.strip("/").split("/"))
        self._is_plain = not any(part.is_rest or part.name == QUEUE for part in self.parts)
        self.params = tuple(part.name for part in self.parts if part.name)
        self.is_early = not late and (needs is None or places(needs) <= set(self.params))
        """Whether the path alone says which scopes are needed: then they are checked before the
        rest of the request is read."""

    def __repr__(self) -> str:
        return f"<Route {self.name}: {self.method} {self.path}>"

    def match(self, segments: list[str]) -> dict[str, str] | None:
        """The parameters of a path of this route, by name and decoded; None: it is no such path."""
        if self._is_plain:
            return _one_each(self.parts, segments)
        return _matched(self.parts, segments)


class _Part(NamedTuple):
    """One part of a route's path."""

    fixed: str  #: what it must be; empty for a parameter
    name: str  #: of the parameter; empty for what is fixed
    is_rest: bool  #: it takes what is left of the path

    @classmethod
    def of(cls, text: str) -> "_Part":
        if not text.startswith("<"):
            return cls(text, "", False)
        name = text.strip("<>")
        return cls("", name.removesuffix("*"), name.endswith("*"))


def _one_each(parts: tuple[_Part, ...], segments: list[str]) -> dict[str, str] | None:
    """The same where each part is one segment."""
    if len(parts) != len(segments):
        return None
    found: dict[str, str] = {}
    for part, segment in zip(parts, segments, strict=True):
        if part.fixed:
            if segment != part.fixed:
                return None
        elif not segment:
            return None
        else:
            found[part.name] = unquote(segment, errors="surrogateescape")
    return found


def _matched(parts: tuple[_Part, ...], segments: list[str]) -> dict[str, str] | None:
    if not parts:
        return None if segments else {}
    part, *rest = parts
    if not segments:
        return None
    if part.fixed:
        return _matched(tuple(rest), segments[1:]) if segments[0] == part.fixed else None
    for taken in _lengths(part, segments):
        if not all(segments[:taken]):
            continue
        found = _matched(tuple(rest), segments[taken:])
        if found is not None:
            value = "/".join(unquote(one, errors="surrogateescape") for one in segments[:taken])
            return {part.name: value, **found}
    return None


def _lengths(part: _Part, segments: list[str]) -> tuple[int, ...]:
    """How many segments a parameter may be, the likeliest first."""
    if part.is_rest:
        return (len(segments),)
    if part.name == QUEUE and "%2f" not in segments[0].lower():
        return (2, 1) if len(segments) > 1 else (1,)
    return (1,)


class RouteTable:
    """Routes, found by method and path."""

    def __init__(self, routes: Iterable[Route] = ()) -> None:
        self.routes: list[Route] = []
        self._by_start: dict[tuple[str, str], list[Route]] = {}
        for route in routes:
            self.add(route)

    def add(self, route: Route) -> None:
        """Add a route. Fixed segments of a path are matched before parameters."""
        self.routes.append(route)
        beside = self._by_start.setdefault((route.method, route.parts[0].fixed), [])
        beside.append(route)
        beside.sort(key=lambda one: [bool(part.name) for part in one.parts])

    def find(self, method: str, path: str) -> tuple[Route, dict[str, str]] | None:
        """The route of a path that is still encoded, without its base, and its parameters."""
        segments = path.removesuffix("/").split("/")[1:] if path != "/" else []
        if not segments:
            return None
        for route in self._by_start.get((method, segments[0]), ()):
            found = route.match(segments)
            if found is not None:
                return route, found
        return None


def route(
    name: str,
    method: str,
    path: str,
    *,
    needs: Needs | None = None,
    takes: type[Any] | None = None,
    paged: bool = False,
    query: Iterable[str] = (),
    many: Iterable[str] = (),
    late: bool = False,
) -> Callable[[Handler], Route]:
    """Make a route of its handler, which gets the request and the decoded body."""

    def of(handler: Handler) -> Route:
        return Route(
            name,
            method,
            path,
            handler,
            needs=needs,
            takes=takes,
            paged=paged,
            query=query,
            many=many,
            late=late,
        )

    return of
