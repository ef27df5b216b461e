"""Types of option values: durations, moments, priorities, rates."""

from typing import Any

import click

from andon.model.durations import seconds_of
from andon.model.moments import When, when_of
from andon.model.rates import rate_of

__all__ = ["When", "seconds_of", "when_of"]


class Typed(click.ParamType[Any]):
    """A type made of a function that raises `ValueError` with a sentence."""

    def __init__(self, name: str, convert: Any, *, clears: bool = False) -> None:
        self.name = name
        self._convert = convert
        self._clears = clears

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value, or a usage error."""
        if not isinstance(value, str):
            return value
        if self._clears and value == "none":
            return CLEARED
        try:
            return self._convert(value)
        except ValueError as error:
            text = str(error)
            self.fail(text if text.endswith(".") else f"{value!r} is no {self.name}.", param, ctx)


class _Cleared:
    def __repr__(self) -> str:
        return "none"


CLEARED = _Cleared()
"""Stands for `none`: take the setting away."""


def cleared(value: Any) -> Any:
    """The value to store: None where the user wrote `none`."""
    return None if value is CLEARED else value


DURATION = Typed("duration", seconds_of)
WHEN = Typed("time", when_of)
COUNT_OR_NONE = Typed("number", int, clears=True)
RATE_OR_NONE = Typed("rate", rate_of, clears=True)
DURATION_OR_NONE = Typed("duration", seconds_of, clears=True)
WHEN_OR_NONE = Typed("time", when_of, clears=True)


def comma_separated(texts: tuple[str, ...]) -> tuple[str, ...]:
    """`a,b` and repeated options alike, each once. A text without a name is a usage error
    (docs/rulings.md, R35)."""
    parts: list[str] = []
    for text in texts:
        named = [part.strip() for part in text.split(",") if part.strip()]
        if named:
            parts += named
            continue
        raise click.UsageError(
            'An empty name ("") was given, perhaps by a variable that is not set; '
            "leave the option out if there is none."
        )
    return tuple(dict.fromkeys(parts))
