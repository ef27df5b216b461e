"""The queues of task types whose code is elsewhere, as their workers have published them.

An engine fills in the queue of a submission that names none. Callers that need it beforehand, to
sign or show it, ask here.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from andon.engine.base import Engine, Submission
from andon.lifecycle.routing import queue_of_type
from andon.model.headers import SIGNATURE_HEADER


async def with_queues(engine: Engine, submissions: Sequence[Submission]) -> Sequence[Submission]:
    """The same submissions, each with the queue that it goes to. One that was signed without one
    stays as it was signed."""
    if all(_is_settled(one) for one in submissions):
        return submissions
    queues = {(kind.name, kind.version): kind.queue for kind in await engine.types()}
    return [
        one
        if _is_settled(one)
        else replace(one, queue=queue_of_type(queues, one.name, one.version))
        for one in submissions
    ]


def _is_settled(submission: Submission) -> bool:
    return submission.queue is not None or SIGNATURE_HEADER in submission.headers
