"""What goes over the wire, in both directions: hiredis packs commands and reads replies."""

import re
from collections.abc import Callable
from typing import Any, cast

import hiredis

Words = tuple[bytes | str | int, ...]

NOTHING = object()
"""What a reader gives while a reply is not complete."""

_IN_SCRIPT = re.compile(r"^ERR Error running script.*: -([A-Z]+ .*)$", re.DOTALL)

pack: Callable[[Words], bytes] = cast("Any", hiredis).pack_command
"""A command as bytes."""


def reader() -> hiredis.Reader:
    """A reader of replies; error replies come as values, `hiredis.ReplyError`."""
    return hiredis.Reader(notEnoughData=NOTHING)


def refused(reply: Any) -> str:
    """What an error reply says; empty for any other. Of an error that a command in a script met,
    which some servers wrap in where it happened, what the command said."""
    if not isinstance(reply, hiredis.ReplyError):
        return ""
    said = str(reply)
    within = _IN_SCRIPT.search(said)
    return within[1] if within else said
