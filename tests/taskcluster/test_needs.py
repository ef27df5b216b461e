"""What routes need of their callers: the answer without an expression is that of the expression."""

import random

import pytest

from andon.service.taskcluster.face import TABLE
from andon.service.taskcluster.needs import (
    Each,
    Needs,
    Values,
    every,
    expanded,
    is_satisfied,
    places,
    some,
)
from andon.service.taskcluster.trust.scopes import Expression, ScopeSet

TEXTS = ("a", "a/b", "50%", "%s", "<taskId>", "%(taskId)s", "with spaces", "a*")

NEEDS: dict[str, Needs] = {route.name: route.needs for route in TABLE.routes if route.needs} | {
    "nothing at all": every(),
    "none of any": some(),
    "a scope with a percent": "of:100%:<of>",
    "each of some, or another": some(Each("many", "x:<each>:<of>"), "y:<of>", every("z", "w:<of>")),
    "some of each": every(Each("many", "<each>"), some(Each("many", "x:<each>"), "y")),
}


def scopes_in(expression: Expression) -> list[str]:
    if isinstance(expression, str):
        return [expression]
    return [scope for part in expression.parts for scope in scopes_in(part)]


def values_for(needs: Needs, rng: random.Random) -> Values:
    """Each place as a text or as several, as its needs have it."""
    several = {"scopes", "routes", "priorities", "taskIds", "many", "taskQueueIds"}
    return {
        name: rng.sample(TEXTS, rng.randrange(4)) if name in several else rng.choice(TEXTS)
        for name in places(needs)
    }


@pytest.mark.parametrize("name", NEEDS)
def test_whether_needs_are_satisfied_is_what_their_expression_says(name: str) -> None:
    rng, needs, answers = random.Random(name), NEEDS[name], set[bool]()
    for _ in range(200):
        values = values_for(needs, rng)
        expression = expanded(needs, values)
        asked = scopes_in(expression)
        held = rng.sample(asked, rng.randrange(len(asked) + 1))
        if rng.random() < 0.3 and asked:
            held.append(rng.choice(asked)[: rng.randrange(8)] + "*")
        scopes = ScopeSet(held)
        answer = is_satisfied(needs, values, scopes.has)
        assert answer is scopes.satisfies(expression), (values, held)
        assert answer is (scopes.missing(expression) is None)
        answers.add(answer)
    if name not in ("nothing at all", "none of any"):
        assert answers == {True, False}


def test_every_place_of_a_scope_is_filled_in_as_it_stands() -> None:
    needs = every("a:<one>:<two>", Each("many", "<each>:<one>"), "100%")
    values = {"one": "%(two)s", "two": "<one>", "many": ["<each>", "%"]}
    assert scopes_in(expanded(needs, values)) == [
        "a:%(two)s:<one>",
        "<each>:%(two)s",
        "%:%(two)s",
        "100%",
    ]
