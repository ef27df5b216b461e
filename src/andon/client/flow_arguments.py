"""Results of other tasks as arguments: the placeholders in a flow's calls.

For a type checker a placeholder is the result itself; here it is a name for it, and a call that has
some is encoded with what `andon.lifecycle.placeholders` writes in their places.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, Protocol, cast, get_args

import msgspec

from andon.lifecycle import placeholders
from andon.model.errors import InvalidSubmission
from andon.model.headers import RESULTS_HEADER
from andon.worker.calls import Call
from andon.worker.fitting import any_of, misfit


class Source(Protocol):
    """A task whose result may be an argument."""

    @property
    def id(self) -> str:
        """The id that the task will have."""
        ...

    @property
    def flow(self) -> Any:
        """The flow that it is part of."""
        ...

    @property
    def codec(self) -> Call:
        """The codec of its arguments and result."""
        ...


class Result:
    """Stands for the result of one task, or for the list of the results of several."""

    __slots__ = ("is_list", "sources")

    def __init__(self, sources: Sequence[Source], *, is_list: bool) -> None:
        self.sources = tuple(sources)
        self.is_list = is_list

    def __repr__(self) -> str:
        named = ", ".join(source.id for source in self.sources[:3])
        return f"<the result of {named}{', …' if len(self.sources) > 3 else ''}>"

    def model_dump(self, *, mode: str) -> NoReturn:
        """Called by the encoder of calls outside a flow, which refuses placeholders."""
        raise TypeError(f"{self!r} is known only when that has run. Add this call with flow.add().")

    @property
    def annotation(self) -> Any:
        """The type of the result by the handlers' annotations."""
        each = [source.codec.result_type for source in self.sources]
        return list[any_of(each)] if self.is_list else each[0]


class Encoded(NamedTuple):
    """A call in which some arguments are not known yet."""

    payload: bytes
    parents: tuple[str, ...]  #: whose results it is to be given, in the order that it goes by
    headers: dict[str, str]


def has_results(values: Any) -> bool:
    """Whether a value is a placeholder, or holds one."""
    if isinstance(values, Result):
        return True
    if isinstance(values, list | tuple):
        return any(map(has_results, cast("Sequence[Any]", values)))
    if isinstance(values, dict):
        return any(map(has_results, cast("dict[Any, Any]", values).values()))
    return False


def encode(codec: Call, flow: object, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Encoded:
    """A call with placeholders. Raises `InvalidSubmission` naming the argument that does not fit,
    or that is no result of a task of this flow."""
    named = codec.bound(args, kwargs)
    waiting = {name: value for name, value in named.items() if has_results(value)}
    for name, value in waiting.items():
        _check(codec, flow, name, value)
    places = _Places(list(waiting.values()))
    whole: dict[str, Any] = {}
    for name, value in named.items():
        if name in waiting:
            if "," in name:
                raise InvalidSubmission(f"Argument {name!r} has a comma in its name.", field=name)
            whole[name] = places.written(value)
        else:
            whole[name] = msgspec.Raw(codec.encode_one(name, value))
    headers = {RESULTS_HEADER: ",".join(waiting)}
    return Encoded(msgspec.json.encode(whole), tuple(places.order), headers)


def _check(codec: Call, flow: object, name: str, value: Any) -> None:
    for found in _results_in(value):
        for source in found.sources:
            if source.flow is not flow:
                raise InvalidSubmission(
                    f"Argument {name!r} is the result of {source.id!r}, which is of another flow. "
                    "Results are passed within one flow; wait for those of others, or add the "
                    "task here.",
                    field=name,
                )
    if isinstance(value, Result) and misfit(value.annotation, codec.type_of(name)):
        raise InvalidSubmission(
            f"Argument {name!r} takes {_shown(codec.type_of(name))}, and {value!r} is "
            f"{_shown(value.annotation)}.",
            field=name,
        )


def _results_in(value: Any) -> list[Result]:
    if isinstance(value, Result):
        return [value]
    parts: Sequence[Any] = ()
    if isinstance(value, list | tuple):
        parts = cast("Sequence[Any]", value)
    elif isinstance(value, dict):
        parts = list(cast("dict[Any, Any]", value).values())
    return [found for part in parts for found in _results_in(part)]


class _Places:
    """The positions of results among all dependencies of a task."""

    def __init__(self, values: list[Any]) -> None:
        found = [one for value in values for one in _results_in(value)]
        lists = [one for one in found if one.is_list]
        singles = [one for one in found if not one.is_list]
        self.order: dict[str, int] = {}
        for one in (*lists, *singles):  # so that each list stands in one piece, mostly
            for source in one.sources:
                self.order.setdefault(source.id, len(self.order))

    def written(self, value: Any) -> Any:
        """The value with what stands for results."""
        if isinstance(value, Result):
            ids = [source.id for source in value.sources]
            if not value.is_list:
                return placeholders.one(ids[0])
            first = self.order[ids[0]] if ids else 0
            if all(self.order[one] == first + place for place, one in enumerate(ids)):
                return placeholders.many(first, len(ids))
            return [placeholders.one(one) for one in ids]
        if isinstance(value, list | tuple):
            return [self.written(part) for part in cast("Sequence[Any]", value)]
        if isinstance(value, dict):
            return {n: self.written(part) for n, part in cast("dict[str, Any]", value).items()}
        return value


def _shown(annotation: Any) -> str:
    if isinstance(annotation, type) and not get_args(annotation):
        return annotation.__name__
    return str(annotation).replace("typing.", "")
