"""From a submission to the definition that is stored: defaults filled in, times made absolute."""

import hashlib

import msgspec
from msgspec.structs import replace

from andon.engine.base import Submission
from andon.engine.policy_resolver import PolicyResolver
from andon.lifecycle.admission import LATEST_MS
from andon.lifecycle.holding import check_on_held, limited, on_held_of
from andon.lifecycle.parents import check_needs, once_each
from andon.model.errors import InvalidSubmission, PayloadTooLarge
from andon.model.headers import OF_THE_CALL
from andon.model.task import Definition

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


def digest_of(submission: Submission) -> str:
    """Hash over what the caller gave, the id left out: equal for a repeat (docs/rulings.md,
    R26)."""
    if not OF_THE_CALL.isdisjoint(submission.headers):
        given = {k: v for k, v in submission.headers.items() if k not in OF_THE_CALL}
        submission = replace(submission, headers=given)
    try:
        encoded = _encode(submission)
    except UnicodeEncodeError as error:
        raise InvalidSubmission(
            f"The submission holds {error.object[error.start]!r}, half of a character, in a text; "
            "texts are UTF-8."
        ) from None
    except OverflowError:
        raise InvalidSubmission(
            "The submission holds a number beyond 64 bits elsewhere than in its arguments; nothing "
            "there takes one."
        ) from None
    return hashlib.blake2b(encoded, digest_size=12).hexdigest()


def define(
    submission: Submission, resolver: PolicyResolver, now: int, max_payload: int
) -> Definition:
    """The definition of a submission at `now`. Raises `InvalidSubmission`."""
    s = submission
    if len(s.args) > max_payload:
        most = max(max_payload, resolver.profile_of(s.profile).max_args)
        if len(s.args) > most:
            raise PayloadTooLarge("args", len(s.args), most)
    queue = resolver.queue_of(s) if s.queue is None else s.queue
    policy, type_known, profile = resolver.policy(queue, s.name, s.version, s.options, s.profile)
    run_at = s.run_at
    if s.delay is not None:
        run_at = now + _milliseconds(s.delay, "delay")
    deadline = s.deadline
    if s.deadline_in is not None:
        deadline = now + _milliseconds(s.deadline_in, "deadline")
    definition = Definition(  # by position: so many names cost 1 us more (docs/decisions)
        s.id,
        s.name,
        queue,
        s.version,
        s.priority,
        s.args,
        policy,
        {} if type_known else s.options,  # policy_given
        type_known,
        once_each(s.dependencies) if s.dependencies else (),
        s.requires,
        s.load_dependencies,
        run_at,
        deadline,
        s.expires_at,
        s.unique_key,
        s.key,
        s.group,
        s.scopes,
        s.tags,
        s.headers,
        digest_of(s),
        profile.name,
    )
    if s.needs is not None:
        definition = replace(definition, needs=s.needs)
        check_needs(definition)
    if s.on_held == "refuse" and not s.supersede_active and s.max_delay is None:
        return definition
    on_held = on_held_of(s.on_held, supersede_active=s.supersede_active, max_delay=s.max_delay)
    definition = limited(replace(definition, on_held=on_held), now)
    check_on_held(definition)
    return definition


def _milliseconds(seconds: float, field: str) -> int:
    if not seconds >= 0:
        raise InvalidSubmission(f"{field} must not be negative, got {seconds}.", field=field)
    if seconds > LATEST_MS / 1000:
        raise InvalidSubmission(f"{field} is later than the year 9999.", field=field)
    return round(seconds * 1000)
