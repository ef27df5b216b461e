"""What arguments and results are: one value in JSON, not nested without bound. Pure.

Checked where they come in, and again where they go out as they are: a store may also be written to
by who checks nothing.
"""

from typing import Any

import msgspec

MOST_NESTED = 500
"""Levels of lists and objects. What is decoded by one program is encoded by another within a
document, on a stack of whatever depth: both must have room, or what one took breaks the other."""

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
    """The value as a list of tasks shows it: one that is none as what it is, so that it spoils no
    list."""
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
