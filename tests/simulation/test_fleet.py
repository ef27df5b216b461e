"""Fifty courses of a fleet in which everything goes wrong; each is replayed by its seed.

ANDON_SIMULATE=4711 make test TESTS=tests/simulation          one seed
ANDON_SIMULATE=0-2000 make test TESTS=tests/simulation        a night
"""

import os

import pytest

from andon.testing.simulator import simulate


def seeds() -> range:
    first, _, last = os.environ.get("ANDON_SIMULATE", "0-49").partition("-")
    return range(int(first), int(last or first) + 1)


@pytest.mark.parametrize("seed", seeds())
def test_the_ledger_balances(seed: int) -> None:
    course = simulate(seed)
    assert course.ledger.moves["claim"]
    assert course.ledger.moves["complete"]
    assert course.ledger.moves["recur"]
    assert course.borne.occurrences
    assert course.borne.follow_ups
    assert course.borne.fanned_out


def test_a_seed_takes_the_same_course_again() -> None:
    one, other = simulate(7), simulate(7)
    assert one.ledger.moves == other.ledger.moves
    assert one.virtual_s == other.virtual_s
