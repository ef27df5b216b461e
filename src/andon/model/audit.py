"""What people and programs did by hand: one record for each act, kept newest first."""

import msgspec


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One act by hand, or several alike that followed one another closely.

    An act on tasks names the first of them; the move of each has the same actor in its event. An
    act on anything else names it (a queue, a retry policy, a token) and says what was set.
    """

    at: int  #: when it was done, ms UTC by the store's clock
    until: int  #: when the last of those alike was done; `at` where it is one
    actor: str  #: the actor; empty if none was named
    act: str  #: cancel, rerun, delete, …; configure-queue, create-token, …
    subject: str  #: id of the first task, or the name of what was changed
    count: int = 1  #: how many tasks were changed
    detail: str = ""  #: what was set, as JSON; cut at 300 characters
