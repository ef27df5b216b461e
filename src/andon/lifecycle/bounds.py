"""Checks numbers in commands and settings: every store can keep them and every date can show them.
Pure. Commands from outside are checked here before anything is decided on them."""

from collections.abc import Callable
from typing import Any

from andon.lifecycle.admission import check_moment, check_priority
from andon.lifecycle.commands import Command, Fail, Reprioritise, Rerun, Reschedule, Snooze
from andon.model.errors import ConfigurationError, InvalidSubmission
from andon.model.fleet import QueueConfig
from andon.model.words import Event

LONGEST_DELAY_MS = 100 * 365 * 86_400_000
"""A hundred years, as for a policy's durations."""

LARGEST_COUNT = 2**31 - 1
"""The most that a queue's limits and weight may say, and a run's number: what fits everywhere."""

MOST_PER_SECOND = 1e9


def check_command(command: Command) -> None:
    """Raise `InvalidSubmission`, naming the field, for a time, delay or priority that no record
    can have."""
    check = _CHECKS.get(command.event)
    if check is not None:  # commands that end nearly every run have no check
        check(command)


def check_queue(config: QueueConfig) -> None:
    """Raise `ConfigurationError`, naming the setting, for a limit that no queue can have."""
    for name, least in (
        ("max_concurrent", 0),
        ("max_concurrent_per_key", 1),
        ("max_size", 1),
        ("weight", 1),
        ("rate_burst", 1),
    ):
        value = getattr(config, name)
        if value is not None and value < least:
            raise ConfigurationError(f"{name} must be at least {least}, got {value}.")
        if value is not None and value > LARGEST_COUNT:
            raise ConfigurationError(f"{name} must be at most {LARGEST_COUNT:,}, got {value}.")
    rate = config.rate_limit
    if rate is not None and not 0 < rate <= MOST_PER_SECOND:
        raise ConfigurationError(
            f"rate_limit must be more than 0 and at most {MOST_PER_SECOND:,.0f} a second, "
            f"got {rate}."
        )


def _check_delay(command: Snooze | Fail) -> None:
    delay = command.delay
    if delay is not None and not -LONGEST_DELAY_MS <= delay <= LONGEST_DELAY_MS:
        raise InvalidSubmission("A delay is at most a hundred years.", field="delay")


def _check_reschedule(command: Reschedule) -> None:
    check_moment(command.run_at, field="run_at")


def _check_rerun(command: Rerun) -> None:
    check_moment(command.run_at, field="run_at")
    check_moment(command.deadline, field="deadline")


def _check_reprioritise(command: Reprioritise) -> None:
    check_priority(command.priority)


# Each function is registered under the event of the one command type it takes.
_CHECKS: dict[Event, Callable[[Any], None]] = {
    Event.SNOOZE: _check_delay,
    Event.FAIL: _check_delay,
    Event.RESCHEDULE: _check_reschedule,
    Event.RERUN: _check_rerun,
    Event.REPRIORITISE: _check_reprioritise,
}
