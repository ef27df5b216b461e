"""Options of tasks beside their arguments: of a task type, and of one submission.

Names are checked here, and an error suggests the nearest one; values are checked where policies are
resolved.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any, Literal, cast, get_args

import msgspec

from andon.lifecycle.admission import LATEST_MS, PRIORITY_NAMES
from andon.model.errors import InvalidSubmission
from andon.model.policy import Backoff, PlainOptions, PolicyOptions
from andon.worker.follow_ups import HasId

Moment = datetime | int
"""A point in time: an aware datetime, or whole milliseconds since 1970 UTC."""

Errors = type[BaseException] | str | Iterable[type[BaseException] | str]
"""Exception types, error codes and type names, mixed; or one of them."""

BackoffFunction = Callable[[int, BaseException | None], float]
"""Seconds to wait before retry n (from 1) after the exception (None when the run was lost)."""

_OLDEST_MS = 10**11
"""March 1973 in ms: a smaller number was surely meant as seconds."""


class TaskOptions(PlainOptions, total=False):
    """Defaults of a task type, or of every type of an application: a policy's options.

    In the lists of errors exception types stand beside codes and names. Types match subclasses
    too, and are known to workers only; codes and names also decide where no Python runs
    (docs/rulings.md, R23).

    Example:
        from andon import Andon

        app = Andon("memory://", max_retries=5)  # for every type

        @app.task(max_retries=10, retry_delay=2, backoff="linear", no_retry_on=ValueError)
        async def fetch(url: str) -> None: ...
    """

    retry_on: Errors  #: when not empty, only these errors are retried
    no_retry_on: Errors  #: never retried; wins over `retry_on`
    backoff: Backoff | str | BackoffFunction
    """How the delay grows, by name or by a function of yours."""


WhenHeld = Literal["refuse", "return", "supersede", "extend"]
"""What a submit does whose unique key another task holds."""

ON_HELD: tuple[str, ...] = get_args(WhenHeld)


class SubmitOptions(PolicyOptions, total=False):
    """Options of one submission. Those of `PolicyOptions` override the task type's.

    Example:
        from datetime import UTC, datetime, timedelta

        tomorrow = datetime.now(UTC) + timedelta(days=1)
        first = await charge.options(id="order-7", priority="high", tags=["spring"]).submit(7, 990)
        later = await remind.options(run_at=tomorrow, depends_on=first, unique=True).submit("ann")
    """

    id: str  #: 1 to 64 of `A-Z a-z 0-9 _ : -`; the same id submitted again is the same task
    queue: str  #: else the type's queue
    priority: int | str  #: -4 to 5, higher first, or one of the seven Taskcluster names
    delay: float  #: seconds until the task may start
    run_at: Moment  #: when the task may start
    deadline_in: float  #: seconds until the whole task must have ended
    deadline: Moment  #: when the whole task must have ended
    expires_at: Moment  #: when the record goes at the latest
    depends_on: Iterable[HasId | str] | HasId | str  #: tasks that must end first
    requires: Literal["all-completed", "all-resolved"]  #: how they must end
    needs: int
    """How many of them must end so; by default all. The task starts as soon as so many have, and is
    `unreachable` as soon as so many cannot."""
    load_dependencies: bool  #: give the handler their results, as `ctx.dependencies`
    unique: bool  #: derive the unique key from the name and the arguments
    unique_by: Iterable[str]  #: derive it from the name and these arguments only
    on_held: WhenHeld
    """What a submit does whose unique key another task holds: `refuse` raises `UniqueKeyHeld` (the
    default); `return` gives the handle on that task; `supersede` cancels one that waits and takes
    its place, and waits for the end of one that is active; `extend` does the same, and starts
    `delay` seconds after the newest submit."""
    supersede_active: bool  #: `supersede` and `extend`: ask an active holder to cancel, too
    max_delay: float
    """`extend`: seconds after the first submit by which the start is put off at the most."""
    unique_key: str  #: no other task holds this key while this one does
    key: str  #: concurrency key, for a queue's `max_concurrent_per_key`
    group: str  #: a name that tasks share, to list and act on them by
    group_owner: str
    """Keep a record of the group: it refuses tasks of other owners, and all once it is sealed."""
    tags: Iterable[str]  #: words to find it by
    headers: Mapping[str, str]  #: go with the task to its handler, beside those of the type
    scopes: Iterable[str]  #: a service's token must satisfy each of them (docs/rulings.md, R29)
    connection: Any
    """Store the task in the transaction of this connection (PostgreSQL): it is there if and when
    that commits. Of psycopg, asyncpg, SQLAlchemy (or its session) or Django."""


_POLICY = frozenset(PolicyOptions.__annotations__)
_SUBMIT = frozenset(SubmitOptions.__annotations__)
_TASK = frozenset(TaskOptions.__annotations__)


_OF_THE_CALL = frozenset({"unique", "unique_by"})
"""Options for making a submission from a call, which are no part of it."""

_OF_ITS_CALLER = frozenset({"refuse", "return"})
"""Values of `on_held` that are not part of the submission: the client handles them."""


def check_names(given: Iterable[str], known: frozenset[str], what: str) -> None:
    """Raise `TypeError` naming the nearest option for a name that is none."""
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise TypeError(f"{what} has no option {name!r}.{hint}")


def check_submit_names(given: Iterable[str]) -> None:
    """Raise `TypeError` for a name that is no option of a submission."""
    check_names(given, _SUBMIT, "A submission")


class SplitOptions(msgspec.Struct, frozen=True):
    """A type's options, apart: what goes into the policy, and what stays with the worker."""

    policy: PolicyOptions
    retry_on: tuple[type[BaseException], ...] = ()
    no_retry_on: tuple[type[BaseException], ...] = ()
    backoff: BackoffFunction | None = None


def split_task_options(options: TaskOptions, what: str) -> SplitOptions:
    """Take a type's options apart. Raises `TypeError` for an unknown name or a wrong entry."""
    check_names(options, _TASK, what)
    policy: dict[str, Any] = {**options}
    kept: dict[str, Any] = {}
    for name in ("retry_on", "no_retry_on"):
        if name in policy:
            kept[name], names = _split_errors(policy.pop(name), name)
            if names:
                policy[name] = names
    if callable(policy.get("backoff")):
        kept["backoff"] = policy["backoff"]
        policy["backoff"] = Backoff.CUSTOM
    return SplitOptions(cast("PolicyOptions", policy), **kept)


def _split_errors(
    errors: Errors, option: str
) -> tuple[tuple[type[BaseException], ...], tuple[str, ...]]:
    if isinstance(errors, str | type):
        errors = (errors,)
    types: list[type[BaseException]] = []
    names: list[str] = []
    for error in cast("Iterable[Any]", errors):
        if isinstance(error, str):
            names.append(error)
        elif isinstance(error, type) and issubclass(error, BaseException):
            types.append(error)
        else:
            raise TypeError(f"{option} takes exception types and codes, not {error!r}.")
    return tuple(types), tuple(names)


_NAMES = frozenset(
    {"id", "queue", "unique_key", "key", "group", "group_owner", "tags", "depends_on"}
)


def given_of(options: SubmitOptions) -> SubmitOptions:
    """Those that are given: of ids, names and keys None is not, the empty string is
    (docs/rulings.md, R35)."""
    given = {n: value for n, value in options.items() if value is not None or n not in _NAMES}
    return cast("SubmitOptions", given)


def to_fields(options: SubmitOptions) -> dict[str, Any]:
    """The fields of a `Submission` that the options set, `unique` apart.

    Raises `TypeError` for an unknown name and `InvalidSubmission` for a value that cannot be.
    """
    check_submit_names(options)
    fields: dict[str, Any] = {}
    policy: dict[str, Any] = {}
    for name, value in options.items():
        if name in _POLICY:
            policy[name] = _policy_value(name, value)
        elif name == "depends_on":
            fields["dependencies"] = _ids(cast("Any", value))
        elif name == "on_held":
            if value not in ON_HELD:
                raise InvalidSubmission(
                    f"on_held is one of {', '.join(ON_HELD)}, not {value!r}.", field=name
                )
            if value not in _OF_ITS_CALLER:
                fields[name] = value
        elif name in _CONVERT:
            fields[name] = _CONVERT[name](name, value)
        elif name not in _OF_THE_CALL:
            fields[name] = value
    if policy:
        fields["options"] = policy
    for absolute, relative in (("run_at", "delay"), ("deadline", "deadline_in")):
        if absolute in fields and relative in fields:
            raise InvalidSubmission(f"Give {absolute} or {relative}, not both.", field=absolute)
    return fields


def _policy_value(name: str, value: Any) -> Any:
    if name in ("retry_on", "no_retry_on"):
        types, names = _split_errors(value, name)
        if types:
            raise InvalidSubmission(
                f"{name} of one submission takes codes and type names, not {types[0]!r}: the "
                "types themselves are known to the worker only. Give them to @app.task.",
                field=name,
            )
        return names
    if name == "backoff" and not isinstance(value, str):
        raise InvalidSubmission(
            f"backoff of one submission is one of {', '.join(Backoff)}; a function is known to "
            "the worker only. Give it to @app.task.",
            field=name,
        )
    return value


def _ids(parents: Iterable[HasId | str] | HasId | str) -> tuple[str, ...]:
    if isinstance(parents, str):
        return (parents,)
    if isinstance(parents, HasId):
        return (parents.id,)
    return tuple(parent if isinstance(parent, str) else parent.id for parent in parents)


def to_ms(field: str, moment: Any) -> int:
    """A moment as ms UTC. Raises `InvalidSubmission` for a naive datetime or a small number."""
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise InvalidSubmission(
                f"{field} is a datetime without a time zone. "
                "Give it one, for example with tzinfo=UTC.",
                field=field,
            )
        return round(moment.timestamp() * 1000)
    if type(moment) is int and _OLDEST_MS <= moment <= LATEST_MS:
        return moment
    raise InvalidSubmission(
        f"{field} is an aware datetime or whole milliseconds since 1970, not {moment!r}. "
        f"For seconds from now use {_RELATIVE.get(field, 'a datetime')}.",
        field=field,
    )


_RELATIVE = {"run_at": "delay", "deadline": "deadline_in", "expires_at": "expires"}


def to_priority(field: str, priority: Any) -> int:
    """A priority as a number. Raises `InvalidSubmission` for a name that is none."""
    if isinstance(priority, str):
        if priority not in PRIORITY_NAMES:
            raise InvalidSubmission(
                f"There is no priority {priority!r}. Use a number from -4 to 5, or one of "
                f"{', '.join(PRIORITY_NAMES)}.",
                field=field,
            )
        return PRIORITY_NAMES[priority]
    if type(priority) is not int:
        raise InvalidSubmission(f"Priority is an integer, not {priority!r}.", field=field)
    return priority


def _strings(field: str, values: Any) -> tuple[str, ...]:
    if isinstance(values, str):
        raise InvalidSubmission(f"{field} takes several strings; give [{values!r}].", field=field)
    return tuple(values)


def _headers(field: str, headers: Any) -> dict[str, str]:
    return dict(headers)


_CONVERT: dict[str, Callable[[str, Any], Any]] = {
    "priority": to_priority,
    "run_at": to_ms,
    "deadline": to_ms,
    "expires_at": to_ms,
    "tags": _strings,
    "scopes": _strings,
    "headers": _headers,
}


def to_datetime(ms: int | None) -> datetime | None:
    """Milliseconds since 1970 as an aware datetime in UTC."""
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)
