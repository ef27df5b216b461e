"""One bad item fails alone: a batched call that one of its items makes impossible is made again in
halves, until that item is alone (docs/rulings.md, R36).

A batch of n with one bad item costs about 2 log2(n) calls; one without costs nothing more. Halves
are safe to repeat: every item of a batched call is idempotent by its id or write id, and a call
that fails has written nothing, or what a repeat of it finds.

An item is at fault if the error is `Unwritable`, which stores raise if their server refuses a
value, or one by which Python refuses to encode a value.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from andon.model.errors import AndonError

logger = logging.getLogger("andon.stores")

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


class Unwritable(Exception):
    """The store refuses a value, and would refuse it again; the message says why."""


AT_FAULT = (Unwritable, ValueError, TypeError, OverflowError)
"""Errors of an item, not of the store. (Encoding errors of text and of msgspec are `ValueError`s or
`TypeError`s.)"""


async def each_alone(
    write: Callable[[Sequence[Item]], Awaitable[list[Outcome]]],
    items: Sequence[Item],
    refused: Callable[[Item, str], Outcome],
    at_fault: tuple[type[Exception], ...] = AT_FAULT,
) -> list[Outcome]:
    """The outcomes of `write`; `refused(item, why)` in the place of each that cannot be written.

    `at_fault`: the errors that are attributed to an item. Errors of the store itself
    (`AndonError`), and of a broken connection (`OSError`), never are."""
    try:
        return await write(items)
    except (AndonError, OSError):
        raise
    except at_fault as error:
        if len(items) < 2:
            return [refused(item, why_of(error)) for item in items]
    middle = len(items) // 2
    return [
        *await each_alone(write, items[:middle], refused, at_fault),
        *await each_alone(write, items[middle:], refused, at_fault),
    ]


def each_alone_blocking(
    write: Callable[[Sequence[Item]], list[Outcome]],
    items: Sequence[Item],
    refused: Callable[[Item, str], Outcome],
) -> list[Outcome]:
    """The same for a call that blocks."""
    try:
        return write(items)
    except (AndonError, OSError):
        raise
    except AT_FAULT as error:
        if len(items) < 2:
            return [refused(item, why_of(error)) for item in items]
    middle = len(items) // 2
    return [
        *each_alone_blocking(write, items[:middle], refused),
        *each_alone_blocking(write, items[middle:], refused),
    ]


def left_out(what: str, name: str, why: str) -> None:
    """Log that an item without an outcome of its own was left out of a batch. (Its name may be what
    no log can hold.)"""
    logger.error("%s of %r was left out: %s", what, name, why)


def why_of(error: BaseException) -> str:
    """An item's error as text."""
    return f"{type(error).__name__}: {error}"
