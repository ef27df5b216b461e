"""What is known of all files after a run of the flow: what that run found, and of the files that
had not changed what the run before did."""

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
    names: Names, run: int, outcomes: Sequence[Outcome], *, there: Container[str]
) -> list[Outcome]:
    """The outcomes of all files that are there, by path, kept for the next run."""
    whole = {outcome.path: outcome for outcome in _of(names, run - 1) if outcome.path in there}
    whole.update((outcome.path, outcome) for outcome in outcomes)
    found = sorted(whole.values(), key=lambda outcome: outcome.path)
    write_whole(names.findings(run), msgspec.json.encode(found))
    return found


def _of(names: Names, run: int) -> list[Outcome]:
    if run == 0:
        return []
    return msgspec.json.decode(names.findings(run).read_bytes(), type=list[Outcome])
