"""Decides when an alert rule fires, repeats and clears. Pure: from the rules, their old state and
one reading, it makes their new state and the notices.

Rules are looked at once a minute. A rule fires by subject (a queue, a schedule, a worker, a kind of
error); what happens to several subjects of one rule in one minute is one notice. While a subject
fires no further notice is sent of it, unless the rule says how often.
"""

import msgspec

from andon.lifecycle.alerts.checking import EVENTS, condition_digest
from andon.lifecycle.alerts.seeing import Readings, Seen, remembered, sampled, seen_by
from andon.lifecycle.minutes import MINUTE_MS
from andon.model.alerts import AlertBook, AlertState, Happened, Notice, Rule, RuleState, Subject

MOST_SUBJECTS = 50
"""How many subjects of a rule are kept, the worst; only the number of the others is."""

MOST_TEXT = 160
"""How many characters of an observation are kept: all of the state has to fit into one note."""

MOST_NAMED = 20
"""Subjects that a notice names."""

MOST_OWED = 50
"""Notices that may wait to be handed over; beyond them the oldest go."""

SHOWN_MS = 3_600_000
"""How long a condition that is over at once is shown as firing, and not notified again."""

_Told = dict[Happened, list[tuple[str, str]]]


def judged(book: AlertBook, state: AlertState, readings: Readings) -> AlertState:
    """The state of the rules after a reading. The notices to send are in its outbox."""
    at = readings.now // MINUTE_MS * MINUTE_MS
    rules: dict[str, RuleState] = {}
    owed = list(state.owed)
    for name, rule in sorted(book.rules.items()):
        digest = condition_digest(rule)
        own = state.rules.get(name)
        if own is None or own.digest != digest:
            own = RuleState(digest)
        after, told = _judge(rule, own, seen_by(rule, readings, state, own), at)
        rules[name] = sampled(rule, readings, after)
        if rule.targets:
            owed += _notices(name, rule, after, told, at)
    kinds = {rule.when: True for rule in book.rules.values()}
    state = remembered(state, kinds, readings)
    return msgspec.structs.replace(state, at=at, rules=rules, owed=tuple(owed[-MOST_OWED:]))


def _judge(
    rule: Rule, own: RuleState, seen: dict[str, Seen] | None, at: int
) -> tuple[RuleState, _Told]:
    told: _Told = {}
    if seen is None:
        return own, told
    is_event = rule.when in EVENTS
    known, subjects = own.subjects, dict[str, Subject]()
    for name in [*known, *_by_worst(seen.keys() - known.keys(), seen)]:
        now_seen = seen.get(name)
        if name not in known and len(subjects) >= MOST_SUBJECTS:
            continue
        before = known.get(name)
        if now_seen is not None:
            after, happened = _holds(rule, before, now_seen, at, is_event=is_event)
        else:
            after, happened = _over(rule, before or Subject(at), at, is_event=is_event)
        if after is not None:
            subjects[name] = after
        if happened is not None:
            text = after.text if after is not None else (before or Subject(at)).text
            told.setdefault(happened, []).append((name, text))
    more = sum(name not in subjects for name in seen)
    return msgspec.structs.replace(own, subjects=subjects, more=more), told


def _by_worst(names: "set[str]", seen: dict[str, Seen]) -> list[str]:
    return sorted(names, key=lambda name: (-seen[name].value, name))


def _holds(
    rule: Rule, before: Subject | None, seen: Seen, at: int, *, is_event: bool
) -> tuple[Subject, Happened | None]:
    s = before or Subject(at)
    s = msgspec.structs.replace(s, over=0, text=seen.text[:MOST_TEXT])
    if not s.fired:
        if is_event or at - s.since >= rule.lasting * 1000:
            return msgspec.structs.replace(s, fired=at, told=at), "firing"
        return s, None
    every = rule.repeat_every
    if every is not None and at - s.told >= every * 1000:
        return msgspec.structs.replace(s, told=at), "still-firing"
    return s, None


def _over(
    rule: Rule, before: Subject, at: int, *, is_event: bool
) -> tuple[Subject | None, Happened | None]:
    if not before.fired:
        return None, None
    if is_event:
        return (before, None) if at - before.told < SHOWN_MS else (None, None)
    over = before.over or at
    if at - over >= rule.lasting * 1000:
        return None, "cleared"
    return msgspec.structs.replace(before, over=over), None


def _notices(name: str, rule: Rule, after: RuleState, told: _Told, at: int) -> list[Notice]:
    return [
        Notice(
            key=f"{name}:{after.digest}:{happened}:{at}",
            happened=happened,
            rule=name,
            when=rule.when,
            at=at,
            subjects=tuple((one, text) for one, text in subjects[:MOST_NAMED]),
            more=max(0, len(subjects) - MOST_NAMED) + (after.more if happened == "firing" else 0),
            targets=rule.targets,
        )
        for happened, subjects in told.items()
    ]
