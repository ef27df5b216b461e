"""Refuses numbers that JSON does not have: NaN and the infinities, which encoders write as null.

A number that silently becomes null is a wrong result, so every encoder here looks for one.
"""

import math
import re
from collections.abc import Callable
from typing import Any, cast

import msgspec

NULL = b"null"
"""To be looked for by `find`: `in` would take bytes for a number first, which fails, each time."""
_NO_NUMBER = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")
"""How MessagePack, which has them, writes a number of that kind; texts may hold the same bytes."""


class NoNumber(ValueError):
    """A value holds a number that JSON does not have; the message says which, and where."""


class NoNumberFinder:
    """Compares values with their JSON. Costs nothing if the JSON has no null, and about as much as
    encoding if it has one."""

    def __init__(self, hook: Callable[[Any], Any]) -> None:
        self._hook = hook
        self._encode = msgspec.msgpack.Encoder(enc_hook=hook).encode

    def check(self, value: Any, encoded: bytes) -> None:
        """Raise `NoNumber` if a null in the JSON was a number in the value."""
        if encoded.find(NULL) >= 0 and self._may_have(value):
            self._look(value)

    def _may_have(self, value: Any) -> bool:
        try:
            return _NO_NUMBER.search(self._encode(value)) is not None
        except (OverflowError, TypeError, ValueError):
            return True  # JSON takes larger integers: only a look can tell

    def _look(self, value: Any) -> None:
        try:
            plain = msgspec.to_builtins(value, enc_hook=self._hook)
        except TypeError:
            return  # it holds JSON that was encoded elsewhere
        left: list[tuple[str, Any]] = [("$", plain)]
        while left:
            path, one = left.pop()
            if isinstance(one, float) and not math.isfinite(one):
                raise NoNumber(f"{path} is {one}, and JSON has no such number")
            if isinstance(one, dict):
                for name, part in cast("dict[Any, Any]", one).items():
                    left.append((f"{path}.{name}", part))
            elif isinstance(one, list | tuple):
                for place, part in enumerate(cast("list[Any]", one)):
                    left.append((f"{path}[{place}]", part))
