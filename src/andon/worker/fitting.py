"""Checks by annotations whether the result of one handler can be an argument of another.

Both go through JSON, so kinds of JSON values are compared, and those in lists and objects. Where an
annotation leaves it open, the value is taken to fit: the worker decodes the argument in any case.
"""

from typing import Any

from msgspec import inspect as types

_ARRAYS = (
    types.ListType,
    types.SetType,
    types.FrozenSetType,
    types.VarTupleType,
)
_KINDS: dict[type[types.Type], frozenset[str]] = {
    types.NoneType: frozenset({"null"}),
    types.BoolType: frozenset({"bool"}),
    types.IntType: frozenset({"int"}),
    types.FloatType: frozenset({"float"}),
    types.StrType: frozenset({"str"}),
    types.BytesType: frozenset({"str"}),
    types.ByteArrayType: frozenset({"str"}),
    types.MemoryViewType: frozenset({"str"}),
    types.DateTimeType: frozenset({"str"}),
    types.DateType: frozenset({"str"}),
    types.TimeType: frozenset({"str"}),
    types.TimeDeltaType: frozenset({"str"}),
    types.UUIDType: frozenset({"str"}),
    types.DecimalType: frozenset({"str"}),
    **dict.fromkeys(_ARRAYS, frozenset({"array"})),
    types.TupleType: frozenset({"array"}),
    types.NamedTupleType: frozenset({"array"}),
    types.DictType: frozenset({"object"}),
    types.TypedDictType: frozenset({"object"}),
    types.DataclassType: frozenset({"object"}),
}
"""The kinds of JSON values that a type is written as. Types that are not listed are not checked."""

_ALSO: dict[type[types.Type], frozenset[str]] = {
    types.FloatType: frozenset({"int"}),
    types.DecimalType: frozenset({"int", "float"}),
    types.TimeDeltaType: frozenset({"int", "float"}),
}
"""The further kinds that a type can be read from."""


def misfit(given: Any, wanted: Any) -> bool:
    """Whether some value of the one annotation certainly does not fit the other."""
    try:
        return not _all_fit(types.type_info(given), types.type_info(wanted))
    except TypeError:
        return False


def any_of(annotations: list[Any]) -> Any:
    """The annotation of a value that is of one of these."""
    found: Any = None
    for number, annotation in enumerate(dict.fromkeys(annotations)):
        found = annotation if number == 0 else found | annotation
    return found if annotations else Any


def _all_fit(given: types.Type, wanted: types.Type) -> bool:
    targets = _each(wanted)
    return all(any(_fits(one, target) for target in targets) for one in _each(given))


def _each(found: types.Type) -> tuple[types.Type, ...]:
    if isinstance(found, types.Metadata):
        return _each(found.type)
    return found.types if isinstance(found, types.UnionType) else (found,)


def _kinds(found: types.Type) -> frozenset[str] | None:
    if isinstance(found, types.StructType):
        return frozenset({"array" if found.array_like else "object"})
    return _KINDS.get(type(found))


def _fits(given: types.Type, wanted: types.Type) -> bool:
    written, read = _kinds(given), _kinds(wanted)
    if written is None or read is None:
        return True
    if not written <= read | _ALSO.get(type(wanted), frozenset()):
        return False
    if isinstance(given, _ARRAYS) and isinstance(wanted, _ARRAYS):
        return _all_fit(given.item_type, wanted.item_type)
    if isinstance(given, types.DictType) and isinstance(wanted, types.DictType):
        return _all_fit(given.value_type, wanted.value_type)
    return True
