"""`Idempotency-Key`: a submit without an id of its own that may be repeated all the same.

The task's id is made of the caller's token, the route and the key. So a repeat is a submit of the
same id, which the store recognises (docs/rulings.md, R26, R31), and nothing has to be kept beside
the task.
"""

import hashlib
import re
from typing import TYPE_CHECKING, Annotated

from litestar.params import HeaderParameter

from andon.service.problems import Problem, invalid

if TYPE_CHECKING:
    from andon.service.calls import Call

NAME = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
"""The header of an answer to a repeat."""

_KEY = re.compile(r"[\x21-\x7e]{1,255}\Z")

IdempotencyKey = Annotated[
    str | None,
    HeaderParameter(
        name=NAME,
        description="1 to 255 printable characters, new for each request that is meant: the same "
        "request again, with the same token, is the same task, as long as that is kept and 10 "
        "minutes more. Instead of an `id`.",
    ),
]


def id_of(request: "Call", route: str, key: str) -> str:
    """The id that the key stands for, 32 hex digits. Raises `Problem` (422)."""
    if not _KEY.match(key):
        raise invalid(f"{NAME} is 1 to 255 printable characters without spaces.", field=NAME)
    caller = getattr(request.caller, "id", "")
    said = "\0".join((caller, route, key)).encode()
    return hashlib.blake2b(said, digest_size=16, person=b"idempotency-key").hexdigest()


def reused() -> Problem:
    """The key was used before, for something else."""
    return Problem(
        422,
        "idempotency-key-reused",
        "Idempotency key reused",
        f"The {NAME} was used for another request. Repeat exactly what was sent with it, or make "
        "a new key.",
        field=NAME,
    )


def not_both() -> Problem:
    """An id says already which task it is."""
    return invalid(f"Give an id of your own or the header {NAME}, not both.", field=NAME)
