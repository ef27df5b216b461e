"""What goes over the wire, in both directions: hiredis packs commands and reads replies."""

from typing import Any, cast

import hiredis

Words = tuple[bytes | str | int, ...]

NOTHING = object()
"""What a reader gives while a reply is not complete."""

_pack: Any = cast("Any", hiredis).pack_command


def pack(words: Words) -> bytes:
    """A command as bytes."""
    return _pack(words)


def reader() -> hiredis.Reader:
    """A reader of replies; error replies come as values, `hiredis.ReplyError`."""
    return hiredis.Reader(notEnoughData=NOTHING)


def refused(reply: Any) -> str:
    """What an error reply says; empty for any other."""
    return str(reply) if isinstance(reply, hiredis.ReplyError) else ""
