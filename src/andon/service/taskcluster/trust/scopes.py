"""Scopes and scope expressions: what a route needs, and what a caller has. Pure.

A scope is a text of printable ASCII, spaces among it. A held scope that ends in `*` is a pattern
and satisfies every scope that begins with what stands before the star; any other satisfies its
equal alone. A route needs an expression: a scope, `AllOf` some, or `AnyOf` some.
"""

import re
from collections.abc import Iterable
from typing import Any, TypeAlias

EVERYTHING = "*"
"""The pattern that satisfies every scope."""

_SCOPE = re.compile(r"[\x20-\x7e]*\Z")


class _Some:
    """Some expressions, equal to those of the same kind and parts."""

    __slots__ = ("parts",)

    def __init__(self, *parts: "Expression") -> None:
        self.parts = parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Some) and type(other) is type(self) and other.parts == self.parts

    def __hash__(self) -> int:
        return hash((type(self), self.parts))

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self.parts!r}"


class AllOf(_Some):
    """Every one of some expressions; of none at all: true."""

    __slots__ = ()


class AnyOf(_Some):
    """One at least of some expressions; of none at all: false."""

    __slots__ = ()


Expression: TypeAlias = str | AllOf | AnyOf
"""What a route asks for."""


class ScopeSet:
    """The scopes of a caller, indexed so that a check costs no loop over them."""

    __slots__ = ("_exact", "_prefixes", "held")

    def __init__(self, held: Iterable[str]) -> None:
        self.held = tuple(held)
        self._exact = frozenset(scope for scope in self.held if not scope.endswith("*"))
        self._prefixes = tuple(scope[:-1] for scope in self.held if scope.endswith("*"))

    def has(self, scope: str) -> bool:
        """Whether one of them satisfies this scope."""
        return scope in self._exact or scope.startswith(self._prefixes)

    def satisfies(self, expression: Expression) -> bool:
        """Whether they satisfy an expression."""
        if isinstance(expression, str):
            return self.has(expression)
        if isinstance(expression, AllOf):
            return all(self.satisfies(part) for part in expression.parts)
        return any(self.satisfies(part) for part in expression.parts)

    def missing(self, expression: Expression) -> Expression | None:
        """What of an expression they do not satisfy; None if they satisfy it.

        Of `AllOf` only the parts that are not satisfied remain, of `AnyOf` all of them.
        """
        if isinstance(expression, str):
            return None if self.has(expression) else expression
        if isinstance(expression, AllOf):
            left = [part for part in map(self.missing, expression.parts) if part is not None]
            if len(left) < 2:
                return left[0] if left else None
            return AllOf(*left)
        left = [self.missing(part) for part in expression.parts]
        if any(part is None for part in left):
            return None
        return left[0] if len(left) == 1 else AnyOf(*(part for part in left if part is not None))


def document_of(expression: Expression) -> Any:
    """An expression as JSON has it: a string, `{"AllOf": […]}` or `{"AnyOf": […]}`."""
    if isinstance(expression, str):
        return expression
    return {type(expression).__name__: [document_of(part) for part in expression.parts]}


def is_scope(value: object) -> bool:
    """Whether it is a text that can be a scope: printable ASCII, spaces among it."""
    return isinstance(value, str) and _SCOPE.match(value) is not None
