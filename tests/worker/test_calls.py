"""Arguments and results travel as JSON, typed by the handler's signature."""

import enum
import inspect
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from andon.model.errors import ConfigurationError, InvalidSubmission
from andon.worker.calls import Call, MalformedPayload, ResultInvalid
from andon.worker.context import Context


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: int = 0


@dataclass
class Holder:
    path: Path


@dataclass
class Tree:
    children: "list[Tree]"


class Item(msgspec.Struct):
    name: str


class Model:
    """What Pydantic's models look like from outside."""

    def __init__(self, size: int) -> None:
        self.size = size

    def model_dump(self, *, mode: str) -> dict[str, int]:
        assert mode == "json"
        return {"size": self.size}

    @classmethod
    def model_validate(cls, value: Any) -> "Model":
        if not isinstance(value, dict) or not isinstance(value.get("size"), int):
            raise ValueError("size must be a number")
        return cls(value["size"])


def plain(a: int, b: str = "x", *, c: bool = False) -> None: ...
def rich(p: Point, when: datetime, id: uuid.UUID, colour: Colour, items: list[Item]) -> None: ...
def untyped(a, b=None): ...
def with_context(ctx: Context, a: int) -> None: ...
def with_optional_context(a: int, ctx: Context | None = None) -> None: ...
def spread(a: int, *rest: int, **extra: str) -> None: ...
def positions(a: int, b: int = 2, /, c: int = 3) -> None: ...
def modelled(m: Model, n: Model | None = None) -> Model: ...


def there_and_back(function, *args, **kwargs):
    call = Call(function)
    return call.decode(call.encode(args, kwargs))


def test_arguments_become_an_object_of_named_parameters():
    assert Call(plain).encode((1,), {"c": True}) == b'{"a":1,"c":true}'


def test_arguments_left_out_are_left_to_the_defaults_of_the_worker():
    assert there_and_back(plain, 1) == ((), {"a": 1})


def test_values_come_back_in_the_types_of_the_annotations():
    now, one = datetime.now(UTC), uuid.uuid4()
    _, kwargs = there_and_back(rich, Point(1, 2), now, one, Colour.RED, [Item("n")])
    assert kwargs == {
        "p": Point(1, 2),
        "when": now,
        "id": one,
        "colour": Colour.RED,
        "items": [Item("n")],
    }


def test_parameters_without_annotation_take_any_json():
    assert there_and_back(untyped, [1, {"k": None}], b=2.5)[1] == {"a": [1, {"k": None}], "b": 2.5}


def test_models_are_dumped_and_validated():
    _, kwargs = there_and_back(modelled, Model(3), None)
    assert kwargs["m"].size == 3
    assert kwargs["n"] is None
    with pytest.raises(MalformedPayload, match=r"size must be a number.*\$\.m"):
        Call(modelled).decode(b'{"m":{}}')


def test_the_context_is_injected_and_never_submitted():
    call = Call(with_context)
    assert call.context == "ctx"
    assert call.encode((5,), {}) == b'{"a":5}'
    assert Call(with_optional_context).context == "ctx"
    with pytest.raises(InvalidSubmission, match="Unexpected argument 'ctx'"):
        call.encode((5,), {"ctx": 1})
    with pytest.raises(MalformedPayload, match="ctx"):
        call.decode(b'{"a":5,"ctx":{}}')


@pytest.mark.parametrize(
    ("args", "kwargs", "field"),
    [
        ((), {}, "a"),
        ((1, "b", 3), {}, "args"),
        ((1,), {"a": 2}, "a"),
        ((1,), {"d": 2}, "d"),
        (("one",), {}, "a"),
        ((True,), {}, "a"),
        ((1,), {"b": 5}, "b"),
        ((1,), {"c": "yes"}, "c"),
        ((1, "\ud800"), {}, "b"),
    ],
)
def test_an_argument_that_does_not_fit_is_refused_by_name(args, kwargs, field):
    with pytest.raises(InvalidSubmission) as refused:
        Call(plain).encode(args, kwargs)
    assert refused.value.field == field


def three(a: int, b: str, c: bool) -> None: ...
def none_at_all() -> None: ...
def measured(x: float) -> None: ...


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (three, (1, 'say "x"\n', True)),
        (three, (2**70, "", False)),
        (none_at_all, ()),
        (measured, (0.5,)),
        (positions, (1, 2, 3)),
    ],
)
def test_a_call_by_position_has_the_same_payload_as_one_by_name(function: Any, args: Any):
    by_position = Call(function).encode(args, {})
    names = list(inspect.signature(function).parameters)
    assert by_position == msgspec.json.encode(dict(zip(names, args, strict=True)))


@pytest.mark.parametrize(
    ("function", "args", "field"),
    [
        (three, (1, "\udc00", True), "b"),
        (three, (1, "b", 1), "c"),
        (three, (True, "b", True), "a"),
        (measured, (float("nan"),), "x"),
    ],
)
def test_a_call_by_position_that_cannot_be_is_refused_by_name(function: Any, args: Any, field: str):
    with pytest.raises(InvalidSubmission) as refused:
        Call(function).encode(args, {})
    assert refused.value.field == field


def test_a_value_without_json_form_is_refused_by_name():
    with pytest.raises(InvalidSubmission, match="'b'") as refused:
        Call(untyped).encode((1, object()), {})
    assert refused.value.field == "b"


def test_a_wrong_value_deep_inside_is_refused_by_parameter():
    wrong: Any = "1"
    with pytest.raises(InvalidSubmission) as refused:
        Call(rich).encode(
            (Point(wrong, 2), datetime.now(UTC), uuid.uuid4(), Colour.RED, []),
            {},
        )
    assert refused.value.field == "p"


def test_an_array_is_positions_and_any_other_value_one_position():
    call = Call(plain)
    assert call.decode(b'[1,"b"]') == ((), {"a": 1, "b": "b"})
    assert call.decode(b"7") == ((), {"a": 7})
    with pytest.raises(MalformedPayload, match="at most 2 positions"):
        call.decode(b'[1,"b",true]')


@pytest.mark.parametrize(
    ("payload", "path"),
    [
        (b'{"a":"x"}', r"\$\.a"),
        (b'["x"]', r"\$\.a"),
        (b"{}", "`a`"),
        (b'{"a":1,"z":1}', "`z`"),
        (b'{"a":1', "truncated"),
        (b"\xff", "malformed"),
        (b"", "truncated"),
        (b"[" * 100_000, "recursion"),
    ],
)
def test_a_payload_that_does_not_fit_is_malformed_and_says_where(payload, path):
    with pytest.raises(MalformedPayload, match=path):
        Call(plain).decode(payload)


def test_variable_arguments_keep_their_names_types_and_order():
    assert there_and_back(spread, 1, 2, 3, k="v") == ((1, 2, 3), {"k": "v"})
    assert there_and_back(spread, 1) == ((), {"a": 1})
    with pytest.raises(InvalidSubmission):
        Call(spread).encode((1, 2, "three"), {})
    with pytest.raises(MalformedPayload):
        Call(spread).decode(b'{"a":1,"k":5}')


def test_positional_only_parameters_come_back_as_positions():
    assert there_and_back(positions, 1, 5, c=6) == ((1, 5), {"c": 6})
    assert there_and_back(positions, 1) == ((1,), {})


def test_without_a_signature_any_json_goes():
    call = Call(None)
    assert call.decode(call.encode((), {"x": 1})) == ((), {"x": 1})
    assert call.decode(call.encode((1, 2), {})) == ((1, 2), {})
    assert call.decode(b'"one"') == (("one",), {})
    with pytest.raises(InvalidSubmission, match="either"):
        call.encode((1,), {"x": 1})


def test_results_are_json_and_come_back_typed():
    call = Call(modelled)
    data = call.encode_result(Model(4))
    assert data == b'{"size":4}'
    assert call.decode_result(data).size == 4
    assert call.encode_result(None) == b"null"
    assert Call(plain).result_type is type(None)
    assert Call(untyped).decode_result(b"[1]") == [1]


def test_a_result_that_does_not_encode_or_is_too_large_is_invalid():
    with pytest.raises(ResultInvalid, match="JSON"):
        Call(plain).encode_result(object())
    with pytest.raises(ResultInvalid, match="12 bytes, the limit is 10"):
        Call(plain).encode_result("x" * 10, limit=10)


def test_an_annotation_that_cannot_be_resolved_is_refused_at_once():
    def broken(a: "NoSuchType") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(ConfigurationError, match="NoSuchType"):
        Call(broken)


def test_an_annotation_that_json_cannot_tell_apart_is_refused_at_once():
    def broken(a: list[int] | set[int]) -> None: ...

    with pytest.raises(ConfigurationError, match="cannot be taken from JSON"):
        Call(broken)


@pytest.mark.parametrize("annotation", [Path, list[Path], dict[str, Path | None], Holder])
def test_an_annotation_without_json_form_is_refused_at_once(annotation):
    def broken(a): ...

    broken.__annotations__["a"] = annotation
    with pytest.raises(ConfigurationError, match="has no JSON form"):
        Call(broken)


def test_a_type_that_contains_itself_is_fine():
    def walks(tree: Tree) -> Tree: ...

    assert there_and_back(walks, Tree([Tree([])]))[1] == {"tree": Tree([Tree([])])}


@pytest.mark.parametrize(
    "function", [None, lambda a, b=1: 0, lambda *rest: 0, lambda a, /, *, b: 0]
)
@pytest.mark.parametrize(
    "payload",
    [b"{}", b"[]", b"[1]", b"[1, 2]", b"[1, 2, 3]", b'{"a": 1}', b'{"x": 1}', b"5", b"[1"],
)
def test_a_check_refuses_what_decoding_refuses_and_nothing_else(function: Any, payload: bytes):
    call = Call(function)
    outcomes: list[str] = []
    for ask in (call.check, call.decode):
        try:
            ask(payload)
            outcomes.append("fits")
        except MalformedPayload as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]
