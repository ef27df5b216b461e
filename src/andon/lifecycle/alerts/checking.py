"""Reads alert rules and targets from user input, with errors that name the field. Pure."""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from hashlib import blake2b
from typing import Any, get_args
from urllib.parse import urlsplit

import msgspec

from andon.lifecycle.admission import check_name
from andon.model.alerts import AlertBook, How, Rule, Target, When
from andon.model.durations import seconds_of
from andon.model.errors import ConfigurationError, InvalidSubmission

MOST_RULES = 50
MOST_TARGETS = 50
MOST_TOLD = 10
"""Targets of one rule."""

LONGEST_WITHIN = 86_400.0
"""Rates are kept for a day."""

SHORTEST_SECRET = 16

_MOST_TEXT = 2_000
_ALWAYS = ("when", "targets", "repeat_every")
_FIELDS: dict[str, tuple[str, ...]] = {
    "oldest-age": ("queue", "above", "for"),
    "dead-letters": ("queue", "above", "growth", "within", "for"),
    "new-error": ("queue",),
    "missed-occurrence": ("schedule", "late"),
    "lost-worker": ("worker",),
    "error-rate": ("queue", "above", "within", "min_runs", "for"),
}
"""Which fields a rule of each kind has, beside those that all have."""

_OF_TARGET: dict[str, tuple[str, ...]] = {
    "webhook": ("url", "secret"),
    "chat": ("url", "text_field"),
    "command": ("argv",),
}

EVENTS = frozenset({"new-error", "missed-occurrence", "lost-worker"})
"""Conditions that are over at once: notified once, and not cleared."""


def check_alert_name(name: str, what: str) -> None:
    """Refuse a name that is not 1 to 128 of `[A-Za-z0-9_./:-]`. Raises `ConfigurationError`."""
    try:
        check_name(name, field=what)
    except InvalidSubmission as error:
        raise ConfigurationError(str(error)) from None


def rule_from(name: str, given: Mapping[str, Any]) -> Rule:
    """The rule from a user's fields: durations as seconds or as `10m`, a share as `5%`. None or an
    empty text means not given. Raises `ConfigurationError` naming the rule and field."""
    check_alert_name(name, "rule")
    try:
        return _rule(_said(given))
    except ValueError as error:
        raise ConfigurationError(f"Alert rule {name!r}: {error}") from None


def target_from(name: str, given: Mapping[str, Any], before: Target | None = None) -> Target:
    """The target from a user's fields. Secrets may be left out where `before` is a target of the
    same kind: they stay. Raises `ConfigurationError`, which never contains a secret."""
    check_alert_name(name, "target")
    try:
        return _target(_said(given), before)
    except ValueError as error:
        raise ConfigurationError(f"Alert target {name!r}: {error}") from None


def check_book(book: AlertBook) -> None:
    """Refuse too many rules or targets, and rules that name unknown targets. Raises
    `ConfigurationError`."""
    if len(book.rules) > MOST_RULES or len(book.targets) > MOST_TARGETS:
        raise ConfigurationError(
            f"There are at most {MOST_RULES} alert rules and {MOST_TARGETS} targets; remove some."
        )
    for name, rule in book.rules.items():
        for target in rule.targets:
            if target not in book.targets:
                raise ConfigurationError(
                    f"Alert rule {name!r}: there is no target {target!r}. "
                    + _hint(target, book.targets, "Make it: andon alerts target.")
                )


def condition_digest(rule: Rule) -> str:
    """A hash over what a rule watches: if it changes, earlier observations do not count."""
    told = msgspec.structs.replace(rule, targets=(), repeat_every=None)
    return blake2b(msgspec.json.encode(told, order="sorted"), digest_size=8).hexdigest()


def rule_fields(rule: Rule) -> dict[str, Any]:
    """A rule as a mapping that `rule_from` takes; durations are seconds."""
    return {name: value for name, value in msgspec.to_builtins(rule).items() if value is not None}


def fields_of(when: str) -> tuple[str, ...]:
    """Which fields rules of this kind have."""
    return (*_FIELDS.get(when, ()), *_ALWAYS)


# --- rules ---


def _said(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None and value != ""}


def _rule(given: dict[str, Any]) -> Rule:
    when = given.get("when")
    if when not in _FIELDS:
        kinds = ", ".join(get_args(When))
        raise ValueError(f"when is one of {kinds}, not {when!r}.")
    known = fields_of(when)
    _no_others(given, known, f"A rule on {when}")
    read: dict[str, Any] = {"when": when}
    for field, value in given.items():
        if field != "when":
            read[field] = _READ[field](field, value, when)
    rule = msgspec.convert(read, Rule)
    _check_needed(rule)
    return _with_defaults(rule)


def _check_needed(rule: Rule) -> None:
    match rule.when:
        case "oldest-age" | "error-rate" if rule.above is None:
            example = '"10m"' if rule.when == "oldest-age" else '"5%"'
            raise ValueError(f"above is missing: say when it fires, such as above = {example}.")
        case "dead-letters" if rule.above is None and rule.growth is None:
            raise ValueError(
                "say above (how many there may be), growth (how many may come), or both."
            )
        case "dead-letters" if rule.within is not None and rule.growth is None:
            raise ValueError("within goes with growth: say how many may come.")
        case _:
            pass


def _with_defaults(rule: Rule) -> Rule:
    if rule.when == "error-rate":
        within = 300.0 if rule.within is None else rule.within
        least = 10 if rule.min_runs is None else rule.min_runs
        return msgspec.structs.replace(rule, within=within, min_runs=least)
    if rule.growth is not None and rule.within is None:
        return msgspec.structs.replace(rule, within=3_600.0)
    if rule.when == "missed-occurrence" and rule.late is None:
        return msgspec.structs.replace(rule, late=60.0)
    return rule


def _seconds(field: str, value: Any, when: str) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{field} is a duration, not {value!r}.")
    try:
        seconds = seconds_of(str(value))
    except ValueError as error:
        raise ValueError(f"{field}: {error}") from None
    if field == "within" and not 60 <= seconds <= LONGEST_WITHIN:
        raise ValueError("within is 1m to 1d: rates are kept by the minute, for a day.")
    if field == "repeat_every" and seconds < 60:
        raise ValueError("repeat_every is 1m or more: rules are looked at once a minute.")
    if seconds > 366 * 86_400:
        raise ValueError(f"{field} is a year at the most.")
    return seconds


def _above(field: str, value: Any, when: str) -> float:
    if when == "oldest-age":
        return _seconds(field, value, when)
    if when == "error-rate":
        return _share(value)
    return float(_count(field, value, when))


def _share(value: Any) -> float:
    try:
        text = str(value).strip()
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise ValueError(f'above is a share, such as "5%" or 0.05, not {value!r}.') from None
    if isinstance(value, bool) or not 0 <= share < 1:
        raise ValueError(f'above is from 0 to less than 1, such as "5%" or 0.05, not {value!r}.')
    return share


def _count(field: str, value: Any, when: str) -> int:
    try:
        number = int(value) if isinstance(value, str) else value
    except ValueError:
        number = None
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= 10**12:
        raise ValueError(f"{field} is a whole number, 0 or more, not {value!r}.")
    return number


def _pattern(field: str, value: Any, when: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{field} is a text, not {value!r}.")
    begins = value.removesuffix("*")
    if begins:
        try:
            check_name(begins, field=field)
        except InvalidSubmission as error:
            raise ValueError(f"{error} A * may stand at its end.") from None
    return "" if value == "*" else value


def _names(field: str, value: Any, when: str) -> list[str]:
    names: list[Any] = value.split() if isinstance(value, str) else list(value)
    if not all(isinstance(one, str) for one in names):
        raise ValueError("targets are names of targets.")
    found = list(dict.fromkeys(names))
    if len(found) > MOST_TOLD:
        raise ValueError(f"a rule has {MOST_TOLD} targets at the most.")
    return found


_READ: dict[str, Callable[[str, Any, str], Any]] = {
    "queue": _pattern,
    "schedule": _pattern,
    "worker": _pattern,
    "above": _above,
    "growth": _count,
    "within": _seconds,
    "min_runs": _count,
    "late": _seconds,
    "for": _seconds,
    "repeat_every": _seconds,
    "targets": _names,
}


# --- targets ---


def _target(given: dict[str, Any], before: Target | None) -> Target:
    how = given.get("how")
    if how not in _OF_TARGET:
        raise ValueError(f"how is one of {', '.join(get_args(How))}, not {how!r}.")
    _no_others(given, (*_OF_TARGET[how], "how"), f"A {how}")
    if before is None or before.how != how:
        before = Target(how=how)
    if how == "command":
        return Target(how="command", argv=_argv(given.get("argv", before.argv)))
    url = _url(given.get("url", before.url))
    if how == "chat":
        field = given.get("text_field", before.text_field)
        if not isinstance(field, str) or len(field) > 64:
            raise ValueError("text_field is the name of a field, up to 64 characters.")
        return Target(how="chat", url=url, text_field=field)
    secret = given.get("secret", before.secret)
    if not isinstance(secret, str) or not SHORTEST_SECRET <= len(secret) <= 200:
        raise ValueError(
            f"secret is a text of {SHORTEST_SECRET} to 200 characters that the receiver knows too: "
            "it signs each request."
        )
    return Target(how="webhook", url=url, secret=secret)


def _url(url: Any) -> str:
    """The URL, if requests can be sent there. Errors do not contain it, because it may be
    secret."""
    if not isinstance(url, str) or not url:
        raise ValueError("url is missing: where to send it, http:// or https://.")
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or len(url) > _MOST_TEXT or not url.isascii() or not url.isprintable():
        raise ValueError("url is not one of http:// or https:// with a host, in ASCII.")
    return url


def _argv(argv: Any) -> tuple[str, ...]:
    try:
        words = msgspec.convert(argv, list[str])
    except msgspec.ValidationError:
        words = []
    if not words or any("\0" in one for one in words):
        raise ValueError('argv is a list of texts: a program and its arguments, as ["/bin/page"].')
    if not words[0] or sum(map(len, words)) > _MOST_TEXT:
        raise ValueError(f"argv begins with a program, and has {_MOST_TEXT:,} characters at most.")
    return tuple(words)


def _no_others(given: Iterable[str], known: tuple[str, ...], what: str) -> None:
    for field in given:
        if field not in known:
            hint = _hint(field, known, f"It has {', '.join(known)}.")
            raise ValueError(f"{what} has no {field!r}. {hint}")


def _hint(name: str, known: Iterable[str], otherwise: str) -> str:
    near = get_close_matches(name, list(known), n=1)
    return f"Did you mean {near[0]!r}?" if near else otherwise
