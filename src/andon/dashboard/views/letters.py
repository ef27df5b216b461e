"""Dead letters by what went wrong: those of one fingerprint are one group."""

import msgspec

from andon.model.letters import LetterGroup, LetterGroups


class Letters(msgspec.Struct, frozen=True, kw_only=True):
    """All groups, as far as they were looked at."""

    found: LetterGroups
    total: int  #: dead letters that there are
    now: int
    queue: str = ""

    @property
    def groups(self) -> tuple[LetterGroup, ...]:
        """The groups, the largest first."""
        return self.found.groups
