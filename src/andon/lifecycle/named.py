"""Retry policies by name: kept in the store, and used by their names wherever options are given.

A name stands for options of how a task is retried. It is resolved with the policy, at submit, so a
task keeps its policy when the name means something else later. In the layer where it is given it is
weaker than the options beside it. Pure.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, cast

import msgspec

from andon.lifecycle.admission import check_name
from andon.model.errors import InvalidSubmission
from andon.model.policy import PolicyOptions

OPTION = "retry"

RETRY_OPTIONS = frozenset(
    {
        "max_retries",
        "retry_delay",
        "backoff",
        "max_retry_delay",
        "steps",
        "retry_on",
        "no_retry_on",
        "retry_unlisted",
        "retry_internal_errors",
    }
)
"""What a named policy may set."""

MOST_NAMES = 1_000

Named = Mapping[str, Mapping[str, Any]]


def expanded(layer: Mapping[str, Any], named: Named | None) -> Mapping[str, Any]:
    """The layer with the options that its `retry` stands for; `named` None: names are not known
    here, and any may be one. Raises `InvalidSubmission` for an unknown name."""
    name = layer.get(OPTION)
    rest = {option: value for option, value in layer.items() if option != OPTION}
    if not isinstance(name, str):
        raise InvalidSubmission(f"retry is the name of a retry policy, not {name!r}.", field=OPTION)
    check_policy_name(name, field=OPTION)
    if named is None:
        return rest
    if name not in named:
        raise unknown(name, named)
    return {**named[name], **rest}


def check_policy_name(name: str, *, field: str) -> None:
    """Refuse a name that is not 1 to 128 of `[A-Za-z0-9_./:-]`."""
    try:
        check_name(name, field="retry policy")
    except InvalidSubmission as error:
        raise InvalidSubmission(str(error), field=field) from None


def unknown(name: str, named: Iterable[str]) -> InvalidSubmission:
    """The error for an unknown name."""
    known = sorted(named)
    near = get_close_matches(name, known, n=1)
    if near:
        hint = f"Did you mean {near[0]!r}?"
    elif known:
        hint = f"There are: {', '.join(known[:20])}."
    else:
        hint = "There is none yet; make one: andon policies set NAME max_retries=5."
    return InvalidSubmission(f"There is no retry policy {name!r}. {hint}", field=OPTION)


def check_retry_options(options: Mapping[str, Any]) -> None:
    """Refuse options that a named policy does not set. `policies.check_options` checks their
    values."""
    for name in options:
        if name not in RETRY_OPTIONS:
            near = get_close_matches(str(name), RETRY_OPTIONS, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"It sets {', '.join(_SORTED)}."
            raise InvalidSubmission(f"A retry policy does not set {name!r}. {hint}", field=name)


def read(stored: bytes) -> dict[str, PolicyOptions]:
    """The named policies from their stored form. Raises `ValueError` for bytes that are none."""
    found = msgspec.json.decode(stored, type=dict[str, dict[str, Any]])
    return cast("dict[str, PolicyOptions]", found)


def written(named: Mapping[str, Mapping[str, Any]]) -> bytes:
    """The same as bytes."""
    return msgspec.json.encode(named, order="sorted")


_SORTED = sorted(RETRY_OPTIONS)
