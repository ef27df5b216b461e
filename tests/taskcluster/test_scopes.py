"""Scopes and scope expressions of the Taskcluster face."""

import pytest

from andon.service.taskcluster.trust.caller import OPEN, Caller
from andon.service.taskcluster.trust.scopes import (
    AllOf,
    AnyOf,
    Expression,
    ScopeSet,
    document_of,
    is_scope,
)


@pytest.mark.parametrize(
    ("held", "wanted", "answer"),
    [
        ("queue:ping", "queue:ping", True),
        ("queue:ping", "queue:ping2", False),
        ("queue:ping", "queue:pin", False),
        ("queue:*", "queue:ping", True),
        ("queue:*", "queue:", True),
        ("queue:*", "queue", False),
        ("queue:*", "queue:*", True),
        ("queue:*", "queue:**", True),
        ("queue:a", "queue:*", False),  # a pattern is asked for, and one of its scopes is held
        ("queue:*:b", "queue:a:b", False),  # a star inside is an ordinary character
        ("queue:**", "queue:a", False),  # which begins with `queue:*`
        ("queue:**", "queue:*", True),
        ("*", "", True),
        ("*", "with spaces in it", True),
        ("", "", True),
        ("", "x", False),
        ("Queue:a", "queue:a", False),
    ],
)
def test_a_pattern_satisfies_its_equal_and_what_begins_as_it_does(
    held: str, wanted: str, answer: bool
) -> None:
    assert ScopeSet([held]).has(wanted) is answer


@pytest.mark.parametrize(
    ("expression", "missing"),
    [
        ("a", None),
        ("x", "x"),
        (AllOf(), None),
        (AnyOf(), AnyOf()),
        (AllOf("a", "b"), None),
        (AllOf("a", "x"), "x"),
        (AllOf("x", "a", "y"), AllOf("x", "y")),
        (AnyOf("x", "a"), None),
        (AnyOf("x", "y"), AnyOf("x", "y")),
        (AnyOf("x"), "x"),
        (AnyOf(AllOf("a", "x"), "y"), AnyOf("x", "y")),
        (AllOf(AnyOf("a", "x"), AnyOf("y", "z")), AnyOf("y", "z")),
        (AllOf(AnyOf()), AnyOf()),
        (AnyOf(AllOf()), None),
    ],
)
def test_what_is_missing_of_an_expression_is_what_is_not_satisfied(
    expression: Expression, missing: Expression | None
) -> None:
    held = ScopeSet(["a", "b"])
    assert held.missing(expression) == missing
    assert held.satisfies(expression) is (missing is None)


def test_nobody_with_no_scopes_satisfies_anything_but_nothing() -> None:
    nobody = Caller("", ())
    assert nobody.satisfies(AllOf())
    assert not nobody.satisfies("")
    assert not nobody.satisfies("a")


def test_the_open_caller_satisfies_everything_that_can_be_satisfied() -> None:
    assert OPEN.satisfies(AllOf("a", AnyOf("b", "c"), "queue:x y"))
    assert not OPEN.satisfies(AnyOf())


def test_an_expression_has_the_form_of_the_public_one() -> None:
    assert document_of(AllOf("a", AnyOf("b", AllOf()))) == {
        "AllOf": ["a", {"AnyOf": ["b", {"AllOf": []}]}]
    }


@pytest.mark.parametrize(
    ("value", "answer"),
    [("", True), ("a b~", True), ("a\n", False), ("a\x7f", False), ("é", False), (7, False)],
)
def test_a_scope_is_printable_ascii(value: object, answer: bool) -> None:
    assert is_scope(value) is answer
