"""Groups of dead letters that ended with one kind of error. Pure data."""

import msgspec


class LetterGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters of one error fingerprint, of those that were looked at."""

    fingerprint: str  #: sixteen hex digits (`lifecycle.error_fingerprint`)
    pattern: str  #: what these errors say, without what differs between them
    count: int  #: how many there are, at least
    newest: str  #: id of the one that ended last
    newest_at: int  #: when that ended, ms UTC
    oldest_at: int  #: when the first of them ended, ms UTC
    names: tuple[str, ...]  #: task types, the most frequent first; five at the most
    queues: tuple[str, ...]  #: the same of queues


class LetterGroups(msgspec.Struct, frozen=True, kw_only=True):
    """Groups of dead letters, the largest first.

    A look is bounded. If it was not `whole`, every count is "at least", and `cursor` goes on with
    dead letters of older tasks; `lifecycle.letter_groups.merged` adds the two looks up.
    """

    groups: tuple[LetterGroup, ...]
    looked: int  #: dead letters that were looked at
    whole: bool  #: these are all there are
    cursor: str  #: to go on from; empty if they are all
