"""NaN and the infinities, which JSON has not, are refused with their place (docs/rulings.md, R24):
an encoder writes null for them."""

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from andon.model.errors import InvalidSubmission
from andon.worker.calls import Call, ResultInvalid

NAN, INF = math.nan, math.inf


@dataclass
class Point:
    x: float
    y: float | None = None


class Shape(msgspec.Struct):
    points: list[Point]
    name: str | None = None


class Model:
    """What Pydantic's models look like from here."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def model_dump(self, mode: str) -> dict[str, Any]:
        assert mode == "json"
        return self.fields


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (NAN, "$ is nan"),
        (INF, "$ is inf"),
        (-INF, "$ is -inf"),
        ([1, None, NAN], "$[2] is nan"),
        ({"a": {"b": (1.0, INF)}}, "$.a.b[1] is inf"),
        (Point(1.0, NAN), "$.y is nan"),
        (Shape([Point(1.0), Point(-INF)]), "$.points[1].x is -inf"),
        (Model(a=[NAN]), "$.a[0] is nan"),
        ({"null": "null", "big": 2**80, "x": NAN}, "$.x is nan"),
    ],
    ids=lambda part: type(part).__name__,
)
def test_a_result_that_holds_one_is_refused(value: Any, place: str):
    with pytest.raises(ResultInvalid, match=r"\$") as refused:
        Call.encode_result(value)
    assert place in str(refused.value)


@pytest.mark.parametrize(
    "value",
    [
        None,
        [None, 1.5],
        {"null": "nan", "b": b"\xcb\x7f\xf8"},
        Shape([Point(1.0)]),
        Model(a=None),
        2**80,
        [None, 2**80, Decimal("NaN")],
        msgspec.Raw(b"[null]"),
        {"raw": msgspec.Raw(b"null")},
        "\u00cb\x7f\u00f0 null",
    ],
    ids=lambda part: type(part).__name__,
)
def test_a_result_that_holds_none_is_kept(value: Any):
    assert msgspec.json.decode(Call.encode_result(value)) is not ...


def test_an_argument_that_holds_one_is_refused_by_its_name():
    def handler(a: int, b: float = 0.0, *, c: Any = None) -> None: ...

    call = Call(handler)
    for args, kwargs, field in (
        ((1, NAN), {}, "b"),
        ((1,), {"c": [None, {"d": INF}]}, "c"),
        ((1, None), {"c": -INF}, "c"),
    ):
        with pytest.raises(InvalidSubmission) as refused:
            call.encode(args, kwargs)  # type: ignore[arg-type]
        assert refused.value.field == field
    assert call.encode((1,), {"c": None}) == b'{"a":1,"c":null}'


def test_an_argument_for_code_elsewhere_is_refused_by_its_place():
    elsewhere = Call(None)
    with pytest.raises(InvalidSubmission) as refused:
        elsewhere.encode((1, NAN), {})
    assert refused.value.field == "1"
