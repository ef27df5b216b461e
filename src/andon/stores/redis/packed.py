"""What scripts get and keep as packed lists. The order of the fields here is the only one: Lua gets
their places from `{{fields.entry STATE, QUEUE}}`. Python sends fields by name, except the entry and
the item of a create, which are tuples for speed: `tests/stores/redis/test_fields.py` compares these
with the order here, and shuffles it.

An index entry is kept with its record, and other releases read it: new fields go to the end.
"""

import msgspec

Packed = msgspec.Raw
"""A text that is packed already."""


class PackedEntry(msgspec.Struct, array_like=True, kw_only=True, gc=False):
    """An index entry. Scores and times that go into indexes are texts: a number would be printed
    and read again each time."""

    state: str
    queue: str
    kind: str
    key: str | None
    group: str | None
    timer: str | None
    score: str | None
    dead_at: int | None
    first_limit: int | None
    unique: str | None
    unique_until: int | None
    dead_letter: bool
    remaining: int
    created: str
    run_number: int
    fence: int
    frees_on_claim: bool
    spare: int | None
    lists: tuple[str, ...] | None


class CreateItem(msgspec.Struct, array_like=True, kw_only=True, gc=False):
    """A record as `create.lua` takes it."""

    id: str
    definition: Packed
    status: Packed
    entry: Packed
    event: Packed
    keeps_key: bool  #: whether its unique key is in its partition
    head: str  #: what its version begins with
    digest: str
    day: str
    tally: str | None
    heir_of: str  #: the task whose place it takes


class NewGroup(msgspec.Struct, array_like=True, kw_only=True, gc=False):
    """What new tasks share, as `create_alone.lua` and `create_plain.lua` take it."""

    entry: Packed
    head: str  #: what their versions begin with
    queue: str
    kind: str
    created: str
    score: str
    day: str
    tally: str | None
    lists: tuple[str, ...] | None
    size: int  #: how many tasks


class EndGroup(msgspec.Struct, array_like=True, kw_only=True, gc=False):
    """What changes share, as `commit_plain.lua` takes it."""

    entry: Packed
    guard: str  #: what their versions begin with before
    next: str  #: and after
    queue: str
    state: str
    created: str
    timer: str | None
    dead_letter: bool
    results: int  #: what becomes of their results
    day: str
    tally: str | None
    lists: tuple[str, ...] | None
    size: int  #: how many changes


class RestoreItem(msgspec.Struct, array_like=True, kw_only=True, gc=False):
    """A record of another store as `restore.lua` takes it."""

    id: str
    definition: Packed
    status: Packed
    entry: Packed
    head: str  #: what its version begins with
    moves: list[Packed]
    apart: bool  #: whether the moves are kept apart
    cell: Packed | None
    result: Packed | None
    asked: str  #: the run that was asked to stop
    edges: list[tuple[str, int]]
    satisfied: tuple[str, ...]
    keeps_key: bool
    digest: str
    tallies: list[tuple[int, str, int]]


FIELDS = {
    "entry": PackedEntry.__struct_fields__,
    "create": CreateItem.__struct_fields__,
    "new_group": NewGroup.__struct_fields__,
    "end_group": EndGroup.__struct_fields__,
    "restore": RestoreItem.__struct_fields__,
}
"""By the name that scripts use."""
