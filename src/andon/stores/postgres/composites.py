"""Types of the schema whose values Python sends as rows. The order of the fields here is the one
list: SQL makes the type of it, as `{{change_fields}}`, and Python gives values by name."""

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any


class Composite:
    """A type of the schema: its fields, each with its type there."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        self.fields = fields
        self.row: Callable[[Mapping[str, Any]], tuple[Any, ...]] = itemgetter(*fields)
        """The values of one row, in the order of the type. Raises `KeyError` if one is missing."""

    @property
    def definition(self) -> str:
        """What stands between the parentheses of its `CREATE TYPE`."""
        return ", ".join(f"{name} {type_}" for name, type_ in self.fields.items())


CHANGE = Composite(
    {
        "plain": "boolean",  # written together with others
        "seq": "bigint",
        "id": "text",
        "created": "bigint",
        "revision": "bigint",
        "was": "text",
        "was_dead": "boolean",
        "seen_lease": "bigint",
        "state": "text",  # NULL: the record is deleted
        "new_revision": "bigint",
        "timer": "bigint",
        "dead": "boolean",
        "asked": "boolean",
        "status": "bytea",
        "run": "text",
        "worker": "text",
        "write_id": "text",
        "event": "bytea",
        "at": "bigint",
        "sets_result": "boolean",
        "result": "bytea",
        "force": "boolean",
        "discard": "bytea",
        "digest": "text",
        "writes": "text",
        "last_run": "text",
        "report": "text",
        "unknown": "boolean",
        "old_lane": "integer",
        "old_level": "integer",
        "old_ord": "bigint",
        "lane": "integer",
        "level": "integer",
        "ord": "bigint",
        "dead_at": "bigint",
        "first_limit": "bigint",
        "run_no": "integer",
        "frees": "text",  # the unique key that the next claim sets free
        "takes": "text",
        "takes_until": "bigint",
        "leaves": "text",
        "discard_leaves": "text",  # the unique key that the record still held at its end
        "tally": "text",
        "lists_out": "text[]",  # lists by name that it leaves; NULL: none
        "lists_in": "text[]",
        "end_lists": "text[]",  # those that it still stood in at its end, of one that is discarded
    }
)
"""A decided change, as `commit_changes` takes it."""
