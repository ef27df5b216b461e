"""Checks the descriptions of workers and task types before a store keeps them. Pure."""

from andon.lifecycle.admission import MOST_VERSION, check_given, check_moment, check_text
from andon.lifecycle.bounds import LARGEST_COUNT
from andon.lifecycle.policies import check_options
from andon.model.code import Code
from andon.model.errors import InvalidSubmission
from andon.model.fleet import TypeInfo, WorkerInfo

MOST_WORKER_ID = 128
_MOST_QUEUES = 1_000
_MOST_TYPES = 10_000
_MOST_TYPE_NAME = 129  # a pattern has a star more than a name


def check_worker_id(worker: str) -> None:
    """Refuse an id that is empty, longer than `MOST_WORKER_ID`, or no text for every store."""
    if not worker:
        raise InvalidSubmission("A worker needs an id.", field="worker")
    check_text(worker, field="worker", most=MOST_WORKER_ID)


def check_worker(info: WorkerInfo) -> None:
    """Raise `InvalidSubmission` for a description that a store cannot keep."""
    check_worker_id(info.id)
    check_text(info.host, field="host")
    if len(info.queues) > _MOST_QUEUES:
        raise InvalidSubmission(f"A worker names at most {_MOST_QUEUES} queues.", field="queues")
    for queue in info.queues:
        check_given(queue, field="queues")
        check_text(queue, field="queues")
    for field in ("pid", "concurrency", "active"):
        count = getattr(info, field)
        if not 0 <= count <= LARGEST_COUNT:
            raise InvalidSubmission(f"{field} is 0 to {LARGEST_COUNT:,}, not {count}.", field=field)
    for field in ("started_at", "seen_at"):
        check_moment(getattr(info, field), field=field)


def check_type(info: TypeInfo) -> None:
    """Raise `InvalidSubmission` for a type whose name or version no task can have, or whose policy
    has an option that there is not."""
    if not info.name:
        raise InvalidSubmission("A task type needs a name.", field="name")
    check_text(info.name, field="name", most=_MOST_TYPE_NAME)
    if not 0 <= info.version <= MOST_VERSION:
        raise InvalidSubmission(
            f"version is 0 to {MOST_VERSION:,}, not {info.version}.", field="version"
        )
    check_options(info.policy)


def check_code(code: Code) -> None:
    """Raise `InvalidSubmission` for a list of types that is too long, or names what none can be."""
    if len(code.types) > _MOST_TYPES:
        raise InvalidSubmission(f"A worker names at most {_MOST_TYPES:,} types.", field="types")
    for name, version in code.types:
        check_type(TypeInfo(name=name, version=version))
