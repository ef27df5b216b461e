"""Finds the lists by name that records of an older release belong to, for the migration of a
store."""

from collections.abc import Iterable

from andon.lifecycle.indexes import lists_of
from andon.model.words import State
from andon.stores.kit.codec import Undecodable, decode_definition


def lists_of_rows(rows: Iterable[tuple[int, str, bytes]]) -> list[tuple[str, int]]:
    """(list, row) of each row, state and encoded definition. A record that does not decode is in no
    list: the first claim or timer that reads it sets it aside."""
    entered: list[tuple[str, int]] = []
    for seq, state, body in rows:
        try:
            definition = decode_definition(body)
        except Undecodable:
            continue
        entered += [(name, seq) for name in lists_of(definition, State(state))]
    return entered
