"""Notices in words, as JSON, and sealed for the task that delivers them. Pure."""

import hashlib
import hmac
from typing import Any

import msgspec

from andon.lifecycle.alerts.checking import rule_fields
from andon.lifecycle.faces.fields import iso
from andon.model.alerts import AlertsShown, Notice, Rule, RuleShown, TargetShown
from andon.model.wording import plural, span

_SIGNS = {"firing": "🔴", "still-firing": "🔴", "cleared": "🟢", "test": "🔵"}
_WORDS = {
    "firing": "is firing",
    "still-firing": "is still firing",
    "cleared": "is cleared",
    "test": "is tested: nothing is wrong",
}


def text_of(notice: Notice) -> str:
    """The notice as a message of a few lines; the sign is never the only mark of its kind."""
    lines = [f"{_SIGNS[notice.happened]} Andon: {notice.rule} {_WORDS[notice.happened]}"]
    lines += [f"• {subject}: {seen}" for subject, seen in notice.subjects]
    if notice.more:
        lines.append(f"• and {notice.more:,} more")
    return "\n".join(lines)


def document_of(notice: Notice, delivery: str) -> dict[str, Any]:
    """The notice as a webhook gets it. `delivery` is the same in each try of one delivery."""
    return {
        "type": f"alert.{notice.happened}",
        "delivery": delivery,
        "rule": notice.rule,
        "when": notice.when,
        "at": iso(notice.at),
        "subjects": [{"name": name, "seen": seen} for name, seen in notice.subjects],
        "more": notice.more,
        "text": text_of(notice),
    }


def delivery_id(key: str, notice: Notice, target: str) -> str:
    """The id of the task that delivers to a target: always the same, and not to be guessed
    before."""
    told = f"{notice.key}\n{target}".encode()
    return "alert-" + hmac.new(key.encode(), told, hashlib.sha256).hexdigest()[:40]


def seal_of(key: str, notice: Notice, target: str) -> str:
    """Proves that a notice is one of Andon's own."""
    told = msgspec.json.encode(["notice", target, msgspec.structs.replace(notice, targets=())])
    return hmac.new(key.encode(), told, hashlib.sha256).hexdigest()


def is_sealed(key: str, notice: Notice, target: str, seal: str) -> bool:
    """Whether the seal is that of this notice."""
    return bool(key) and hmac.compare_digest(seal_of(key, notice, target), seal)


# --- rules and targets as they are shown ---


def condition_of(rule: Rule) -> str:
    """What a rule watches, in a line."""
    where = rule.queue or rule.schedule or rule.worker
    parts = [_condition(rule)]
    if where:
        parts.append(f"in {where}")
    if rule.lasting:
        parts.append(f"for {span(rule.lasting)}")
    if rule.repeat_every:
        parts.append(f"again every {span(rule.repeat_every)}")
    return ", ".join(parts)


def _condition(rule: Rule) -> str:
    match rule.when:
        case "oldest-age":
            return f"the oldest task waits for more than {span(rule.above or 0)}"
        case "dead-letters":
            said = f"more than {plural(int(rule.above), 'dead letter')}" if rule.above else ""
            said = "any dead letter" if rule.above == 0 else said
            if rule.growth is None:
                return said
            grown = f"more than {rule.growth:,} new dead letters within {span(rule.within or 0)}"
            return f"{said} or {grown}" if said else grown
        case "error-rate":
            return (
                f"more than {rule.above or 0:.2%} of runs fail within {span(rule.within or 0)}, "
                f"of {rule.min_runs or 0:,} or more"
            )
        case "new-error":
            return "a dead letter with a new kind of error"
        case "missed-occurrence":
            return f"an occurrence of a schedule is missed, or {span(rule.late or 0)} late"
        case "lost-worker":
            return "a worker falls silent"


def alerts_document(shown: AlertsShown) -> dict[str, Any]:
    """Rules and targets as JSON has them: times as ISO 8601 in UTC, durations as seconds."""
    return {
        "looked_at": None if shown.looked_at is None else iso(shown.looked_at),
        "owed": shown.owed,
        "rules": [rule_document(one) for one in shown.rules],
        "targets": [target_document(one) for one in shown.targets],
    }


def rule_document(shown: RuleShown) -> dict[str, Any]:
    """A rule and how it stands, as JSON has it."""
    return {
        "name": shown.name,
        **rule_fields(shown.rule),
        "state": shown.state,
        "subjects": [
            {
                "name": name,
                "since": iso(one.since),
                "fired": iso(one.fired) if one.fired else None,
                "seen": one.text,
            }
            for name, one in shown.subjects
        ],
        "more": shown.more,
    }


def target_document(shown: TargetShown) -> dict[str, Any]:
    """A target without what is secret of it, as JSON has it."""
    return {
        "name": shown.name,
        "how": shown.how,
        "where": shown.where,
        **({"text_field": shown.text_field} if shown.text_field else {}),
        **({"has_secret": True} if shown.has_secret else {}),
    }
