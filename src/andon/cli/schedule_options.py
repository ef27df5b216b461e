"""The options of `andon schedules`: when a schedule fires, and its task."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
import msgspec

from andon.cli.arguments import args_of, json_or_text, priority_of
from andon.cli.session import PROFILE_NAMES
from andon.cli.submit import check_names, pairs_of
from andon.cli.values import (
    COUNT_OR_NONE,
    DURATION,
    DURATION_OR_NONE,
    WHEN_OR_NONE,
    When,
    cleared,
    comma_separated,
)
from andon.model.recurrence import Recurrence

if TYPE_CHECKING:
    from andon.client.app import Andon
    from andon.engine.base import Submission

Command = Callable[..., Any]

_NONE = "none"

UNCOUNTED_TIMES = (
    click.option(
        "--cron", multiple=True, metavar="EXPR", help="'0 2 * * *', or @daily. May be repeated."
    ),
    click.option("--every", type=DURATION, help="Instead of --cron: 30s, 5m, 1h30m."),
    click.option("--tz", metavar="ZONE", help="Of --cron and --exclude: Europe/Berlin; else UTC."),
    click.option(
        "--exclude",
        multiple=True,
        metavar="WHEN",
        help="Leave out 2026-12-25, 2026-12-24/2027-01-01, or what a cron expression matches. "
        "May be repeated.",
    ),
    click.option(
        "--anchor", type=WHEN_OR_NONE, metavar="TIME", help="Of --every: count from this time."
    ),
    click.option("--start", type=WHEN_OR_NONE, metavar="TIME", help="No time before it."),
    click.option("--end", type=WHEN_OR_NONE, metavar="TIME", help="No time at it or after it."),
    click.option("--jitter", type=DURATION, help="Fall due up to so much later."),
    click.option(
        "--catch-up",
        type=click.Choice(["latest", "none", "all"]),
        help="What is made up for after an outage; the latest, if nothing is said.",
    ),
    click.option(
        "--catch-up-window",
        type=DURATION_OR_NONE,
        metavar="DURATION",
        help="Make up for nothing that is later than this.",
    ),
)

TIMES = (
    *UNCOUNTED_TIMES,
    click.option("--count", type=COUNT_OR_NONE, metavar="N", help="So many times at the most."),
)

TASK = (
    click.option("--args", "arguments", metavar="JSON", help="Arguments; - reads them from stdin."),
    click.option("--queue", metavar="NAME", help="Where the tasks go; that of their type."),
    click.option("--priority", metavar="N", help="-4 to 5, or a name from lowest to highest."),
    click.option("--version", type=int, metavar="N", help="Version of the task type."),
    click.option(
        "--deadline-in",
        type=DURATION_OR_NONE,
        metavar="DURATION",
        help="What each task has until it must have ended.",
    ),
    click.option("--key", metavar="KEY", help="Concurrency key."),
    click.option("--group", metavar="GROUP"),
    click.option("--tag", "tags", multiple=True, metavar="TAG", help="May be repeated."),
    click.option(
        "--header", "headers", multiple=True, metavar="NAME=VALUE", help="May be repeated."
    ),
    click.option(
        "--option", "options", multiple=True, metavar="NAME=JSON", help="A policy option."
    ),
    click.option("--retry", metavar="NAME", help="A named retry policy; see andon policies."),
    click.option(
        "--profile",
        metavar="PROFILE",
        type=click.Choice(PROFILE_NAMES),
        help="Whose defaults apply; the profile of the application.",
    ),
    click.option(
        "--app", "app_spec", metavar="APP", help="Check name and arguments against its code."
    ),
)

RULES = (
    click.option(
        "--overlap",
        type=click.Choice(["allow", "skip", "queue", "replace"]),
        help="What becomes of a task while the one before has not ended: it runs beside it, is "
        "left out, waits, or takes its place, for which that one is cancelled.",
    ),
    click.option(
        "--pause-after",
        type=COUNT_OR_NONE,
        metavar="N",
        help="Pause when so many have failed in a row.",
    ),
)


def adding(*groups: tuple[Callable[[Command], Command], ...]) -> Callable[[Command], Command]:
    """Add the options of these groups to a command, in their order."""

    def add(command: Command) -> Command:
        for option in reversed([option for group in groups for option in group]):
            command = option(command)
        return command

    return add


def times_given(given: dict[str, Any], now: int) -> dict[str, Any]:
    """The fields of a `Recurrence` that were given; they are taken out of `given`. Times that count
    from now do so from `now`, ms UTC."""
    fields: dict[str, Any] = {}
    for name in Recurrence.__struct_fields__:
        value = given.pop(name, None)
        if value is None or value == ():
            continue
        fields[name] = _time_field(name, value, now)
    return fields


def _time_field(name: str, value: Any, now: int) -> Any:
    if name in ("cron", "exclude"):
        return () if value == (_NONE,) else value
    if isinstance(value, When):
        at = value.on(now)
        # counted from now, it was not meant to the millisecond
        return at if value.at is not None else at // 1000 * 1000
    if name == "every":
        return int(value) if value == int(value) else value
    return cleared(value)


def rules_given(given: dict[str, Any]) -> dict[str, Any]:
    """What was given of the schedule's own rules; it is taken out of `given`."""
    rules = {name: given.pop(name) for name in ("overlap", "pause_after")}
    return {name: cleared(value) for name, value in rules.items() if value is not None}


def task_given(app: "Andon", name: str, given: dict[str, Any]) -> "tuple[Submission, set[str]]":
    """What each occurrence is, and which fields of it were given. Raises like a submit."""
    arguments, version = given.pop("arguments"), given.pop("version")
    deadline_in = given.pop("deadline_in")
    fields: dict[str, Any] = {
        **{option: given.pop(option) for option in ("queue", "key", "group")},
        "priority": None if (text := given.pop("priority")) is None else priority_of(text),
        "tags": comma_separated(given.pop("tags")) or None,
        "headers": pairs_of(given.pop("headers"), "--header") or None,
    }
    fields = {option: value for option, value in fields.items() if value is not None}
    policy = {n: json_or_text(v) for n, v in pairs_of(given.pop("options"), "--option").items()}
    if (retry := given.pop("retry")) is not None:
        policy["retry"] = retry
    check_names(policy)
    args = None if arguments is None else args_of(arguments)
    draft = app.draft(name, args, version=version or 0, **fields, **policy)
    seconds = None if deadline_in is None else cleared(deadline_in)
    submission = msgspec.structs.replace(draft.submission, deadline_in=seconds)
    said = {*fields}
    for field, is_said in (
        ("args", arguments is not None),
        ("version", version is not None),
        ("deadline_in", deadline_in is not None),
        ("options", bool(policy)),
    ):
        said |= {field} if is_said else set()
    return submission, said
