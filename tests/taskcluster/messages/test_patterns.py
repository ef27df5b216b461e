"""Patterns of routing keys, as topic exchanges of AMQP have them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.service.taskcluster.messages.exchanges import Exchange, Message, exchange_named
from andon.service.taskcluster.messages.patterns import Binding, check_pattern, fits, wants

CASES = [
    ("#", "a.b.c", True),
    ("#", "a", True),
    ("a.b.c", "a.b.c", True),
    ("a.b.c", "a.b", False),
    ("a.b", "a.b.c", False),
    ("a.*.c", "a.b.c", True),
    ("a.*.c", "a.c", False),
    ("a.*.c", "a.b.b.c", False),
    ("a.#", "a", True),
    ("a.#", "a.b.c", True),
    ("a.#", "b.c", False),
    ("#.c", "c", True),
    ("#.c", "a.b.c", True),
    ("#.c", "a.c.b", False),
    ("a.#.c", "a.c", True),
    ("a.#.c", "a.b.b.c", True),
    ("a.#.c.#", "a.c.b", True),
    ("#.#", "a", True),
    ("*", "a.b", False),
    ("*.#", "a.b", True),
    ("*.#.*", "a", False),
    ("*.#.*", "a.b", True),
    ("primary.t1.#", "primary.t1.0._._.p.w.s.g._", True),
    ("primary.*.*.*.*.p.w.#", "primary.t1.0._._.p.w.s.g._", True),
    ("route.index.#", "primary.t1.0._._.p.w.s.g._", False),
]


@pytest.mark.parametrize(("pattern", "key", "expected"), CASES)
def test_a_pattern_fits_as_a_broker_says(pattern: str, key: str, expected: bool):
    assert fits(pattern, key) is expected


_WORDS = st.lists(st.sampled_from("ab"), min_size=1, max_size=6).map(".".join)
_PATTERNS = st.lists(st.sampled_from(["a", "b", "*", "#"]), min_size=1, max_size=6)


def _slowly(pattern: list[str], words: list[str]) -> bool:
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(_slowly(pattern[1:], words[n:]) for n in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and _slowly(pattern[1:], words[1:])


@given(_PATTERNS, _WORDS)
def test_it_fits_exactly_where_the_plain_definition_says_so(pattern: list[str], key: str):
    assert fits(".".join(pattern), key) is _slowly(pattern, key.split("."))


def test_a_long_pattern_costs_little():
    assert not fits(".".join(["#", "a"] * 60), ".".join(["a"] * 59 + ["b"]))


def test_a_message_is_wanted_by_any_of_its_keys_and_only_in_its_exchange():
    message = Message(
        exchange=Exchange.TASK_FAILED,
        id="1",
        at=1,
        lane="t",
        routing_key="primary.t",
        routes=("route.index.a",),
        document={},
    )
    assert Binding(Exchange.TASK_FAILED, "route.#").admits(message)
    assert Binding(Exchange.TASK_FAILED, "primary.*").admits(message)
    assert not Binding(Exchange.TASK_COMPLETED).admits(message)
    assert wants([Binding(Exchange.TASK_COMPLETED), Binding(Exchange.TASK_FAILED)], message)
    assert not wants([], message)


def test_names_and_patterns_that_are_none_are_refused():
    for name in ("task-failed", "exchange/taskcluster-queue/v1/task-failed"):
        assert exchange_named(name) is Exchange.TASK_FAILED
    for name in ("", "task-exploded", "exchange/taskcluster-auth/v1/task-failed"):
        with pytest.raises(ValueError, match=r"."):
            exchange_named(name)
    for pattern in ("", "x" * 256):
        with pytest.raises(ValueError, match="1 to 255"):
            check_pattern(pattern)
