"""Dead letters by what went wrong: those of one fingerprint are one group."""

import msgspec

from andon.model.letters import LetterGroup, LetterGroups

MOST_CAUSES = 50
"""Groups that are shown at first, the largest."""


class Letters(msgspec.Struct, frozen=True, kw_only=True):
    """All groups, as far as they were looked at."""

    found: LetterGroups
    total: int  #: dead letters that there are
    now: int
    queue: str = ""
    looks_on: bool = False  #: somebody asked for more than a first look

    @property
    def groups(self) -> tuple[LetterGroup, ...]:
        """The groups, the largest first."""
        return self.found.groups

    @property
    def shown(self) -> tuple[LetterGroup, ...]:
        """Those of them that a page shows: all, if somebody asked for more."""
        return self.groups if self.looks_on else self.groups[:MOST_CAUSES]
