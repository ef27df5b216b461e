"""Bindings of a subscriber: an exchange, and a pattern of routing keys as in AMQP topics. Pure."""

from collections.abc import Sequence

import msgspec

from andon.service.taskcluster.messages.exchanges import Exchange, Message

MOST_BYTES = 255
"""Of a pattern, as in AMQP."""


class Binding(msgspec.Struct, frozen=True):
    """Messages of one exchange with a routing key that fits."""

    exchange: Exchange
    pattern: str = "#"
    """Words between dots: `*` is any one word, `#` any number of them, none too."""

    def admits(self, message: Message) -> bool:
        """Whether the message is wanted: one of its keys fits."""
        return message.exchange is self.exchange and any(
            fits(self.pattern, key) for key in message.keys
        )


def check_pattern(pattern: str) -> None:
    """Raise `ValueError` for an invalid pattern."""
    if not pattern or len(pattern.encode()) > MOST_BYTES:
        raise ValueError(f"a routing key pattern has 1 to {MOST_BYTES} bytes")


def wants(bindings: Sequence[Binding], message: Message) -> bool:
    """Whether one of the bindings admits the message."""
    return any(binding.admits(message) for binding in bindings)


def fits(pattern: str, key: str) -> bool:
    """Whether a routing key fits a pattern. Costs at most the product of their words."""
    if pattern in ("#", key):
        return True
    words = key.split(".")
    # The places in the key that the pattern so far may have come to.
    places = {0}
    for part in pattern.split("."):
        if part == "#":
            places = set(range(min(places), len(words) + 1))
        else:
            places = {
                place + 1 for place in places if place < len(words) and part in ("*", words[place])
            }
        if not places:
            return False
    return len(words) in places
