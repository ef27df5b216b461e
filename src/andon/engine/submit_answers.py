"""The answers to submits, from what was wrong with a submission or from the store's outcome."""

import logging

from andon.contract.isolation import why_of
from andon.contract.outcomes import Created, CreateKind
from andon.engine.base import Submission, Submitted
from andon.lifecycle.admission import is_repeat_of, was_invalid
from andon.model.errors import (
    AndonError,
    InvalidSubmission,
    PayloadTooLarge,
    QueueFull,
    TaskConflict,
    UniqueKeyHeld,
)
from andon.model.task import Task

log = logging.getLogger("andon.engine")


def answer(task: Task, created: Created, max_size: int | None) -> Submitted:
    """The answer to a creation, from the store's outcome; `max_size` of its queue."""
    definition = task.definition
    if created.kind is CreateKind.CREATED:
        return accepted(task)
    if created.kind is CreateKind.EXISTS:
        return Submitted(task.id, created.state, created=False, error=_repeated(task, created))
    if created.kind is CreateKind.KEY_HELD:
        held = UniqueKeyHeld(definition.unique_key or "", created.holder)
        return Submitted(task.id, None, created=False, error=held)
    if created.kind is CreateKind.TOO_LARGE:
        large = PayloadTooLarge("submission", created.size, created.limit)
        return Submitted(task.id, None, created=False, error=large)
    if created.kind is CreateKind.INVALID:
        invalid = InvalidSubmission(f"Task {task.id!r} cannot be stored: {created.why}.")
        return Submitted(task.id, None, created=False, error=invalid)
    return Submitted(task.id, None, created=False, error=QueueFull(definition.queue, max_size or 0))


def accepted(task: Task) -> Submitted:
    """The answer to one that is stored; with the error if it was recorded though it can never work
    (docs/rulings.md, R25)."""
    status = task.status
    error = None if status.last_error is None else InvalidSubmission(status.last_error.message)
    return Submitted(task.definition.id, status.state, True, error)


def refused(submission: Submission, error: Exception) -> Submitted:
    """The answer to a submission of which no record can be made."""
    if not isinstance(error, AndonError):
        log.error("A submission could not be taken; it alone was refused.", exc_info=error)
        error = InvalidSubmission(f"The submission cannot be taken: {why_of(error)}.")
    return Submitted(submission.id, None, created=False, error=error)


def _repeated(task: Task, created: Created) -> AndonError | None:
    """The error in the answer where the id is taken: a repeat is answered like the first."""
    if not is_repeat_of(task.definition.digest, created.digest):
        return TaskConflict(task.id)
    if was_invalid(created.digest):
        failure = task.status.last_error
        why = f"Task {task.id!r} was recorded as invalid." if failure is None else failure.message
        return InvalidSubmission(why)
    return None
