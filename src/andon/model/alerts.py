"""Alerts: rules, targets, notices, and the state of rules. Pure data.

`lifecycle.alerts` checks rules and decides when one fires.
"""

from typing import Literal

import msgspec

ALERTS_QUEUE = "andon.alerts"
"""The queue of the tasks that deliver alerts. `andon serve` works it."""

ALERT_NOTES = "alert"
"""The kind of the note that holds the state of the rules."""

LEFT_NOTES = "left-worker"
"""The kind of the notes that say which workers have left in good order, while a rule asks."""

When = Literal[
    "oldest-age", "dead-letters", "new-error", "missed-occurrence", "lost-worker", "error-rate"
]
"""What a rule watches: how long the oldest task of a queue waits; how many dead letters a queue
has, or how many came; a kind of error that no dead letter had before; an occurrence of a schedule
that was not submitted; a worker that fell silent; the share of runs that fail."""

How = Literal["webhook", "chat", "command"]
"""How a target gets notices: by a signed request, by a chat message, by a program."""

Happened = Literal["firing", "still-firing", "cleared", "test"]
"""The kinds of notices."""


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A condition that is watched. Durations are seconds. `when` decides which fields a rule
    has."""

    when: When
    queue: str = (
        ""  #: a queue, or how queues begin and then `*`; empty: every queue but Andon's own
    )
    schedule: str = ""  #: the same of schedules
    worker: str = ""  #: the same of ids of workers
    above: float | None = None
    """Fires above this: seconds for `oldest-age`, tasks for `dead-letters`, a share of 1 for
    `error-rate`."""
    growth: int | None = None  #: fires if more dead letters than this came `within` a time
    within: float | None = None  #: how far `growth` and `error-rate` look back
    min_runs: int | None = None  #: `error-rate` says nothing of fewer runs
    late: float | None = None  #: an occurrence that is this late was missed
    lasting: float = msgspec.field(default=0.0, name="for")
    """How long the condition must hold before it fires, and be over before it is cleared."""
    repeat_every: float | None = None  #: notify again this often while it holds; None: once
    targets: tuple[str, ...] = ()  #: names of the targets


class Target(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A receiver of alerts."""

    how: How
    url: str = ""  #: where to, for `webhook` and `chat`; that of a chat is a secret
    secret: str = ""  #: by which requests to a `webhook` are signed
    text_field: str = "text"  #: the field of a `chat` message that has the text
    argv: tuple[str, ...] = ()  #: program and arguments of a `command`


class AlertBook(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All rules and targets of a store, by name, as the store keeps them: with secrets."""

    key: str = ""  #: seals the notices in tasks, so that tasks of others are not delivered
    rules: dict[str, Rule] = {}
    targets: dict[str, Target] = {}


class Subject(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The state of one rule for one queue, schedule, worker or kind of error. Times are ms UTC."""

    since: int  #: the condition holds since then
    fired: int = 0  #: when it fired; 0: not yet
    told: int = 0  #: when a notice of it was last made
    over: int = 0  #: the condition is over since then, and not yet cleared; 0: it holds
    text: str = ""  #: what was seen last, in words


class RuleState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How one rule stands."""

    digest: str  #: of the condition it was decided on
    subjects: dict[str, Subject] = {}
    more: int = 0  #: subjects besides those that are kept by name
    samples: tuple[tuple[int, dict[str, int]], ...] = ()
    """For `growth`: dead letters by queue at some times, the oldest first."""


class SeenSchedule(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How far a schedule had come."""

    after: int  #: all times up to this one were dealt with, ms UTC
    fired: int  #: occurrences so far
    times: str  #: digest of its times


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """A notice of what happened to some subjects of a rule."""

    key: str  #: its id, the same in every repeat
    happened: Happened
    rule: str
    when: str  #: what the rule watches
    at: int  #: when it was seen, ms UTC
    subjects: tuple[
        tuple[str, str], ...
    ]  #: what it is about, each with what was seen; some of them
    more: int = 0  #: how many more there are
    targets: tuple[str, ...] = ()  #: targets that have not got it yet


class AlertState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How all rules stand, after one look a minute."""

    v: int = 1
    at: int = 0  #: beginning of the minute that was looked at last, ms UTC
    rules: dict[str, RuleState] = {}
    errors: dict[str, int] | None = (
        None  #: kinds of errors that were seen, and when last; None: none
    )
    letters: dict[str, int] = {}  #: dead letters by queue, at the last look at them
    looked: int = 0  #: when that was
    schedules: dict[str, SeenSchedule] | None = None
    workers: dict[str, int] | None = None  #: ids of workers, and when each was last seen
    owed: tuple[Notice, ...] = ()  #: what is decided, and not yet known to be handed over


class RuleShown(msgspec.Struct, frozen=True, kw_only=True):
    """A rule, and how it stands.

    Example:
        for rule in (await engine.alerts.shown()).rules:
            print(rule.name, rule.state, rule.subjects)
    """

    name: str
    rule: Rule
    state: Literal["firing", "waiting", "quiet", "new"]
    """`waiting`: the condition holds, though not for long enough. `new`: not looked at yet."""
    subjects: tuple[tuple[str, Subject], ...] = ()  #: the firing ones first, the oldest first
    more: int = 0  #: others of which only the number is kept


class TargetShown(msgspec.Struct, frozen=True, kw_only=True):
    """A target, without what is secret of it."""

    name: str
    how: How
    where: str  #: its URL without path and secrets, or its program
    text_field: str = ""
    has_secret: bool = False


class AlertsShown(msgspec.Struct, frozen=True, kw_only=True):
    """All rules and targets, by name."""

    rules: tuple[RuleShown, ...]
    targets: tuple[TargetShown, ...]
    looked_at: int | None  #: when the rules were looked at last, ms UTC
    owed: int = 0  #: notices that are decided and wait to be handed over
