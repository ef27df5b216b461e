"""From a body to a handler's own type, and what is told where that cannot be done.

A large list is decoded a slice at a time, others taking their turn in between: all at once, 25 MiB
of submissions held the loop for 40 ms. What remains in one go is to find where each one ends.
"""

import asyncio
import re
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

import msgspec

from andon.service.problems import Problem, invalid, malformed

if TYPE_CHECKING:
    from litestar.types import HTTPScope

LARGE = 128 * 1024
"""Bytes that are decoded at once: 1 ms at the most."""

_PATH = re.compile(r" - at `\$\.?(?P<path>.*)`$")


class BodyDecoder:
    """Decodes bodies of one type."""

    def __init__(self, kind: Any) -> None:
        self._whole = msgspec.json.Decoder(kind)
        self._field = ""  #: that has the list; empty: the body is the list
        self._make: Any = None
        self._parts: msgspec.json.Decoder[Any] | None = None
        self._item: msgspec.json.Decoder[Any] | None = None
        listed = kind
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            names = kind.__struct_fields__
            if len(names) == 1:
                [self._field] = names
                self._make = kind
                listed = get_type_hints(kind, include_extras=True)[self._field]  # a bound stays
        if get_origin(listed) is list:
            self._item = msgspec.json.Decoder(*get_args(listed))
            parts: Any = list[msgspec.Raw]
            if self._make is not None:
                fields = [(self._field, parts)]
                parts = msgspec.defstruct(kind.__name__, fields, forbid_unknown_fields=True)
            self._parts = msgspec.json.Decoder(parts)

    async def decode(self, scope: "HTTPScope", body: bytes) -> Any:
        """What the body says. Raises `Problem` (400, 415, 422)."""
        _check_type(scope, body)
        if self._item is None or self._parts is None or len(body) < LARGE:
            return _decoded(self._whole, body or b"{}")
        await asyncio.sleep(0)  # putting the body together took a while too
        parts = _decoded(self._parts, body)
        await asyncio.sleep(0)
        raws: list[msgspec.Raw] = getattr(parts, self._field) if self._field else parts
        items: list[Any] = []
        taken = 0
        for number, raw in enumerate(raws):
            items.append(_decoded(self._item, raw, f"{self._field}[{number}]"))
            taken += len(memoryview(raw)) + _EACH
            if taken >= LARGE:
                taken = 0
                await asyncio.sleep(0)
        return self._make(items) if self._make is not None else items


_EACH = 100
"""What an item costs however small it is, in bytes of it."""


def _decoded(decoder: "msgspec.json.Decoder[Any]", part: bytes | msgspec.Raw, at: str = "") -> Any:
    try:
        return decoder.decode(part)
    except msgspec.ValidationError as error:
        raise what_is_wrong(error, "The body", at) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        where = f"in {at}, " if at else ""
        raise malformed(f"The body is not JSON: {where}{error}.") from error
    except RecursionError as error:
        raise malformed("The body is nested too deeply.") from error


def _check_type(scope: "HTTPScope", body: bytes) -> None:
    for name, value in scope["headers"]:
        if name == b"content-type":
            if not value.lower().startswith(b"application/json"):
                raise _not_json("The body must be JSON: send Content-Type: application/json.")
            return
    if body:
        raise _not_json("The body has no type: send Content-Type: application/json.")


def _not_json(detail: str) -> Problem:
    return Problem(415, "unsupported-media-type", "Unsupported media type", detail)


def what_is_wrong(error: msgspec.ValidationError, what: str, at: str = "") -> Problem:
    """The problem of a value that has not the shape it must have; `at` is where it stands."""
    text = str(error)
    found = _PATH.search(text)
    path = found["path"] if found else ""
    named = re.search(r"field `(.+?)`", text)
    steps = (at, path, named[1] if named else "")
    field = ""
    for step in filter(None, steps):
        field += step if step.startswith("[") or not field else f".{step}"
    told = text[: found.start()] if found else text
    return invalid(f"{what} is not what this route takes: {told}.", field=field)
