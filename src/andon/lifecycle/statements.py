"""The exact bytes that are signed, and how a signature is written into its header. Pure.

A statement is a row of fields, each a netstring: its length in bytes as decimal digits, a colon,
the bytes, a comma. A list is one field that holds the netstrings of its items. So nothing is
escaped, sorted by locale or rounded, and no two tasks have the same statement. The page
docs/signing.md says it for every language and has test vectors; what is signed in version 1 does
not change any more.

Signed is what the caller asked for by itself and what decides what runs, where, and with what. Not
signed is when and how often: priority, times and policy, which operators and policies change.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from andon.model.headers import OF_THE_CALL
from andon.model.words import DEFAULT_QUEUE

VERSION = "andon-task-v1"
"""First field of a statement: nothing else that a key may sign begins with it."""

_HEADER = re.compile(r"v1\.([0-9a-f]{16})\.([1-9][0-9]{0,17})?\.([A-Za-z0-9_-]{86})")


_REQUIRES = "all-completed"


class Signable(Protocol):
    """The signed fields of a task, which submissions and definitions both have."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def queue(self) -> str | None: ...
    @property
    def args(self) -> bytes: ...
    @property
    def dependencies(self) -> Sequence[str]: ...
    @property
    def requires(self) -> str: ...
    @property
    def needs(self) -> int | None: ...
    @property
    def load_dependencies(self) -> bool: ...
    @property
    def unique_key(self) -> str | None: ...
    @property
    def on_held(self) -> object: ...
    @property
    def key(self) -> str | None: ...
    @property
    def group(self) -> str | None: ...
    @property
    def scopes(self) -> Sequence[str]: ...
    @property
    def tags(self) -> Sequence[str]: ...
    @property
    def headers(self) -> Mapping[str, str]: ...


class Signature(msgspec.Struct, frozen=True):
    """A signature, parsed from its header."""

    key_id: str  #: which key made it
    not_after: int | None  #: ms UTC after which no run may begin; None: without end
    value: str  #: base64url without padding, of 64 bytes

    @property
    def header(self) -> str:
        """The header's text."""
        return f"v1.{self.key_id}.{_number(self.not_after)}.{self.value}"


def parsed(header: str) -> Signature | None:
    """The signature that a header says; None if it says none."""
    found = _HEADER.fullmatch(header)
    if found is None:
        return None
    key_id, not_after, value = found.groups()
    return Signature(key_id, None if not_after is None else int(not_after), value)


def statement(task: Signable, not_after: int | None) -> bytes:
    """The bytes that are signed for a task. Raises `UnicodeEncodeError` for half a surrogate."""
    parents, requires = task.dependencies, task.requires
    if task.needs is not None:
        requires = f"{requires}:{task.needs}"
    if task.on_held not in (None, "refuse"):  # its submitter does not choose what it waits for
        parents, requires = (), _REQUIRES
    own = sorted((n.encode(), v.encode()) for n, v in task.headers.items() if n not in OF_THE_CALL)
    return _row(
        (
            VERSION.encode(),
            task.id.encode(),
            task.name.encode(),
            b"%d" % task.version,
            (task.queue or DEFAULT_QUEUE).encode(),
            task.args,
            _texts(dict.fromkeys(parents)),
            requires.encode(),
            b"1" if task.load_dependencies else b"0",
            (task.unique_key or "").encode(),
            (task.key or "").encode(),
            (task.group or "").encode(),
            _texts(task.scopes),
            _texts(task.tags),
            _row(part for pair in own for part in pair),
            _number(not_after).encode(),
        )
    )


def _row(fields: Iterable[bytes]) -> bytes:
    return b"".join([b"%d:%b," % (len(field), field) for field in fields])


def _texts(texts: Iterable[str]) -> bytes:
    return _row(text.encode() for text in texts)


def _number(ms: int | None) -> str:
    return "" if ms is None else str(ms)
