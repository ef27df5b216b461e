"""What can be an alert rule or a target, and what is said of what cannot."""

from typing import Any

import pytest

from andon.lifecycle.alerts.checking import (
    MOST_RULES,
    check_book,
    condition_digest,
    rule_fields,
    rule_from,
    target_from,
)
from andon.model.alerts import AlertBook, Rule, Target
from andon.model.errors import ConfigurationError

SECRET = "sixteen-letters-and-more"


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        (
            {"when": "oldest-age", "above": "10m", "queue": "mail*", "for": "2m"},
            Rule(when="oldest-age", above=600, queue="mail*", lasting=120),
        ),
        ({"when": "dead-letters", "above": "100"}, Rule(when="dead-letters", above=100)),
        (
            {"when": "dead-letters", "growth": 5},
            Rule(when="dead-letters", growth=5, within=3_600),
        ),
        (
            {"when": "error-rate", "above": "5%", "queue": "*"},
            Rule(when="error-rate", above=0.05, within=300, min_runs=10),
        ),
        (
            {"when": "missed-occurrence", "targets": "a b a", "repeat_every": 3600},
            Rule(when="missed-occurrence", late=60, targets=("a", "b"), repeat_every=3_600),
        ),
        ({"when": "lost-worker", "worker": None, "queue": ""}, Rule(when="lost-worker")),
    ],
)
def test_a_rule_is_read_as_people_write_it(given: dict[str, Any], rule: Rule) -> None:
    assert rule_from("r", given) == rule
    assert rule_from("r", rule_fields(rule)) == rule


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "when is one of oldest-age"),
        ({"when": "oldest-age"}, "above is missing"),
        ({"when": "oldest-age", "above": "soon"}, "above: 'soon' is no duration"),
        ({"when": "oldest-age", "above": 5, "groth": 3}, "has no 'groth'"),
        ({"when": "new-error", "for": 5}, "has no 'for'"),
        ({"when": "dead-letters"}, "say above"),
        ({"when": "dead-letters", "above": 1.5}, "whole number"),
        ({"when": "dead-letters", "above": True}, "whole number"),
        ({"when": "dead-letters", "above": 1, "within": "5m"}, "within goes with growth"),
        ({"when": "error-rate", "above": "5"}, "from 0 to less than 1"),
        ({"when": "error-rate", "above": 0.1, "within": "2d"}, "1m to 1d"),
        ({"when": "error-rate", "above": 0.1, "within": "nan"}, "no duration"),
        ({"when": "new-error", "queue": "a b"}, "queue"),
        ({"when": "new-error", "repeat_every": 5}, "1m or more"),
        ({"when": "new-error", "targets": [3]}, "names of targets"),
        ({"when": "new-error", "targets": [f"t{n}" for n in range(11)]}, "10 targets"),
    ],
)
def test_a_rule_that_cannot_be_is_refused_with_its_name(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match="Alert rule 'slow'") as caught:
        rule_from("slow", given)
    assert said in str(caught.value)


def test_a_target_is_read_and_keeps_what_is_secret_of_the_one_before() -> None:
    hook = target_from("ops", {"how": "webhook", "url": "https://a.example/x", "secret": SECRET})
    assert hook == Target(how="webhook", url="https://a.example/x", secret=SECRET)
    moved = target_from("ops", {"how": "webhook", "url": "https://b.example/"}, hook)
    assert (moved.url, moved.secret) == ("https://b.example/", SECRET)
    chat = target_from("ops", {"how": "chat", "url": "http://c.example/t"}, hook)
    assert (chat.secret, chat.text_field) == ("", "text")
    page = target_from("ops", {"how": "command", "argv": ["/bin/page", "--now"]})
    assert page.argv == ("/bin/page", "--now")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"how": "pigeon"}, "how is one of webhook, chat, command"),
        ({"how": "webhook", "url": "https://a.example"}, "secret is a text"),
        ({"how": "webhook", "url": "https://a.example", "secret": "hidden"}, "secret is a text"),
        ({"how": "chat"}, "url is missing"),
        ({"how": "chat", "url": "ftp://hidden.example"}, "url is not one of"),
        ({"how": "chat", "url": "https://hidden.example:99999999"}, "url is not one of"),
        ({"how": "chat", "url": "https://"}, "url is not one of"),
        ({"how": "chat", "url": "https://a.example", "argv": ["x"]}, "has no 'argv'"),
        ({"how": "command", "argv": "rm -rf"}, "argv is a list"),
        ({"how": "command", "argv": [""]}, "begins with a program"),
    ],
)
def test_a_target_that_cannot_be_is_refused_and_no_secret_told(
    given: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigurationError, match="Alert target 'ops'") as caught:
        target_from("ops", given)
    assert said in str(caught.value)
    assert "hidden" not in str(caught.value)


def test_a_rule_for_a_target_that_is_not_there_is_refused_with_what_is_near() -> None:
    rule = Rule(when="new-error", targets=("opps",))
    book = AlertBook(rules={"r": rule}, targets={"ops": Target(how="command", argv=("x",))})
    with pytest.raises(ConfigurationError, match="Did you mean 'ops'"):
        check_book(book)


def test_rules_are_bounded() -> None:
    rules = {f"r{n}": Rule(when="new-error") for n in range(MOST_RULES + 1)}
    with pytest.raises(ConfigurationError, match="remove some"):
        check_book(AlertBook(rules=rules))


def test_whom_a_rule_tells_is_not_part_of_its_condition() -> None:
    rule = Rule(when="oldest-age", above=5)
    assert condition_digest(rule) == condition_digest(
        Rule(when="oldest-age", above=5, targets=("a",))
    )
    assert condition_digest(rule) != condition_digest(Rule(when="oldest-age", above=6))
