"""The outcomes for items of a batched call that a store cannot write, the same in all stores.

Each is what `each_alone` (`contract.isolation`) puts in the place of such an item. One without an
outcome of its own is named in the log.
"""

from andon.contract.edges import Ended, Link, Settlement
from andon.contract.isolation import left_out, logger
from andon.contract.notes import NotePut, PutNote
from andon.contract.outcomes import Changed, ChangeKind, Created, CreateKind, Verdict
from andon.contract.requests import Change, NotedTask, Renewal
from andon.model.fleet import TypeInfo
from andon.model.task import Task

STILL_WAITS = 1
"""The count for a child whose settlement cannot be written: it goes on waiting."""


def create_refused(_: Task | NotedTask | None, why: str) -> Created:
    """The outcome of a new record."""
    return Created(CreateKind.INVALID, why=why)


def change_refused(_change: Change, why: str) -> Changed:
    """The outcome of a change."""
    return Changed(ChangeKind.INVALID, why=why)


def renewal_refused(renewal: Renewal, why: str) -> Verdict:
    """The verdict on a renewal."""
    logger.error("The renewal of run %r of task %r was refused: %s", renewal.run, renewal.task, why)
    return Verdict.INVALID


def link_refused(link: Link, why: str) -> list[Ended]:
    """The outcome of a link: no ended parents."""
    left_out("A link", link.child, why)
    return []


def settlement_refused(settlement: Settlement, why: str) -> int:
    """How many dependencies a settlement leaves to its child."""
    left_out("The end of a dependency", settlement.child, why)
    return STILL_WAITS


def edge_refused(edge: tuple[str, str], why: str) -> None:
    """Log an edge that can be neither released nor removed."""
    left_out("An edge", edge[0], why)


def timer_refused(timer: tuple[str, *tuple[object, ...]], why: str) -> None:
    """Log a timer, by its task's id, that cannot be set; it fires again when its hold ends."""
    left_out("The timer", timer[0], why)


def type_refused(info: TypeInfo, why: str) -> None:
    """Log a task type that cannot be published."""
    left_out("The type", info.name, why)


def note_refused(put: PutNote, why: str) -> NotePut:
    """The outcome of a note."""
    left_out("A note", put.name.key, why)
    return NotePut.INVALID
