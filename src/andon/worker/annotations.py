"""Reads the annotations of a handler, and checks that JSON can be decoded to each."""

import inspect
from collections.abc import Callable
from typing import Any, cast, get_args, get_type_hints

from msgspec import inspect as types

from andon.model.errors import ConfigurationError
from andon.worker.context import Context


def annotations_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations by parameter name, and `return`.

    Raises `ConfigurationError` when one names something that is not there at run time.
    """
    target: Any = inspect.unwrap(function)
    while hasattr(target, "func"):  # functools.partial
        target = target.func
    if not inspect.isroutine(target):
        target = type(target).__call__
    try:
        names: dict[str, Any] = {}
        if inspect.isfunction(target):
            names.update(inspect.getclosurevars(target).nonlocals)
        return get_type_hints(target, localns=names, include_extras=True)
    except Exception as error:
        raise ConfigurationError(
            f"{name_of(function)}: an annotation cannot be resolved: {error}. "
            "Import it at run time, not under TYPE_CHECKING."
        ) from error


def is_context(annotation: Any) -> bool:
    """Whether the parameter takes the `Context`, also as `Context | None`."""
    return annotation is Context or Context in get_args(annotation)


def check_readable(annotation: Any) -> None:
    """Raise `TypeError` for a type that neither msgspec nor the type itself makes from JSON."""
    seen: set[int] = set()
    waiting: list[Any] = [types.type_info(annotation)]
    while waiting:
        found = waiting.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        if isinstance(found, types.CustomType) and not _reads_itself(found.cls):
            raise TypeError(f"a {found.cls.__qualname__} has no JSON form")
        for name in getattr(found, "__struct_fields__", ()):
            part = getattr(found, name)
            parts = cast("tuple[Any, ...]", part if isinstance(part, tuple) else (part,))
            waiting.extend(p for p in parts if isinstance(p, types.Type | types.Field))


def _reads_itself(kind: Any) -> bool:
    # Pydantic's models, without importing it; `object` takes any JSON value as it is.
    return kind is object or hasattr(kind, "model_validate")


def name_of(function: Callable[..., Any] | None) -> str:
    """The name of a handler in messages."""
    return getattr(function, "__qualname__", repr(function))
