"""Arguments and results are one value in JSON, within bounds, or are shown as what they are."""

import random
from typing import Any

import msgspec
import pytest

from andon.lifecycle import payloads
from andon.lifecycle.payloads import MOST_NESTED


def nested(depth: int, kinds: str = "[") -> bytes:
    opened = [kinds[n % len(kinds)] for n in range(depth)]
    return (
        "".join('{"a":' if kind == "{" else "[" for kind in opened)
        + '"]}[{\\"]"'
        + "".join("}" if kind == "{" else "]" for kind in reversed(opened))
    ).encode()


@pytest.mark.parametrize("kinds", ["[", "{", "[{", "{[["])
def test_what_is_nested_within_the_bound_is_taken_and_one_level_more_is_not(kinds: str):
    assert payloads.is_json(nested(MOST_NESTED, kinds))
    with pytest.raises(ValueError, match="nested"):
        payloads.parse(nested(MOST_NESTED + 1, kinds))


def test_many_beside_one_another_are_not_deep():
    rows = msgspec.json.encode({"rows": [{"a": [n, {"b": "[[[{{{"}]} for n in range(5_000)]})
    assert payloads.parse(rows)["rows"][0] == {"a": [0, {"b": "[[[{{{"}]}


def test_the_deepest_of_many_counts():
    deep = b"[" + b",".join([b"[]"] * 600 + [nested(MOST_NESTED, "{[")]) + b"]"
    assert not payloads.is_json(deep)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"nonsense", b"1 2", b'"\xff"', b"NaN", b"1e999", b"[" * 100_000, b'"\\ud800"'],
    ids=lambda body: body[:10].decode("latin-1"),
)
def test_what_is_no_json_is_said_to_be_none_and_shown_as_it_is(body: bytes):
    assert not payloads.is_json(body)
    shown = payloads.shown(body)
    assert shown["bytes"] == len(body)
    assert msgspec.json.encode(shown)


def test_the_depth_is_that_of_the_value():
    def depth(value: Any) -> int:
        parts = value.values() if isinstance(value, dict) else value
        if not isinstance(value, dict | list):
            return 0
        return 1 + max(map(depth, parts), default=0)

    def made(generator: random.Random, left: int) -> Any:
        kind = generator.randrange(4) if left else 3
        if kind == 3:
            return generator.choice([1, None, "]", '"', "\\", "}{", '\\"'])
        parts = [made(generator, left - 1) for _ in range(generator.randrange(4))]
        return parts if kind else {f"{n}[": part for n, part in enumerate(parts)}

    generator = random.Random(36)
    for _ in range(300):
        value = made(generator, 8)
        body = msgspec.json.encode(value)
        levels = depth(value)
        assert not payloads._is_nested_beyond(body, levels)
        assert not levels or payloads._is_nested_beyond(body, levels - 1)
