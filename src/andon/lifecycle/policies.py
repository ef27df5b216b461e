"""Resolves a policy from its layers: submission over task type over queue over profile
(docs/rulings.md, R5)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast, get_type_hints

import msgspec

from andon.lifecycle.named import OPTION, Named, check_retry_options, expanded
from andon.model.errors import InvalidSubmission
from andon.model.policy import DAY, Policy, PolicyOptions
from andon.model.words import TERMINAL, State

_FIELDS = frozenset(Policy.__struct_fields__)
_STATES = frozenset(state.value for state in State)
_TERMINAL = frozenset(state.value for state in TERMINAL)
_LARGEST = 100 * 365 * DAY
"""A hundred years: later times have no date. None is for ever."""

_NUMBERS = tuple(
    name
    for name, hint in get_type_hints(Policy).items()
    if hint in (float, float | None, int, int | None)
)
"""Options that are one number; `steps` and `retention` have several."""


def resolve(*layers: Mapping[str, Any], named: Named | None = None) -> Policy:
    """The policy merged from the layers, weakest first; `named` are the retry policies that a layer
    may name (None: they are not known here, and are left out).

    Raises `InvalidSubmission` naming the field for an unknown option or a value that cannot be.
    """
    merged: dict[str, Any] = {}
    for given in layers:
        layer = expanded(given, named) if OPTION in given else given
        for name, value in layer.items():
            if name == "retention":
                merged[name] = {**merged.get(name, {}), **retention_of(value)}
            else:
                merged[name] = value
    return _checked(merged)


def check_options(options: Mapping[str, Any]) -> PolicyOptions:
    """The options as given, once known to be ones that `resolve` takes."""
    if not isinstance(options, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidSubmission("A policy is a set of options by name.", field="policy")
    resolve(options)
    return PolicyOptions(**options)  # type: ignore[typeddict-item]  # keys were checked above


def check_retry_policy(options: Mapping[str, Any]) -> PolicyOptions:
    """The options of a named retry policy, once known to be some that it can set."""
    if isinstance(options, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        check_retry_options(options)
    return check_options(options)


def retention_of(value: Any) -> dict[str, float | None]:
    """A retention as seconds per terminal state; one number counts for every terminal state."""
    if isinstance(value, Mapping):
        for state in cast("Mapping[Any, Any]", value):
            if state not in _TERMINAL:
                raise _no_terminal_state(state, "retention")
        return dict(value)  # pyright: ignore[reportUnknownArgumentType]
    return {state.value: value for state in TERMINAL}


def _checked(merged: dict[str, Any]) -> Policy:
    unknown = set(merged) - _FIELDS
    if unknown:
        name = min(unknown)
        raise InvalidSubmission(
            f"There is no policy option {name!r}.{_hint(name, _FIELDS)}", field=name
        )
    for name, told, value in _numbers(merged):
        if not value >= 0:  # nor NaN, which is not more than anything
            raise InvalidSubmission(f"{told} must not be negative, got {value}.", field=name)
        if value > _LARGEST:
            raise InvalidSubmission(f"{told} is too large: {value}.", field=name)
    try:
        policy = msgspec.convert(merged, Policy)
    except msgspec.ValidationError as error:
        text = str(error)
        field = text.partition("$.")[2].rstrip("`")
        raise InvalidSubmission(f"Policy option {field or ''}: {text}", field=field) from error
    if not policy.lease > 0:
        raise InvalidSubmission("lease must be more than 0 seconds.", field="lease")
    if policy.max_runs is not None and policy.max_runs < 1:
        raise InvalidSubmission("max_runs must be at least 1.", field="max_runs")
    _check_unique_states(policy.unique_states)
    for state in policy.discard_states:
        if state not in _TERMINAL:
            raise _no_terminal_state(state, "discard_states")
    return policy


def _numbers(merged: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    """Every number in the options: the option it is of, what it is called, and itself. (A value
    that should be a number and is none is refused when the policy is made.)"""
    told = [(name, name, merged.get(name)) for name in _NUMBERS]
    told += [("steps", "A step", step) for step in _items(merged.get("steps"))]
    retention = merged.get("retention", {})
    told += [("retention", f"retention of {state}", kept) for state, kept in retention.items()]
    return ((field, name, v) for field, name, v in told if isinstance(v, int | float))


def _items(value: Any) -> Sequence[Any]:
    return cast("Sequence[Any]", value) if isinstance(value, list | tuple) else ()


def _no_terminal_state(state: Any, field: str) -> InvalidSubmission:
    told = f"{field}: {state!r} is not a terminal state.{_hint(state, _TERMINAL)}"
    return InvalidSubmission(told, field=field)


def _hint(name: object, known: Iterable[str]) -> str:
    """What may have been meant, as a sentence to add."""
    from difflib import get_close_matches  # seldom needed, and slow to import

    near = get_close_matches(name, known, n=1) if isinstance(name, str) else []
    if near:
        return f" Did you mean {near[0]!r}?"
    return f" There are: {', '.join(sorted(known))}."


def _check_unique_states(states: tuple[str, ...]) -> None:
    for state in states:
        if state not in _STATES:
            raise InvalidSubmission(
                f"{state!r} is not a state.{_hint(state, _STATES)}", field="unique_states"
            )
    if State.ACTIVE in states and State.PENDING not in states:
        # A claim is never refused (docs/store-contract.md, 1), so it cannot take a key either.
        raise InvalidSubmission(
            "unique_states with 'active' needs 'pending' too: a key that is to hold while the task "
            "runs must be held before it is claimed.",
            field="unique_states",
        )
