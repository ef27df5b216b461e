"""Placeholders: arguments that stand for results of dependencies, and filling them in.

Pure. A task whose header `andon-results` names some of its arguments, separated by commas, has
placeholders in those. The worker puts results in their places before it calls the handler:

- `{"$result": "ID"}`: the result of that dependency;
- `{"$results": [FIRST, COUNT]}`: a list, of the results of so many dependencies from that place on,
  in the order in which the task names them.

A placeholder may stand deeper inside such an argument. A dependency that ended without a result
(with `requires="all-resolved"`) is null. What no header names is taken as it stands, and so is what
names no dependency: a value that happens to look like a placeholder is none.

Filled in, arguments may take `TIMES_PAYLOAD` times what those of a submit may, and be as deeply
nested. The results of many dependencies, or one result in many places, could be any size else.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from andon.lifecycle import payloads
from andon.model.headers import RESULTS_HEADER

TIMES_PAYLOAD = 64
"""How many times `max_payload` arguments may take with results in them. They are not stored, so
this bounds the memory of the process that fills them in: 16 MiB by default, 1,600 bytes from each
of 10,000 dependencies."""

_NULL = b"null"

Results = Mapping[str, bytes | None]
"""Results by the id of the dependency, as JSON; None where it has none."""


class NotFillable(ValueError):
    """A placeholder that cannot be filled in; the message says which, and why."""


def one(task_id: str) -> dict[str, Any]:
    """The placeholder of one result."""
    return {"$result": task_id}


def many(first: int, count: int) -> dict[str, Any]:
    """The placeholder of the results of so many dependencies, from that place on."""
    return {"$results": [first, count]}


def names_in(headers: Mapping[str, str]) -> tuple[str, ...]:
    """The arguments that have placeholders; none, mostly."""
    named = headers.get(RESULTS_HEADER)
    return tuple(named.split(",")) if named else ()


def filled(
    args: bytes,
    names: Sequence[str],
    dependencies: Sequence[str],
    results: Results,
    *,
    max_payload: int,
) -> bytes:
    """The arguments with results in the places of their placeholders: at most `TIMES_PAYLOAD` times
    `max_payload` bytes. Raises `NotFillable`, and nothing else, for whatever the arguments and the
    results are."""
    try:
        given = msgspec.json.decode(args, type=dict[str, msgspec.Raw])
        most = TIMES_PAYLOAD * max_payload
        filling = _Filling(dependencies, results, most)
        whole: dict[str, Any] = {**given}
        for name in names:
            if name in given:
                whole[name] = filling.of(msgspec.json.decode(given[name]))
        encoded = msgspec.json.encode(whole)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise NotFillable(f"Placeholders need named arguments: {error}") from None
    except RecursionError:
        raise NotFillable("The arguments are nested too deeply to put results into.") from None
    if len(encoded) > most:
        raise _too_large(most)
    if payloads.is_nested_too_deeply(encoded):
        raise NotFillable(
            "With the results in them, the arguments are nested more than "
            f"{payloads.MOST_NESTED} deep."
        )
    return encoded


def _too_large(most: int) -> NotFillable:
    """The refusal of arguments that take more bytes than that."""
    return NotFillable(
        f"With the results in them, the arguments take more than {most:,} bytes, which is "
        f"{TIMES_PAYLOAD} times max_payload. Let the dependencies return less, or references to "
        "their data."
    )


class _Filling:
    """The results of one task's dependencies, put in their places."""

    def __init__(self, dependencies: Sequence[str], results: Results, most: int) -> None:
        self._dependencies = dependencies
        self._known = frozenset(dependencies)
        self._results = results
        self._most = most
        self._left = most  # bytes that results may take yet
        self._checked: set[str] = set()

    def of(self, value: Any) -> Any:
        """A value with results in it."""
        if isinstance(value, list):
            return [self.of(part) for part in cast("list[Any]", value)]
        if not isinstance(value, dict):
            return value
        match cast("dict[str, Any]", value):
            case {"$result": str(parent), **rest} if not rest and parent in self._known:
                return self._one(parent)
            case {"$results": [int(first), int(count)], **rest} if (
                not rest and first >= 0 <= count and first + count <= len(self._dependencies)
            ):
                return [self._one(one) for one in self._dependencies[first : first + count]]
            case parts:
                return {name: self.of(part) for name, part in parts.items()}

    def _one(self, parent: str) -> msgspec.Raw:
        if parent not in self._results:
            raise NotFillable(
                f"The arguments want the result of {parent!r}, which was deleted. Run that again, "
                "and then this."
            )
        result = self._results[parent] or _NULL
        self._left -= len(result)
        if self._left < 0:  # before the whole is in memory
            raise _too_large(self._most)
        if parent not in self._checked:
            # It is pasted unchanged: if it were not a single value, it would change the rest of the
            # document.
            try:
                payloads.parse(result)
            except ValueError as error:
                raise NotFillable(
                    f"The stored result of {parent!r} is not JSON: {error}."
                ) from None
            self._checked.add(parent)
        return msgspec.Raw(result)
