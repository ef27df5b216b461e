"""A page of the artifacts of a whole task: run after run, by name."""

import base64

from andon.artifacts.base import Artifact, ArtifactEntries
from andon.model.errors import ConfigurationError


async def listed(
    kept: ArtifactEntries, task: str, run: int | None, *, cursor: str = "", limit: int
) -> tuple[list[Artifact], str]:
    """The page after a cursor, and the cursor of the next one; empty: there is none. Of one run
    only, if it is given. Raises `ConfigurationError` for a cursor that is none."""
    begun, after = _place(cursor) if cursor else (0, "")
    runs = [number for number in await kept.runs(task) if run in (None, number)]
    found: list[Artifact] = []
    for number in runs:
        if number < begun:
            continue
        at = after if number == begun else ""
        page = await kept.page(task, number, after=at, limit=limit - len(found))
        found += page.artifacts
        if page.after:
            return found, _cursor(number, page.after)
        if len(found) == limit and number != runs[-1]:
            return found, _cursor(number + 1, "")
    return found, ""


def _cursor(run: int, after: str) -> str:
    return base64.urlsafe_b64encode(f"{run}:{after}".encode()).rstrip(b"=").decode()


def _place(cursor: str) -> tuple[int, str]:
    try:
        raw = cursor.encode("ascii")
        text = base64.b64decode(raw + b"=" * (-len(raw) % 4), altchars=b"-_", validate=True)
        run, colon, after = text.decode().partition(":")
        if colon and run.isascii() and run.isdecimal():
            return int(run), after
    except ValueError:
        pass
    raise ConfigurationError(f"The cursor {cursor[:80]!r} is not one of a list of artifacts.")
