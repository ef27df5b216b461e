"""Checks artifact entries, and decides what a second registration does. Pure.

An artifact is known by task, run and name. Most are files; others say where something is (a
reference), stand for another of the same run (a link), or say why there is none (an error). A file
may be registered before its bytes come. Registering one again, because a reply was lost, returns
the same; a later expiry counts, an earlier one is refused, and so is anything else that differs.
"""

import re
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

import msgspec

from andon.artifacts.base import MAX_NAME, Artifact, ArtifactConflict, ArtifactNotFound
from andon.model.errors import InvalidSubmission

MAX_TYPE = 255
"""Characters in a content type."""

MAX_URL = 8_192
"""Characters in the URL of a reference."""

MAX_MESSAGE = 4_096
"""Characters in the message of an error."""

MAX_LINKS = 64
"""Links that lead to one another before they are given up."""

_ENCODING = re.compile(r"[\x20-\x7e]{0,100}\Z")
_DETAILS = ("kind", "content_type", "url", "target", "reason", "message")


def check_name(name: str, field: str = "name") -> None:
    """Refuse a name that is empty, too long, or holds control characters."""
    if not name or len(name) > MAX_NAME or not name.isprintable():
        raise InvalidSubmission(
            f"The artifact name {name[:128]!r} is not 1 to {MAX_NAME} printable characters.",
            field=field,
        )


def check_encoding(encoding: str) -> None:
    """Refuse what cannot stand in a header."""
    if not _ENCODING.match(encoding):
        raise InvalidSubmission(
            "A content encoding is at most 100 printable ASCII characters, gzip for example.",
            field="encoding",
        )


def check(entry: Artifact) -> None:
    """Raise `InvalidSubmission` for an entry that cannot be."""
    check_name(entry.name)
    if len(entry.content_type) > MAX_TYPE or not entry.content_type.isprintable():
        raise InvalidSubmission(
            f"A content type is at most {MAX_TYPE} printable characters.", field="content_type"
        )
    if entry.kind == "link":
        check_name(entry.target, "target")
    elif entry.target:
        raise InvalidSubmission("Only a link has a target.", field="target")
    if entry.kind == "reference":
        _check_url(entry.url)
    elif entry.url:
        raise InvalidSubmission("Only a reference has a url.", field="url")
    if entry.kind == "error":
        if not entry.reason:
            raise InvalidSubmission("An error needs its reason.", field="reason")
    elif entry.reason or entry.message:
        raise InvalidSubmission("Only an error has a reason and a message.", field="reason")
    if len(entry.reason) > MAX_TYPE or len(entry.message) > MAX_MESSAGE:
        raise InvalidSubmission(
            f"The reason of an error is at most {MAX_TYPE} characters, its message {MAX_MESSAGE}.",
            field="message",
        )


def again(before: Artifact, wanted: Artifact) -> Artifact:
    """The entry after it is registered again. Raises `ArtifactConflict`."""
    if _is_later(before.expires_at, wanted.expires_at):
        raise ArtifactConflict(
            before, "expires later; the end of an artifact can be put off and not brought forward"
        )
    if before.kind == "reference" and wanted.kind in ("reference", "link"):
        # A run's live log: where it is streamed from first, the file in the end.
        if wanted.kind == "reference" and wanted.content_type != before.content_type:
            raise ArtifactConflict(before, "has another content type")
        return msgspec.structs.replace(wanted, created_at=before.created_at)
    for detail in _DETAILS:
        if detail == "content_type" and wanted.kind == "link":
            continue
        if getattr(before, detail) != getattr(wanted, detail):
            raise ArtifactConflict(before, f"has another {detail.replace('_', ' ')}")
    if bool(before.upload) != bool(wanted.upload):
        raise ArtifactConflict(before, "is uploaded in another way")
    return msgspec.structs.replace(before, expires_at=wanted.expires_at)


def passed_by(artifact: Artifact) -> None:
    """The default callback for followed links, which does nothing."""


async def followed(
    artifact: Artifact,
    found: Callable[[str], Awaitable[Artifact | None]],
    passing: Callable[[Artifact], object] = passed_by,
) -> Artifact:
    """The artifact at the end of a chain of links; `found` gives the one of a name in the same run.
    Raises `ArtifactNotFound` and `ArtifactConflict`."""
    passing(artifact)
    seen = {artifact.name}
    first = artifact
    while artifact.kind == "link":
        target = await found(artifact.target)
        if target is None:
            raise ArtifactNotFound(artifact.task, artifact.target)
        if target.name in seen or len(seen) > MAX_LINKS:
            raise ArtifactConflict(first, "is a link that leads back to itself, or too far")
        passing(target)
        seen.add(target.name)
        artifact = target
    return artifact


def _is_later(before: int | None, wanted: int | None) -> bool:
    """Whether the first expiry is later; None is the end of the task, later than any other."""
    if wanted is None:
        return False
    return before is None or before > wanted


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = None
    is_url = parts is not None and parts.scheme in ("http", "https") and parts.netloc
    if not is_url or len(url) > MAX_URL or not url.isprintable() or " " in url:
        raise InvalidSubmission(
            f"The url of a reference is one of http or https, at most {MAX_URL} characters.",
            field="url",
        )
