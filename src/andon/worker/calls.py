"""Encodes a call as a payload and decodes it: JSON, typed by the handler's own signature.

A `Call` is built once per task type. The submitter encodes arguments with it, the worker decodes
them, and both get an error at once that names the argument that does not fit. Nothing is ever
pickled: a payload is data, and reading it runs no code but the constructors of the annotated types.
"""

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import NoneType
from typing import Any, cast

import msgspec
from msgspec import UNSET

from andon.contract.limits import MAX_PAYLOAD
from andon.model.errors import ConfigurationError, InvalidSubmission
from andon.worker.annotations import annotations_of, check_readable, is_context, name_of
from andon.worker.numbers import NULL, NoNumberFinder

_KINDS = inspect.Parameter
_CHEAP = frozenset({int, str, bool})
"""Types for which `type(value) is annotation` is proof enough that the value fits."""

_ENCODE_ERRORS = (TypeError, ValueError, OverflowError, RecursionError, AttributeError)


class MalformedPayload(ValueError):
    """A payload that the handler's signature cannot take; the message names the path."""


class ResultInvalid(ValueError):
    """A result that does not encode as JSON, or is larger than allowed."""


def _encode_other(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)  # Pydantic, without importing it
    if dump is None:
        raise TypeError(f"A {type(value).__qualname__} has no JSON form.")
    return dump(mode="json")


def _decode_other(annotation: Any, value: Any) -> Any:
    validate = getattr(annotation, "model_validate", None)
    if validate is not None:
        return validate(value)
    if isinstance(annotation, type) and isinstance(value, annotation):
        return value
    raise TypeError(f"A {annotation!r} cannot be made from JSON.")


_encoder = msgspec.json.Encoder(enc_hook=_encode_other)
_numbers = NoNumberFinder(_encode_other)


class Call:
    """The codec of one handler's arguments and result.

    `result_type` is the return annotation (`Any` without one). `context` is the name of the
    parameter that takes the `Context`, which is injected and never submitted, or "".
    """

    def __init__(self, function: Callable[..., Any] | None) -> None:
        """Read the signature; None takes whatever JSON there is (commands, foreign names).

        Raises `ConfigurationError` when an annotation cannot be resolved or decoded.
        """
        self.context = ""
        self.result_type: Any = Any
        self._open = function is None
        self._positional: list[str] = []
        self._positional_only = 0
        self._names: list[str] = []
        self._types: dict[str, Any] = {}
        self._required: set[str] = set()
        self._rest = ""  # name of *args
        self._extra = ""  # name of **kwargs
        if function is not None:
            self._read(function)
        self._fields = tuple(self._names)
        self._cheap = {n: t for n, t in self._types.items() if t in _CHEAP or t is Any}
        only_positions = len(self._positional) == len(self._types)
        self._whole_call = len(self._types) if only_positions else -1
        is_sure = only_positions and all(t in _CHEAP for t in self._types.values())
        self._sure: tuple[Any, ...] | None = None
        self._given: Any = None
        if is_sure:
            self._sure, self._given = self._build_given()
        self._decoder = self._build(function)
        self._positions = self._build_positions()
        self._result = self._build_result(function)

    def _read(self, function: Callable[..., Any]) -> None:
        hints = annotations_of(function)
        self.result_type = hints.get("return", Any)
        for name, parameter in inspect.signature(function).parameters.items():
            annotation = hints.get(name, Any)
            if is_context(annotation):
                if parameter.kind is _KINDS.POSITIONAL_ONLY:
                    raise ConfigurationError(
                        f"{name_of(function)}: parameter {name!r} takes the Context and must be "
                        "usable as a keyword; move the / before it."
                    )
                self.context = name
                continue
            if parameter.kind is _KINDS.VAR_KEYWORD:
                self._extra = name
                self._types[name] = dict[str, annotation]
                continue
            if parameter.kind is _KINDS.VAR_POSITIONAL:
                self._rest = name
                annotation = list[annotation]
            elif parameter.kind is not _KINDS.KEYWORD_ONLY:
                self._positional.append(name)
                self._positional_only += parameter.kind is _KINDS.POSITIONAL_ONLY
            self._names.append(name)
            self._types[name] = annotation
            if parameter.default is parameter.empty and name != self._rest:
                self._required.add(name)

    def _build(self, function: Callable[..., Any] | None) -> msgspec.json.Decoder[Any]:
        if self._open:
            return msgspec.json.Decoder()
        # Parameters may have any name, so the struct's own fields get names that cannot clash.
        fields: list[Any] = []
        rename: dict[str, str] = {}
        for index, name in enumerate(self._names):
            rename[f"p{index}"] = name
            default = () if name in self._required else (UNSET,)
            fields.append((f"p{index}", self._types[name], *default))
        try:
            shape = msgspec.defstruct(
                "Arguments", fields, rename=rename, kw_only=True, forbid_unknown_fields=True
            )
            for annotation in self._types.values():
                check_readable(annotation)
            return msgspec.json.Decoder(shape, dec_hook=_decode_other)
        except (TypeError, NotImplementedError) as error:
            raise ConfigurationError(
                f"{name_of(function)}: its parameters cannot be taken from JSON: {error}"
            ) from error

    def _build_given(self) -> tuple[tuple[Any, ...], Any]:
        """For calls by position alone: the types with which they surely fit, and a struct that
        encodes as the object of their names does, in half the time."""
        names = {f"p{index}": name for index, name in enumerate(self._fields)}
        given = msgspec.defstruct("Given", [(field, Any) for field in names], rename=names)
        return tuple(self._types[name] for name in self._fields), given

    def _build_positions(self) -> msgspec.json.Decoder[Any] | None:
        """For payloads that are arrays, where nothing but positions can be meant."""
        if self._open or self._rest or self._extra or len(self._positional) < len(self._names):
            return None
        fields: list[Any] = []
        for index, name in enumerate(self._names):
            default = () if name in self._required else (UNSET,)
            fields.append((f"p{index}", self._types[name], *default))
        shape = msgspec.defstruct("Positions", fields, array_like=True, forbid_unknown_fields=True)
        return msgspec.json.Decoder(shape, dec_hook=_decode_other)

    def _build_result(self, function: Callable[..., Any] | None) -> msgspec.json.Decoder[Any]:
        if self.result_type is None:
            self.result_type = NoneType
        try:
            check_readable(self.result_type)
            return msgspec.json.Decoder(self.result_type, dec_hook=_decode_other)
        except (TypeError, NotImplementedError) as error:
            raise ConfigurationError(
                f"{name_of(function)}: its result cannot be taken from JSON: {error}"
            ) from error

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its arguments; none where it takes any, or any beside its own."""
        return () if self._open or self._extra else self._fields

    # --- at the submitter ---

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
        """The payload of a call: a JSON object of named parameters.

        Raises `InvalidSubmission`, its `field` the parameter that is missing, unexpected or of
        the wrong type.
        """
        if self._open:
            if args and kwargs:
                raise InvalidSubmission(
                    "Give either positions or keywords: this task's signature is not known here.",
                    field="args",
                )
            return self._dump(list(args) if args else dict(kwargs))
        if not kwargs and tuple(map(type, args)) == self._sure:
            return self._dump(self._given(*args), floats=False)
        named = self._bind(args, kwargs)
        cheap = self._cheap
        for name, value in named.items():
            wanted = cheap.get(name)
            if wanted is not Any and type(value) is not wanted:
                return self._checked(named)
        return self._dump(named)

    def bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The values of a call by the names of their parameters. Raises `InvalidSubmission`."""
        if self._open and args:
            raise InvalidSubmission(
                "Give keywords: this task's signature is not known here.", field="args"
            )
        return dict(kwargs) if self._open else self._bind(args, kwargs)

    def encode_one(self, name: str, value: Any) -> bytes:
        """One argument as JSON, for a call of which others are not known yet. Raises
        `InvalidSubmission`."""
        payload = self._dump({name: value})
        wanted = self.type_of(name)
        try:
            msgspec.json.decode(payload, type=dict[str, wanted], dec_hook=_decode_other)
        except msgspec.DecodeError as error:
            raise InvalidSubmission(f"Argument {name!r}: {error}", field=name) from error
        return bytes(msgspec.json.decode(payload, type=dict[str, msgspec.Raw])[name])

    def type_of(self, name: str) -> Any:
        """What the parameter takes; `Any` where that is not known."""
        return self._types.get(name, Any)

    def _bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        if len(args) == self._whole_call and not kwargs:
            return dict(zip(self._fields, args, strict=True))
        named = dict(zip(self._positional, args, strict=False))
        surplus = args[len(self._positional) :]
        if surplus and not self._rest:
            raise InvalidSubmission(
                f"{len(args)} positional arguments given, at most {len(self._positional)} taken.",
                field="args",
            )
        if surplus:
            named[self._rest] = surplus
        if kwargs:
            positional_only = self._positional[: self._positional_only]
            for name, value in kwargs.items():
                if name in named:
                    raise InvalidSubmission(f"Argument {name!r} is given twice.", field=name)
                known = name in self._types and name not in (self._rest, self._extra)
                if name == self.context or name in positional_only or not (known or self._extra):
                    raise InvalidSubmission(f"Unexpected argument {name!r}.", field=name)
                named[name] = value
        if len(named) < len(self._required) or not self._required <= named.keys():
            missing = next(n for n in self._names if n in self._required and n not in named)
            raise InvalidSubmission(f"Argument {missing!r} is missing.", field=missing)
        return named

    def _checked(self, named: dict[str, Any]) -> bytes:
        payload = self._dump(named)
        try:
            self.decode(payload)
        except MalformedPayload as error:
            at = str(error).partition("`$.")[2].rstrip("`")
            field = at.partition(".")[0].partition("[")[0]
            raise InvalidSubmission(f"Argument {field!r}: {error}", field=field) from error
        return payload

    def _dump(
        self, arguments: dict[str, Any] | list[Any] | msgspec.Struct, *, floats: bool = True
    ) -> bytes:
        """Arguments as JSON; `floats`: whether there may be any among them."""
        try:
            payload = _encoder.encode(arguments)
            if floats and payload.find(NULL) >= 0:  # seldom: most calls are not made to look
                _numbers.check(arguments, payload)
            return payload
        except _ENCODE_ERRORS as error:
            field = _at_fault(arguments)
            raise InvalidSubmission(f"Argument {field!r}: {error}", field=field) from error

    # --- at the worker ---

    def decode(self, payload: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a payload, typed by the annotations.

        An object is keywords, an array positions, any other value one position. Raises
        `MalformedPayload` naming the path that does not fit.
        """
        if self._extra or self._open or payload[:1] != b"{":
            return self._decode_loose(payload)
        try:
            values = msgspec.structs.astuple(self._decoder.decode(payload))
        except (msgspec.DecodeError, RecursionError) as error:
            raise MalformedPayload(str(error)) from error
        if len(self._required) == len(values):
            named = dict(zip(self._fields, values, strict=True))
        else:
            named = {
                name: value
                for name, value in zip(self._fields, values, strict=True)
                if value is not UNSET
            }
        return self._arranged(named) if self._rest or self._positional_only else ((), named)

    def check(self, payload: bytes) -> None:
        """Raise what `decode` would raise, without returning the arguments."""
        if self._positions is not None:
            decoder = self._decoder if payload[:1] == b"{" else self._positions
            with suppress(msgspec.DecodeError, RecursionError):
                decoder.decode(payload)
                return
        self.decode(payload)

    def _decode_loose(self, payload: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Decode a payload that is not an object of exactly the named parameters; this is rare, so
        it may be slow."""
        if self._positions is not None and payload[:1] == b"[":
            # A payload that does not fit is decoded once more below, which names the parameter at
            # fault.
            with suppress(msgspec.DecodeError, RecursionError):
                values = msgspec.structs.astuple(self._positions.decode(payload))
                pairs = zip(self._fields, values, strict=True)
                return self._arranged({n: v for n, v in pairs if v is not UNSET})
        try:
            value: Any = msgspec.json.decode(payload)
            if self._open:
                return _spread(value)
            if isinstance(value, dict):
                given = cast("dict[str, Any]", value)
            else:
                given = self._named(list(_spread(value)[0]))
            known = {n: given[n] for n in self._names if n in given}
            extra = {n: v for n, v in given.items() if n not in known}
            if not self._extra:
                known.update(extra)  # refused by name below
                extra = {}
            values = msgspec.structs.astuple(self._decoder.decode(_encoder.encode(known)))
            if extra:
                extra = msgspec.convert(extra, self._types[self._extra], dec_hook=_decode_other)
        except (msgspec.DecodeError, RecursionError) as error:
            raise MalformedPayload(str(error)) from error
        if self.context and self.context in extra:
            raise MalformedPayload(f"Object contains unknown field `{self.context}`")
        pairs = zip(self._fields, values, strict=True)
        args, kwargs = self._arranged({n: v for n, v in pairs if v is not UNSET})
        return args, {**kwargs, **extra}

    def _named(self, positions: list[Any]) -> dict[str, Any]:
        named = dict(zip(self._positional, positions, strict=False))
        surplus = positions[len(self._positional) :]
        if surplus and not self._rest:
            raise MalformedPayload(
                f"Expected at most {len(self._positional)} positions, got {len(positions)}"
            )
        if surplus:
            named[self._rest] = surplus
        return named

    def _arranged(self, named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Split into positions and keywords where the signature leaves no other way."""
        rest: list[Any] = named.pop(self._rest, [])
        by_position = self._positional if rest else self._positional[: self._positional_only]
        args: list[Any] = []
        for name in by_position:
            if name not in named:
                if rest:
                    raise MalformedPayload(f"Object missing field `{name}` before `{self._rest}`")
                break  # left to its default, as all that follow must be
            args.append(named.pop(name))
        return (*args, *rest), named

    # --- results ---

    @staticmethod
    def encode_result(value: Any, *, limit: int = MAX_PAYLOAD) -> bytes:
        """A handler's result as JSON, at most `limit` bytes. Raises `ResultInvalid`."""
        if value is None:
            return b"null"
        try:
            data = _encoder.encode(value)
            if NULL in data:
                _numbers.check(value, data)
        except _ENCODE_ERRORS as error:
            raise ResultInvalid(f"The result cannot be stored as JSON: {error}") from error
        if len(data) > limit:
            raise ResultInvalid(
                f"The result takes {len(data):,} bytes, the limit is {limit:,}. "
                "Store it elsewhere and return a reference."
            )
        return data

    def decode_result(self, data: bytes | None) -> Any:
        """The result as the handler's return annotation has it; None for a task without one.

        Raises `msgspec.ValidationError` when the stored result is of another type.
        """
        return None if data is None else self._result.decode(data)


def _spread(value: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(value, dict):
        return (), cast("dict[str, Any]", value)
    return (tuple(cast("list[Any]", value)) if isinstance(value, list) else (value,)), {}


def _at_fault(arguments: dict[str, Any] | list[Any] | msgspec.Struct) -> str:
    if isinstance(arguments, msgspec.Struct):
        values = msgspec.structs.astuple(arguments)
        pairs = zip(arguments.__struct_encode_fields__, values, strict=True)
    else:
        pairs = arguments.items() if isinstance(arguments, dict) else enumerate(arguments)
    for name, value in pairs:
        try:
            _numbers.check(value, _encoder.encode(value))
        except _ENCODE_ERRORS:
            return str(name)
    return "args"


ANY_CALL = Call(None)
"""The codec of tasks whose signature is not known here."""
