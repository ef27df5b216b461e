"""The delays of docs/rulings.md, R16, clamped before anything overflows."""

from typing import Any

import pytest
from msgspec.structs import replace

from andon.lifecycle.delays import CHORIA_10M, retry_delay
from andon.model.policy import Backoff, Policy

HUGE = 10**9


def delay(retry: int, random: float = 0.0, **policy: Any) -> float | None:
    """The delay in seconds; unclamped unless told."""
    fields = {"max_retry_delay": 1e9, **policy}
    milliseconds = retry_delay(replace(Policy(), **fields), retry, lambda: random)
    return None if milliseconds is None else milliseconds / 1000


@pytest.mark.parametrize(
    ("backoff", "seconds"),
    [
        (Backoff.CONSTANT, [30, 30, 30, 30]),
        (Backoff.LINEAR, [30, 60, 90, 120]),
        (Backoff.EXPONENTIAL, [30, 60, 120, 240]),
        (Backoff.CUSTOM, [30, 30, 30, 30]),
    ],
)
def test_delays_grow_by_their_formula(backoff: Backoff, seconds: list[int]) -> None:
    assert [delay(n, retry_delay=30.0, backoff=backoff) for n in (1, 2, 3, 4)] == seconds


def test_jitter_is_uniform_below_the_exponential() -> None:
    def at(random: float) -> list[float | None]:
        policy: dict[str, Any] = {"retry_delay": 4.0, "backoff": Backoff.EXPONENTIAL_JITTER}
        return [delay(n, random, **policy) for n in (1, 2, 3)]

    assert at(0.0) == [0, 0, 0]
    assert at(0.5) == [2, 4, 8]


def test_jitter_is_taken_below_the_clamp_not_clamped_after() -> None:
    policy: dict[str, Any] = {"retry_delay": 4.0, "backoff": Backoff.EXPONENTIAL_JITTER}
    assert delay(HUGE, 0.5, **policy, max_retry_delay=100.0) == 50


@pytest.mark.parametrize(("retry", "least", "most"), [(1, 15, 44), (2, 16, 74), (5, 271, 416)])
def test_polynomial_is_asynqs(retry: int, least: int, most: int) -> None:
    assert delay(retry, 0.0, backoff=Backoff.POLYNOMIAL) == least
    assert delay(retry, 0.9999, backoff=Backoff.POLYNOMIAL) == most


def test_steps_are_chorias_table_by_default() -> None:
    assert len(CHORIA_10M) == 50
    assert (CHORIA_10M[0], CHORIA_10M[1]) == (60, 70.8)
    assert delay(1, 0.0, backoff=Backoff.STEPS) == pytest.approx(0.9 * 70.8)
    assert delay(1, 0.5, backoff=Backoff.STEPS) == pytest.approx(1.4 * 70.8)
    last = 60 + 10.8 * 49
    assert delay(49, 0.0, backoff=Backoff.STEPS) == pytest.approx(0.9 * last)
    assert delay(HUGE, 0.0, backoff=Backoff.STEPS) == pytest.approx(0.9 * last)


def test_steps_of_ones_own_are_taken_in_turn_and_the_last_repeats() -> None:
    steps = (1.0, 5.0, 10.0)
    delays = [delay(n, 0.7, backoff=Backoff.STEPS, steps=steps) for n in (1, 2, 3, 4, HUGE)]
    assert delays == [1, 5, 10, 10, 10]


@pytest.mark.parametrize("backoff", list(Backoff))
def test_a_huge_number_of_retries_does_not_overflow(backoff: Backoff) -> None:
    for random in (0.0, 0.999):
        seconds = delay(HUGE, random, retry_delay=5.0, backoff=backoff, max_retry_delay=3600.0)
        assert seconds is not None
        assert 0 <= seconds <= 3600


@pytest.mark.parametrize("backoff", list(Backoff))
def test_every_delay_is_clamped(backoff: Backoff) -> None:
    seconds = delay(10, 0.9, retry_delay=1e6, backoff=backoff, max_retry_delay=7.0)
    assert seconds is not None
    assert seconds <= 7


def test_no_delay_is_not_a_delay_of_zero() -> None:
    assert delay(1, retry_delay=None) is None
    assert delay(1, retry_delay=0.0) == 0


@pytest.mark.parametrize("backoff", [Backoff.POLYNOMIAL, Backoff.STEPS])
def test_formulas_without_a_base_need_no_delay(backoff: Backoff) -> None:
    assert delay(1, retry_delay=None, backoff=backoff) is not None


def test_the_first_linear_delay_is_not_zero() -> None:
    assert delay(1, retry_delay=10.0, backoff=Backoff.LINEAR) == 10
