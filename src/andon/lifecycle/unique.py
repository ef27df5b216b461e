"""Unique keys that are made from a task's name and its arguments. Pure."""

from hashlib import blake2b
from typing import Any

import msgspec

from andon.model.errors import InvalidSubmission


def derived_key(name: str, payload: bytes, by: tuple[str, ...] = ()) -> str:
    """The unique key of a call: the same for the same name and arguments, in whatever order; with
    `by` of those arguments only.

    Raises `InvalidSubmission` for arguments without names where some are asked for.
    """
    args: Any
    if by:
        try:
            named = msgspec.json.decode(payload, type=dict[str, Any])
        except msgspec.ValidationError:
            raise InvalidSubmission(
                f"unique_by={list(by)} needs named arguments; {name!r} was given positions.",
                field="unique_by",
            ) from None
        args = {arg: named[arg] for arg in by if arg in named}
    else:
        args = msgspec.json.decode(payload)
    canonical = msgspec.json.encode(args, order="deterministic")
    return f"{name}:{blake2b(canonical, digest_size=16).hexdigest()}"
