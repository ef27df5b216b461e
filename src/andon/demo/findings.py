"""The outcomes of all files after a flow: its own, and those of the flow before for files that had
not changed."""

from collections.abc import Container, Sequence

import msgspec

from andon.demo.analysis import Facts
from andon.demo.files import write_whole
from andon.demo.names import Names


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How the analysis of one file ended."""

    path: str
    state: str
    facts: Facts | None
    error: str = ""
    digest: str = ""  #: of its content; empty if it could not be read


def merged(
    names: Names, number: int, outcomes: Sequence[Outcome], *, there: Container[str]
) -> list[Outcome]:
    """The outcomes of all files that are there, by path, kept for the next flow."""
    whole = {outcome.path: outcome for outcome in _of(names, number - 1) if outcome.path in there}
    whole.update((outcome.path, outcome) for outcome in outcomes)
    found = sorted(whole.values(), key=lambda outcome: outcome.path)
    write_whole(names.findings(number), msgspec.json.encode(found))
    return found


def _of(names: Names, number: int) -> list[Outcome]:
    if number == 0:
        return []
    return msgspec.json.decode(names.findings(number).read_bytes(), type=list[Outcome])
