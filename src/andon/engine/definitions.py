"""From a submission to the definition that is stored: defaults filled in, times made absolute."""

import hashlib

import msgspec

from andon.engine.base import Submission
from andon.engine.book import PolicyBook
from andon.lifecycle.admission import LATEST_MS
from andon.model.errors import InvalidSubmission, PayloadTooLarge
from andon.model.task import Definition

DEFAULT_QUEUE = "default"

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


def digest_of(submission: Submission) -> str:
    """Hash over what the caller gave, the id left out: equal for a repeat (R26)."""
    return hashlib.blake2b(_encode(submission), digest_size=12).hexdigest()


def define(submission: Submission, book: PolicyBook, now: int, max_payload: int) -> Definition:
    """The definition of a submission at `now`. Raises `InvalidSubmission`."""
    s = submission
    if len(s.args) > max_payload:
        raise PayloadTooLarge("args", len(s.args), max_payload)
    queue = s.queue or DEFAULT_QUEUE
    policy, type_known = book.policy(queue, s.name, s.version, s.options)
    run_at = s.run_at
    if s.delay is not None:
        run_at = now + _milliseconds(s.delay, "delay")
    deadline = s.deadline
    if s.deadline_in is not None:
        deadline = now + _milliseconds(s.deadline_in, "deadline")
    return Definition(
        id=s.id,
        name=s.name,
        queue=queue,
        version=s.version,
        priority=s.priority,
        args=s.args,
        policy=policy,
        policy_given={} if type_known else s.options,
        type_known=type_known,
        dependencies=s.dependencies,
        requires=s.requires,
        load_dependencies=s.load_dependencies,
        run_at=run_at,
        deadline=deadline,
        expires_at=s.expires_at,
        unique_key=s.unique_key,
        key=s.key,
        group=s.group,
        scopes=s.scopes,
        tags=s.tags,
        headers=s.headers,
        digest=digest_of(s),
        profile=book.profile.name,
    )


def _milliseconds(seconds: float, field: str) -> int:
    if not seconds >= 0:
        raise InvalidSubmission(f"{field} must not be negative, got {seconds}.", field=field)
    if seconds > LATEST_MS / 1000:
        raise InvalidSubmission(f"{field} is later than the year 9999.", field=field)
    return round(seconds * 1000)
