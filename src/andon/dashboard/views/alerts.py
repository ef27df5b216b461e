"""Alert rules and targets as forms: each field is a text."""

from collections.abc import Mapping
from typing import Any

import msgspec

from andon.lifecycle.alerts.checking import rule_fields
from andon.model.alerts import RuleShown, TargetShown
from andon.model.durations import duration_text

RULE_FIELDS = (
    "when",
    "queue",
    "schedule",
    "worker",
    "above",
    "growth",
    "within",
    "min_runs",
    "late",
    "for",
    "repeat_every",
    "targets",
)
TARGET_FIELDS = ("how", "url", "secret", "text_field")
_DURATIONS = frozenset({"within", "late", "for", "repeat_every"})

LOOKS = {
    "firing": ("⚠", "bad"),
    "waiting": ("◷", "waits"),
    "quiet": ("✓", "good"),
    "new": ("○", "off"),
}
"""A sign and a tone for each state of a rule."""


class AlertForm(msgspec.Struct, frozen=True, kw_only=True):
    """A form: the texts of its fields, and what was wrong with them."""

    name: str = ""
    is_new: bool = True
    values: dict[str, str] = {}
    wrong: str = ""


def form_of_rule(shown: RuleShown) -> AlertForm:
    """The form of a rule as it is."""
    rule = shown.rule
    values = {field: _text(rule.when, field, value) for field, value in rule_fields(rule).items()}
    return AlertForm(name=shown.name, is_new=False, values=values)


def form_of_target(shown: TargetShown) -> AlertForm:
    """The form of a target as it is, without its secrets."""
    values = {"how": shown.how, "text_field": shown.text_field}
    return AlertForm(name=shown.name, is_new=False, values=values)


def given(values: Mapping[str, str]) -> dict[str, Any]:
    """The fields that were written into a form, without those left empty."""
    return {field: text for field, value in values.items() if (text := value.strip())}


def _text(when: str, field: str, value: Any) -> str:
    if field == "targets":
        return " ".join(value)
    if field in _DURATIONS or (field == "above" and when == "oldest-age"):
        return duration_text(value)
    if field == "above" and when == "error-rate":
        return f"{value * 100:g}%"
    return f"{value:g}" if isinstance(value, float) else str(value)
