"""Packs commands and reads replies, with hiredis."""

import re
from collections.abc import Callable
from typing import Any, cast

import hiredis

Words = tuple[bytes | str | int, ...]

NOTHING = object()
"""The value that a reader returns while a reply is not complete."""

_IN_SCRIPT = re.compile(r"^ERR Error running script.*: -([A-Z]+ .*)$", re.DOTALL)

pack: Callable[[Words], bytes] = cast("Any", hiredis).pack_command
"""A command as bytes."""


def reader() -> hiredis.Reader:
    """A reader of replies; error replies come as values, `hiredis.ReplyError`."""
    return hiredis.Reader(notEnoughData=NOTHING)


def refused(reply: Any) -> str:
    """The text of an error reply; empty for any other. If a command in a script failed, some
    servers wrap its error in the place where it happened; then it is the text of the command's
    error."""
    if not isinstance(reply, hiredis.ReplyError):
        return ""
    said = str(reply)
    within = _IN_SCRIPT.search(said)
    return within[1] if within else said
