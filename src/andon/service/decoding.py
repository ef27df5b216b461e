"""Decodes a body into a handler's own type, or into the problem to answer with.

A large list is decoded a slice at a time, so that other requests get their turn in between: all at
once, 25 MiB of submissions blocked the loop for 40 ms. Only finding where each entry ends is still
done in one go.

Where a handler says so (`Items`), an entry of the list that is not what it must be fails alone
(docs/rulings.md, R36): the handler gets the others, and `Call.unread` has the problem of each by
its place.
"""

import asyncio
import re
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from litestar.params import JSONBody

from andon.service.problems import Problem, invalid, malformed

if TYPE_CHECKING:
    from litestar.types import HTTPScope

LARGE = 128 * 1024
"""Bytes that are decoded at once: 1 ms at the most."""

EACH_ALONE = "each alone"
"""Marks a body whose entries fail alone."""

T = TypeVar("T")

Items: TypeAlias = Annotated[JSONBody[T], EACH_ALONE]
"""A JSON body that is a list, or has one as its first list. `Call.unread` has the entries that
could not be read; `engine.places` puts what became of them among the others."""

_PATH = re.compile(r" - at `\$\.?(?P<path>.*)`$")


class BodyDecoder:
    """Decodes bodies of one type; `each_alone`: a bad entry of its list is no reason to refuse the
    others."""

    def __init__(self, kind: Any, *, each_alone: bool = False) -> None:
        self._whole = msgspec.json.Decoder(kind)
        self._each_alone = each_alone
        self._field = ""  #: that has the list; empty: the body is the list
        self._make: Any = None
        self._parts: msgspec.json.Decoder[Any] | None = None
        self._item: msgspec.json.Decoder[Any] | None = None
        parts, item = _listed(kind)
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            hints: dict[str, Any] = get_type_hints(kind, include_extras=True)  # a bound stays
            names = kind.__struct_fields__
            lists = [name for name in names if _listed(hints[name])[1] is not None]
            if lists and (each_alone or len(names) == 1):
                self._field = lists[0]
                self._make = kind
                hints[self._field], item = _listed(hints[self._field])
                fields = [
                    (field.name, hints[field.name], *_default(field))
                    for field in msgspec.structs.fields(kind)
                ]
                strict = kind.__struct_config__.forbid_unknown_fields
                parts = msgspec.defstruct(
                    kind.__name__, fields, kw_only=True, forbid_unknown_fields=strict
                )
        if item is not None:
            self._item = msgspec.json.Decoder(item)
            self._parts = msgspec.json.Decoder(parts)

    async def decode(self, scope: "HTTPScope", body: bytes, unread: dict[int, Problem]) -> Any:
        """The decoded body; the problems of entries that do not decode go into `unread`, by place.
        Raises `Problem` (400, 415, 422)."""
        _check_type(scope, body)
        if self._item is None or self._parts is None:
            return _decoded(self._whole, body or b"{}")
        if len(body) < LARGE:
            try:
                return _decoded(self._whole, body or b"{}")
            except Problem:
                if not self._each_alone:
                    raise
        await asyncio.sleep(0)  # putting the body together took a while too
        parts = _decoded(self._parts, body or b"{}")
        await asyncio.sleep(0)
        raws: list[msgspec.Raw] | None = getattr(parts, self._field) if self._field else parts
        items = None if raws is None else await self._items(self._item, raws, unread)
        if self._make is None:
            return items
        return self._make(**{**msgspec.structs.asdict(parts), self._field: items})

    async def _items(
        self,
        decoder: "msgspec.json.Decoder[Any]",
        raws: list[msgspec.Raw],
        unread: dict[int, Problem],
    ) -> list[Any]:
        items: list[Any] = []
        taken = 0
        for number, raw in enumerate(raws):
            try:
                items.append(_decoded(decoder, raw, f"{self._field}[{number}]"))
            except Problem as problem:
                if not self._each_alone:
                    raise
                unread[number] = problem
            taken += len(memoryview(raw)) + _EACH
            if taken >= LARGE:
                taken = 0
                await asyncio.sleep(0)
        return items


def _default(field: msgspec.structs.FieldInfo) -> tuple[Any, ...]:
    if field.default is not msgspec.NODEFAULT:
        return (field.default,)
    if field.default_factory is not msgspec.NODEFAULT:
        return (msgspec.field(default_factory=field.default_factory),)
    return ()


def _listed(hint: Any) -> tuple[Any, Any]:
    """The same list type with undecoded entries, and the type of an entry; None: it is no list."""
    origin = get_origin(hint)
    if origin is list:
        return list[msgspec.Raw], get_args(hint)[0]
    if origin is Annotated:
        parts, item = _listed(hint.__origin__)
        return Annotated[(parts, *hint.__metadata__)], item
    if origin in (Union, UnionType) and NoneType in get_args(hint):
        kinds = [kind for kind in get_args(hint) if kind is not NoneType]
        parts, item = _listed(kinds[0])
        return (parts | None, item) if len(kinds) == 1 else (hint, None)
    return hint, None


_EACH = 100
"""The fixed cost of an item, in bytes."""


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
