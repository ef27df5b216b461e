"""Outcomes of a batch, put together in the order of its items. Pure."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def in_places(outcomes: Sequence[T], others: Mapping[int, T]) -> list[T]:
    """One outcome for each item: `others` by their place among all, the outcomes in order between
    them."""
    told: list[T] = []
    rest = iter(outcomes)
    for place in sorted(others):
        told.extend(islice(rest, place - len(told)))
        told.append(others[place])
    told.extend(rest)
    return told
