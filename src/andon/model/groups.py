"""The records of groups of tasks that name an owner, and their news. Pure data."""

from typing import Literal

import msgspec

GROUP_NOTES = "group"
"""The kind of the notes in which groups are kept (`contract.notes`)."""

NEWS_NOTES = "group-news"
"""The kind of the notes that say what happened to groups, one after another."""


class GroupHappening(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event of a group as a whole, which is not a move of a task.

    Example:
        await remind.options(group="build-7", group_owner="ci").submit("ann@example.org")
        record = await app.flows.handle("build-7").record()
        for happening in record.untold:
            print(happening.what, happening.at)
    """

    at: int  #: ms UTC
    what: Literal["sealed", "reprioritised"]  #: it takes no more members, or has another priority
    priority: int = 0  #: that its members were given
    changed: int = 0  #: so many members have another priority since


class GroupNews(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry in the news of groups: what happened, and the group as it was then."""

    group: str
    owner: str
    expires_at: int  #: ms UTC
    sealed_at: int | None = None  #: ms UTC
    happening: GroupHappening


class GroupRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record of a group whose members name its owner. Times are ms UTC.

    Example:
        await remind.options(group="build-7", group_owner="ci").submit("ann@example.org")
        record = await app.flows.handle("build-7").record()
        print(record.owner, record.created_at, record.sealed_at)
    """

    owner: str  #: all members name it; Taskcluster's scheduler
    created_at: int  #: when its first member was submitted
    expires_at: int  #: kept until then at least, and until the last member has gone
    open_until: int
    """Members that were let in may still be on their way until then; when it is sealed and this has
    passed, all are there."""
    sealed_at: int | None = None  #: since when no member is let in; for good
    untold: tuple[GroupHappening, ...] = ()
    """What happened and may not be in the group log yet: that is written right after."""
