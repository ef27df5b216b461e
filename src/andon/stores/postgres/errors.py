"""Maps errors of the server and the driver to store errors: wait, or do something about it."""

import asyncio

import asyncpg

from andon.contract.isolation import Unwritable
from andon.model.errors import ConfigurationError, StoreError, StoreIncompatible, StoreUnavailable

_PASSING_CLASSES = ("08", "40", "53", "57")
"""Connection lost, deadlock or serialization failure, no resources, the server closed the
session."""

_PASSING_CODES = frozenset({"25006", "55P03", "55006", "58030"})
"""A server in recovery, a lock not available, an object in use, an I/O error."""

LOST = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # among others, when a session was ended while it was idle
    asyncpg.ConnectionDoesNotExistError,
    asyncio.IncompleteReadError,
)
"""Errors of the driver when there is no server at the other end (any more)."""


def code_of(error: BaseException) -> str:
    """The SQLSTATE of an error, or nothing."""
    return getattr(error, "sqlstate", None) or ""


def _cannot_grow(error: BaseException) -> bool:
    """Whether the server could not make a file of a table larger. Only a disk without room has a
    code of its own (53100): of a quota and of a limit on the size of files, where the message was
    raised is all that tells, whatever its language."""
    function: str | None = getattr(error, "server_source_function", None)
    return code_of(error) == "XX000" and function in ("mdextend", "mdzeroextend")


def is_passing(error: BaseException) -> bool:
    """Whether the same statement may succeed later, on this connection or another."""
    code = code_of(error)
    if _cannot_grow(error):
        return True
    if code:
        return code in _PASSING_CODES or code[:2] in _PASSING_CLASSES
    return isinstance(error, LOST)


def _is_gone(code: str, detail: str) -> bool:
    """Whether something of the schema is not there; a type's absence has no code of its own."""
    return code != "XX000" or detail.startswith("cache lookup failed for type")


def _is_at_fault(code: str) -> bool:
    """Whether a value is refused: it is no text, no such number, or too long for an index. The
    driver's own refusals have such a code too."""
    return code[:2] == "22" or code == "54000"


def translated(
    error: BaseException, shown: str, schema: str
) -> StoreError | ConfigurationError | Unwritable:
    """The error to raise, with what to do about it; for a refused value, what is wrong with it."""
    code = code_of(error)
    detail = str(error).partition("\n")[0].rstrip(".") or type(error).__name__
    if _is_at_fault(code):
        return Unwritable(f"PostgreSQL cannot hold this value ({detail}).")
    match code:
        case "28P01" | "28000":
            return ConfigurationError(
                f"{shown} refuses to let us in ({detail}); check user and password in the URL, "
                "and the server's pg_hba.conf."
            )
        case "3D000":
            return ConfigurationError(
                f"{shown} has no such database ({detail}); create it, or name another in the URL."
            )
        case "42501":
            return ConfigurationError(
                f"{shown}: the user may not do this ({detail}); grant it CREATE on the database, "
                f"or all on schema {schema}."
            )
        case "25006":
            return StoreUnavailable(
                f"{shown} takes no writes ({detail}): it is a standby or set read-only; name the "
                "primary in the URL."
            )
        case "53100":
            return StoreUnavailable(f"The disk of {shown} is full; free some space there.")
        case "XX000" if _cannot_grow(error):
            return StoreUnavailable(
                f"{shown} cannot store more ({detail}); free some space on its disk, or raise the "
                "quota or the limit on the size of its files."
            )
        case "53300":
            return StoreUnavailable(
                f"{shown} has no connection to spare; raise its max_connections, lower ?pool=, or "
                "put PgBouncer before it."
            )
        case "57014" | "55P03":
            return StoreUnavailable(
                f"{shown} gave a statement up ({detail}); look there for who holds locks or keeps "
                "it busy, or raise the statement_timeout and lock_timeout of our user."
            )
        case "42P01" | "42883" | "42703" | "3F000" | "42704" | "XX000" if _is_gone(code, detail):
            return StoreIncompatible(
                f"Schema {schema} of {shown} is not as this release made it ({detail}); was it "
                "dropped or changed by hand? Restart to make what is missing, or restore a backup."
            )
        case _ if is_passing(error):
            return StoreUnavailable(f"{shown} does not answer ({detail}); is the server running?")
        case _:
            return StoreError(f"{shown}: {detail}.")
