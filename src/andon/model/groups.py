"""What is kept of a group of tasks, where somebody needs it kept. Pure data."""

import msgspec

GROUP_NOTES = "group"
"""The kind of the notes in which groups are kept (`contract.notes`)."""


class GroupRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is kept of a group whose members name its owner. Times are ms UTC.

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
