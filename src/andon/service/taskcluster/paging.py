"""Continuation tokens: where a page of a list ended, opaque to clients. Pure.

A token names the list that it is of, so that one of another list is refused instead of misread.
"""

import base64
import binascii

from andon.service.taskcluster.errors import input_error

MOST = 1_000
"""Rows on one page, at most and by default."""

_SEPARATOR = "\0"
_LONGEST = 2_048


def token_for(listed: str, place: str) -> str:
    """The token that leads to this place of that list."""
    text = f"{listed}{_SEPARATOR}{place}".encode()
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def place_in(listed: str, token: str | None) -> str:
    """The place of that list that a token leads to; its beginning without one.

    Raises `ApiError` (400) for a token that this list has not given out.
    """
    if token is None:
        return ""
    try:
        if len(token) > _LONGEST:
            raise ValueError
        padded = token + "=" * (-len(token) % 4)
        text = base64.b64decode(padded, altchars=b"-_", validate=True).decode()
    except (ValueError, binascii.Error):
        text = ""
    of, separator, place = text.partition(_SEPARATOR)
    if of != listed or not separator or not place:
        raise input_error(
            "continuationToken is not one of this list: send the one of the page before, as it is."
        )
    return place
