"""Checks arguments and results: one value in JSON, of bounded nesting. Pure.

They are checked where they come in, and again where they are passed on unchanged: another program
may also write to a store, unchecked.
"""

from typing import Any

import msgspec

MOST_NESTED = 500
"""Levels of lists and objects. One program decodes a value that another encodes within a document,
each with its own stack depth: both must have room, or a value that one accepts breaks the other."""

_AS_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
_MOST_SHOWN = 200


def parse(body: bytes) -> Any:
    """The value. Raises `ValueError`, saying what is wrong, for bytes that are no such value."""
    try:
        value = msgspec.json.decode(body)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 ({error.reason})") from None
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from None
    if is_nested_too_deeply(body):
        raise ValueError(f"it is nested more than {MOST_NESTED} deep")
    return value


def is_json(body: bytes) -> bool:
    """Whether the bytes are such a value, so that they may be pasted into another document."""
    try:
        parse(body)
    except ValueError:
        return False
    return True


def is_nested_too_deeply(body: bytes) -> bool:
    """Whether bytes that are JSON have more levels than `MOST_NESTED`."""
    many = body.count(b"[") + body.count(b"{") > MOST_NESTED
    return many and _is_nested_beyond(body, MOST_NESTED)


def shown(body: bytes) -> Any:
    """The value for a list of tasks; bytes that are no such value in another form, so that they do
    not break the list."""
    try:
        return parse(body)
    except ValueError:
        text = body[:_MOST_SHOWN].decode("utf-8", "backslashreplace")
        return {"not-json": text, "bytes": len(body)}


def _is_nested_beyond(body: bytes, most: int) -> bool:
    """Whether well-formed JSON has more levels of lists and objects than that: its brackets alone,
    from which a level is taken at a time."""
    unescaped = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    between_strings = b"".join(unescaped.split(b'"')[::2])
    brackets = between_strings.translate(_AS_ONE_KIND, _NO_BRACKETS)
    for _ in range(most):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)
