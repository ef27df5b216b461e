"""Rules of groups with a record: which members are let in, when it is sealed, when it is deleted.
Pure (docs/rulings.md, R41).

A group's record is in one place and its members in many, so the record decides: a member is let in
there before its own record is written. The record does not hold the member but until when members
that were let in may be created (`open_until`), so a group whose members stream in is written twice
a minute, and not with each of them. After a seal no member is let in; one that was let in before
has its record written within a minute, or asks again and is refused.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from andon.model.errors import GroupRefused
from andon.model.groups import GroupHappening, GroupNews, GroupRecord

LET_IN_MS = 60_000
"""How long a member that was let in may take to be written."""

KEPT_MORE_MS = 3_600_000
"""A group is kept for this long after the last of its members may go; and that moment is put off by
at least so much, so that members that differ little do not each write it anew."""


def let_in(
    group: str, found: GroupRecord | None, owner: str, expires_at: int | None, now: int
) -> GroupRecord:
    """The record of a group after members of this owner were let in, the last of which is kept
    until `expires_at` (None: as long as its policy says). The same object if nothing is to be
    written.

    Raises `GroupRefused` if the group is sealed, or another's.
    """
    until = now + LET_IN_MS
    least = max(expires_at or 0, now) + KEPT_MORE_MS
    if found is None:
        return GroupRecord(owner=owner, created_at=now, expires_at=least, open_until=until)
    if found.owner != owner:
        raise GroupRefused(group, owner=found.owner)
    if found.sealed_at is not None:
        raise GroupRefused(group, owner=owner, sealed_at=found.sealed_at)
    changed = found
    if found.open_until < now + LET_IN_MS // 2:
        changed = replace(changed, open_until=until)
    if found.expires_at < least:
        changed = replace(changed, expires_at=least + KEPT_MORE_MS)
    return changed


def sealed(found: GroupRecord, now: int) -> GroupRecord:
    """The record once it is sealed; the same object if it was sealed before."""
    if found.sealed_at is not None:
        return found
    return _with(replace(found, sealed_at=now), GroupHappening(at=now, what="sealed"))


def reprioritised(found: GroupRecord, priority: int, changed: int, now: int) -> GroupRecord:
    """The record once so many of its members were given another priority."""
    happening = GroupHappening(at=now, what="reprioritised", priority=priority, changed=changed)
    return _with(found, happening)


def news_of(group: str, found: GroupRecord) -> list[GroupNews]:
    """The news of a group that may not be in the group log yet, in order."""
    return [
        GroupNews(
            group=group,
            owner=found.owner,
            expires_at=found.expires_at,
            sealed_at=found.sealed_at,
            happening=happening,
        )
        for happening in found.untold
    ]


def told(found: GroupRecord, news: Sequence[GroupNews]) -> GroupRecord:
    """The record once these are in the group log."""
    happened = [one.happening for one in news]
    return replace(found, untold=tuple(one for one in found.untold if one not in happened))


def _with(found: GroupRecord, happening: GroupHappening) -> GroupRecord:
    return replace(found, untold=(*found.untold, happening))


def is_whole(found: GroupRecord, now: int) -> bool:
    """Whether no member can come any more: it is sealed, and those let in before have been
    created."""
    return found.sealed_at is not None and found.open_until <= now


def may_go(found: GroupRecord, now: int) -> bool:
    """Whether the record goes if there is no member left."""
    return found.expires_at <= now and found.open_until <= now and not found.untold
