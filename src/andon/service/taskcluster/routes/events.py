"""The stream of messages, under a base of its own: `/api/queue-events/v1`."""

from typing import Any

from andon.model.errors import ConfigurationError, InvalidSubmission
from andon.service.taskcluster.asked import Asked
from andon.service.taskcluster.errors import ApiError, transient
from andon.service.taskcluster.messages.exchanges import exchange_named
from andon.service.taskcluster.messages.patterns import Binding, check_pattern
from andon.service.taskcluster.messages.stream import MessageStream
from andon.service.taskcluster.needs import Each
from andon.service.taskcluster.table import route

_MOST_BINDINGS = 100
_EXCHANGE = "exchange"
_PATTERN = "routingKeyPattern"


@route(
    "streamMessages",
    "GET",
    "/stream",
    needs=Each("exchanges", "queue-events:listen:<each>"),
    many=(_EXCHANGE, _PATTERN),
)
async def stream_messages(asked: Asked, _: None) -> Any:
    """Listen to messages of some exchanges from now on, or after the one that Last-Event-ID
    names."""
    bindings = _bindings(asked)
    exchanges = sorted({binding.exchange.full_name for binding in bindings})
    asked.require(exchanges=exchanges)
    service, feed = asked.service, asked.shared.feed
    if service.streams >= service.settings.max_streams:
        raise transient(f"{service.settings.max_streams:,} streams are open. Try again later.", 10)
    after = _last_event_id(asked)
    if not after:
        return MessageStream(asked, bindings, await feed.end(), None)
    try:
        first = await feed.read(after, {binding.exchange for binding in bindings})
    except (ConfigurationError, InvalidSubmission):
        raise _bad("Last-Event-ID is none of a stream of messages.") from None
    return MessageStream(asked, bindings, after, first)


def _bindings(asked: Asked) -> list[Binding]:
    """What the query asks for: an exchange, and the pattern beside it. Raises `ApiError` (400)."""
    names, patterns = asked.lists.get(_EXCHANGE, []), asked.lists.get(_PATTERN, [])
    if not names:
        raise _bad("Name an exchange, exchange=exchange/taskcluster-queue/v1/task-completed.")
    if len(names) > _MOST_BINDINGS:
        raise _bad(f"{len(names)} exchanges are named; {_MOST_BINDINGS} may be.")
    if patterns and len(patterns) != len(names):
        raise _bad(
            f"Each exchange has a routingKeyPattern of its own, or none has one: there are "
            f"{len(names)} and {len(patterns)}."
        )
    found: list[Binding] = []
    for name, pattern in zip(names, patterns or ["#"] * len(names), strict=True):
        try:
            check_pattern(pattern)
        except ValueError as error:
            raise _bad(f"routingKeyPattern cannot be {pattern[:100]!r}: {error}.") from None
        try:
            found.append(Binding(exchange_named(name), pattern))
        except ValueError:
            raise _bad(f"There is no exchange {name[:100]!r} here.") from None
    return found


def _last_event_id(asked: Asked) -> str:
    for name, value in asked.scope["headers"]:
        if name == b"last-event-id":
            return value.decode("latin-1")
    return ""


def _bad(message: str) -> ApiError:
    return ApiError("InvalidRequestArguments", message)


ROUTES = [stream_messages]
