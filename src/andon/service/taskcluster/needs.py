"""The scopes that routes need: scope expressions with placeholders for values of the request.

They are data: a text with places such as `queue:get-task:<taskId>`, `Every` of some, `Some` of
some, and `Each`, one text for each of several values. `expanded` fills in the places. Pure.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple, TypeAlias

from andon.service.taskcluster.trust.scopes import AllOf, AnyOf, Expression

_PLACE = re.compile(r"<([A-Za-z]+)>")
_EACH = "each"


class Each(NamedTuple):
    """One scope for each of some values, which stands at `<each>`; other places are the same."""

    of: str  #: name of the values
    scope: str


class Every(NamedTuple):
    """All of them."""

    parts: "tuple[Needs, ...]"


class Some(NamedTuple):
    """One of them at least."""

    parts: "tuple[Needs, ...]"


Needs: TypeAlias = str | Each | Every | Some
"""What a route needs."""

Values: TypeAlias = Mapping[str, str | Sequence[str]]
"""The values for the places: a text, or for `Each` several."""


def every(*parts: Needs) -> Every:
    """All of some."""
    return Every(parts)


def some(*parts: Needs) -> Some:
    """One of some at least."""
    return Some(parts)


def places(needs: Needs) -> frozenset[str]:
    """The names of all that has to be filled in."""
    if isinstance(needs, str):
        return frozenset(_PLACE.findall(needs))
    if isinstance(needs, Each):
        return (places(needs.scope) - {_EACH}) | {needs.of}
    return frozenset(place for part in needs.parts for place in places(part))


def expanded(needs: Needs, values: Values) -> Expression:
    """The expression, with every place filled in."""
    if isinstance(needs, str):
        return _filled(needs, values)
    if isinstance(needs, Each):
        return AllOf(*_one_each(needs, values))
    parts: list[Expression] = []
    for part in needs.parts:
        if isinstance(part, Each):
            parts += _one_each(part, values)
        else:
            parts.append(expanded(part, values))
    return AllOf(*parts) if isinstance(needs, Every) else AnyOf(*parts)


def is_satisfied(needs: Needs, values: Values, has: Callable[[str], bool]) -> bool:
    """Whether a caller with the scopes of `has` satisfies the expression. The same as `expanded`
    and `ScopeSet.satisfies` together, without making an expression."""
    if isinstance(needs, str):
        return has(_format(needs) % values)
    if isinstance(needs, Each):
        return all(map(has, _one_each(needs, values)))
    wanted = isinstance(needs, Some)
    for part in needs.parts:
        if isinstance(part, Each):
            combined = any if wanted else all
            if values[part.of] and combined(map(has, _one_each(part, values))) is wanted:
                return wanted
        elif is_satisfied(part, values, has) is wanted:
            return wanted
    return not wanted


def _one_each(needs: Each, values: Values) -> Iterator[str]:
    """The scopes, made as they are asked for."""
    several = values[needs.of]
    if not several:
        return
    each = dict(values)
    for value in several:
        each[_EACH] = value
        yield _filled(needs.scope, each)


def _filled(scope: str, values: Values) -> str:
    return _format(scope) % values


@cache
def _format(scope: str) -> str:
    """The text with its places as the operator `%` fills them in. Routes have so many."""
    return _PLACE.sub(r"%(\1)s", scope.replace("%", "%%"))
