"""Pauses before something that failed is tried again."""

import random

from hypothesis import given
from hypothesis import strategies as st

from andon.lifecycle.backoff import ExponentialBackoff

BACKOFF = ExponentialBackoff(0.02, 1.0)


def test_pauses_double_with_each_failure_up_to_the_longest() -> None:
    assert [BACKOFF.bound(n) for n in range(1, 9)] == [
        0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0,
    ]  # fmt: skip


@given(failures=st.integers(1, 10**9), seed=st.integers())
def test_half_of_a_pause_is_random(failures: int, seed: int) -> None:
    bound = BACKOFF.bound(failures)
    assert bound / 2 <= BACKOFF.pause(failures, random.Random(seed)) <= bound <= 1.0


def test_those_that_failed_together_come_back_apart() -> None:
    rng = random.Random(7)
    assert len({BACKOFF.pause(3, rng) for _ in range(100)}) == 100
