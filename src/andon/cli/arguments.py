"""Parses values of tasks on the command line: arguments, priorities, options."""

import sys
from typing import Any

import msgspec

from andon.model.errors import InvalidSubmission


def priority_of(text: str) -> int:
    """A priority as a number. Raises `InvalidSubmission` for a word that is none."""
    from andon.client.options import to_priority

    try:
        return int(text)
    except ValueError:
        return to_priority("priority", text)


def parsed(text: str, what: str) -> Any:
    """The value of a JSON text. Raises `InvalidSubmission` saying where it is wrong."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidSubmission(f"{what} is not JSON: {error}.", field="args") from error


def args_of(text: str) -> Any:
    """Arguments: an object of named ones, or a list. Raises `InvalidSubmission`."""
    value = parsed(sys.stdin.read() if text == "-" else text, "--args")
    return checked_args(value, "--args")


def checked_args(value: Any, what: str) -> Any:
    """The arguments, once known to be an object or a list. Raises `InvalidSubmission`."""
    if not isinstance(value, dict | list):
        raise InvalidSubmission(
            f"{what} must be a JSON object of named arguments, or a list of positional ones, "
            f"not {msgspec.json.encode(value).decode()[:80]}.",
            field="args",
        )
    return value  # pyright: ignore[reportUnknownVariableType]


def json_or_text(text: str) -> Any:
    """The value of a JSON text; a text that is none stands for itself."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
