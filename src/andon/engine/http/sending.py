"""Sends many items in as few requests as possible.

An item that cannot be sent, or makes the service refuse a whole request, fails alone
(docs/rulings.md, R36).
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from andon.contract.isolation import Unwritable, each_alone
from andon.engine.http import wire
from andon.engine.http.transport import Transport
from andon.engine.http.wire import Packed
from andon.engine.places import in_places
from andon.model.errors import ConfigurationError, InvalidSubmission

Item = TypeVar("Item")
Answer = TypeVar("Answer")


async def send_in_groups(
    transport: Transport,
    method: str,
    items: Sequence[Item],
    most: int,
    *,
    decode: Callable[[bytes], list[Answer]],
    refused: Callable[[Item, str], Answer],
) -> list[Answer]:
    """The answer to each item. `decode` reads the answers to a request; `refused` makes the answer
    to an item at fault."""
    good, bad = wire.packed(items)

    async def send(group: Sequence[Packed]) -> list[Answer]:
        try:
            return decode(await transport.call(method, wire.body_of(group)))
        except (InvalidSubmission, ConfigurationError) as error:
            raise Unwritable(str(error)) from error

    told: list[Answer] = []
    for group in wire.in_groups(good, most):
        told += await each_alone(
            send, group, lambda one, why: refused(items[one.place], _said_alone(why))
        )
    return in_places(told, {place: refused(items[place], why) for place, why in bad.items()})


def _said_alone(why: str) -> str:
    """Why the service refused it, without the name of the error."""
    return why.removeprefix(f"{Unwritable.__name__}: ")
