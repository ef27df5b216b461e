"""Dead letters in groups: those of one error fingerprint are one group."""

import msgspec

from andon.model.letters import LetterGroup, LetterGroups

MOST_CAUSES = 50
"""How many groups are shown at first, the largest."""


class Letters(msgspec.Struct, frozen=True, kw_only=True):
    """All groups, as far as dead letters were read."""

    found: LetterGroups
    total: int  #: how many dead letters there are
    now: int
    queue: str = ""
    looks_on: bool = False  #: the visitor asked for more than a first reading

    @property
    def groups(self) -> tuple[LetterGroup, ...]:
        """The groups, the largest first."""
        return self.found.groups

    @property
    def shown(self) -> tuple[LetterGroup, ...]:
        """The groups that a page shows: all, if the visitor asked for more."""
        return self.groups if self.looks_on else self.groups[:MOST_CAUSES]
