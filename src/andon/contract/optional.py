"""What a store may offer besides the contract, each a protocol of its own, and whether it does.

Nothing here is needed: where a store does not offer it, the engine does the same in several calls.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

from andon.contract.outcomes import Created
from andon.contract.requests import Change, NotedTask
from andon.model.task import Task
from andon.model.words import State

Offer = TypeVar("Offer")


def offered(store: object, protocol: type[Offer]) -> Offer | None:
    """The store, if it has all that a protocol asks for, itself or wrapped; else None. `isinstance`
    does not see what a wrapper passes on with `__getattr__`, since Python 3.12."""
    asked = {*vars(protocol), *protocol.__annotations__}
    has_all = all(hasattr(store, name) for name in asked if not name.startswith("_"))
    return cast("Offer", store) if has_all else None


class Joined(Protocol):
    """Records to be created in a transaction of the user's: visible if and when that commits."""

    def create(self, connection: Any, places: Sequence[int] | None = None) -> list[Created]:
        """Create them, or those at some places, on a connection whose calls block, in the thread
        that may use it."""
        ...

    async def create_async(
        self, connection: Any, places: Sequence[int] | None = None
    ) -> list[Created]:
        """Create them on a connection whose calls are awaited, on the loop it belongs to."""
        ...

    def states(self, connection: Any, ids: Sequence[str]) -> list[State | None]:
        """The answer of `Store.states`, as that transaction sees it."""
        ...

    async def states_async(self, connection: Any, ids: Sequence[str]) -> list[State | None]:
        """The same on a connection whose calls are awaited."""
        ...


@runtime_checkable
class TransactionalInsert(Protocol):
    """A store that lives in a database whose transactions users have themselves."""

    def is_awaited(self, connection: Any) -> bool:
        """Whether the connection's calls are awaited. Raises `TypeError` for what is none."""
        ...

    async def join(self, tasks: Sequence[Task]) -> Joined:
        """Make ready what creates these records."""
        ...


@runtime_checkable
class CountsDeadLetters(Protocol):
    """A store whose `stats` and `find` cost more than keeping the bound of dead letters may."""

    async def oldest_dead_letters(self, *, beyond: int, most: int) -> list[Task]:
        """The oldest dead letters beyond a number of them, up to `most`, oldest first."""
        ...


@runtime_checkable
class ParksClaims(Protocol):
    """A store at which claims can be parked (`ClaimRequest.parks`)."""

    @property
    def parks_claims(self) -> bool:
        """Whether they can, as it is opened and set up."""
        ...

    def on_handoff(self, worker: str, act: Callable[[list[Task]], None] | None) -> None:
        """Call `act`, on the loop, with the tasks that are handed to this worker's parked claim,
        which ends the claim; None: take no more of them."""
        ...


@runtime_checkable
class CreatesWithNotes(Protocol):
    """A store that writes a record and a note in one step."""

    async def create_with_notes(self, noted: Sequence[NotedTask]) -> list[Created]:
        """Create records as `Store.create` does, each only if its note has the expected value; else
        it is NOTE_CHANGED. The notes are written first, each by compare and set, in the order
        given, so that several of one name follow upon one another; a note stays written if its
        record is refused."""
        ...


@runtime_checkable
class CreatesTogether(Protocol):
    """A store that writes several records in one step."""

    async def create_together(self, tasks: Sequence[Task]) -> bool:
        """Create all of the records and return True; or change nothing and return False, because
        one of them is refused or its id is taken, or, at the store's choice, may be refused: it
        asks for a unique key, or its queue has a limit. Raises an error of
        `contract.isolation.AT_FAULT`, nothing written, if one cannot be written at all."""
        ...


@runtime_checkable
class SettlesAtOnce(Protocol):
    """A store that settles the edges of a task in the step that writes its end."""

    def settle_at_once(self, unblocked: Callable[[Task, int], Change | None]) -> None:
        """From now on, let a commit that ends a task also settle the edges which its end satisfies,
        if they are few, and unblock the dependents that wait for nothing more. The outcome
        `has_dependents` then says that some edges are left for `settle`.

        `unblocked` decides: it is called with the record of such a dependent, which is blocked,
        and the store's time in ms UTC, in a thread of the store's, and returns the change to be
        written with the end. If it returns None or fails, or the change cannot be applied, the
        edge is left as it was."""
        ...


@runtime_checkable
class TakesMany(Protocol):
    """A store that creates more than `MAX_BATCH` records in a call, and is the faster for it."""

    most_created: int
