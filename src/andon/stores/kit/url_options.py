"""Options in the URL of a store, as its query has them."""

from collections.abc import Mapping

from andon.model.errors import ConfigurationError
from andon.model.urls import shown

MAX_EVENTS = 1_000_000
"""Events that the log keeps where the URL does not say how many (docs/rulings.md, R12)."""


def number(url: str, options: Mapping[str, str], name: str, most: int) -> int | None:
    """A number from 1 on, or None where the option is not given. Raises `ConfigurationError`."""
    text = options.get(name)
    if text is None:
        return None
    if not (text.isdecimal() and 1 <= int(text) <= most):
        raise ConfigurationError(
            f"{shown(url)!r}: {name} is a number from 1 to {most}, not {text!r}."
        )
    return int(text)
