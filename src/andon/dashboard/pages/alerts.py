"""Draws alert rules, their states and their targets, and a form for each.

On a page with fields, the button that saves stands before any other: it is the one that Enter
presses.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, get_args

import htpy as h

from andon.dashboard.pages.parts import act, age, count, section, table
from andon.dashboard.views.alerts import LOOKS, AlertForm
from andon.dashboard.views.looks import line_of
from andon.lifecycle.alerts.telling import condition_of
from andon.model.alerts import ALERTS_QUEUE, When

if TYPE_CHECKING:
    from htpy import Node, Renderable

    from andon.dashboard.pages.frame import Place
    from andon.model.alerts import AlertsShown, RuleShown, TargetShown

_MOST_NAMED = 5

_LABELS = {
    "queue": ("queue, or mail* for all that begin so; none: each", "each queue"),
    "schedule": ("schedule, for a missed occurrence", "each schedule"),
    "worker": ("worker, for a lost worker", "each worker"),
    "above": ("above: an age, a number, or a share", "10m, 100 or 5%"),
    "growth": ("growth of dead letters", "50"),
    "within": ("within, for growth and error rate", "5m"),
    "min_runs": ("fewest runs of an error rate", "10"),
    "late": ("late, for a missed occurrence", "1m"),
    "for": ("for how long it must hold", "2m"),
    "repeat_every": ("tell it again every", "never"),
    "targets": ("targets to tell, apart by spaces", ""),
}

_KINDS = {
    "oldest-age": "the oldest task of a queue waits too long",
    "dead-letters": "dead letters: too many, or growing",
    "new-error": "a new kind of error among dead letters",
    "missed-occurrence": "a missed occurrence of a schedule",
    "lost-worker": "a worker that falls silent",
    "error-rate": "too many runs fail",
}


def content(place: "Place", shown: "AlertsShown", now: int) -> Iterator["Node"]:
    """All rules and targets."""
    yield h.div(".heading")[
        h.h1["Alerts"],
        h.p(".dim")[
            "Looked at once a minute",
            shown.looked_at is not None and [", last ", age(shown.looked_at, now)],
        ],
        h.div(".tools")[
            h.a(".button", href=place.to("/alerts/rule"))["New rule"],
            " ",
            h.a(".button", href=place.to("/alerts/target"))["New target"],
        ],
    ]
    yield section("Rules", rules(place, shown, now))
    yield section(
        "Targets",
        table(
            "alert-targets",
            ["target", "how", "where", h.td],
            (_target(place, one) for one in shown.targets),
            empty="There is none: nobody would be told.",
            label="Targets of alerts",
        ),
        tools=place.may(f"tasks:read:{ALERTS_QUEUE}")
        and h.a(".button", href=place.to("/tasks", queue=ALERTS_QUEUE))["Deliveries"],
    )


def rules(place: "Place", shown: "AlertsShown", now: int) -> "Renderable":
    """A row for each rule, with its state."""
    return table(
        "alert-rules",
        ["rule", "state", "fires when", "firing", "tells"],
        (_rule(place, one, now) for one in shown.rules),
        empty="There is none. Make a target, then a rule that tells it.",
        label="Alert rules",
    )


def _rule(place: "Place", one: "RuleShown", now: int) -> "Renderable":
    firing = [(name, subject) for name, subject in one.subjects if subject.fired]
    more = len(firing) - _MOST_NAMED + one.more
    return h.tr(data_row="")[
        h.th(scope="row")[h.a(href=place.named("alerts/rules", one.name))[h.bdi[one.name]]],
        h.td[_state(one.state)],
        h.td[line_of(condition_of(one.rule))],
        h.td[
            (
                h.div[h.bdi[line_of(name, 60)], " ", age(subject.fired, now)]
                for name, subject in firing[:_MOST_NAMED]
            ),
            more > 0 and h.div(".dim")["and ", count(more), " more"],
        ],
        h.td[line_of(", ".join(one.rule.targets), 120) or h.span(".dim")["nobody"]],
    ]


def _state(name: str) -> "Renderable":
    sign, tone = LOOKS.get(name, ("?", "off"))
    return h.span(f".state.{tone}")[h.span(".sign", aria_hidden="true")[sign], " ", name]


def _target(place: "Place", one: "TargetShown") -> "Renderable":
    return h.tr(data_row="")[
        h.th(scope="row")[h.a(href=place.named("alerts/targets", one.name))[h.bdi[one.name]]],
        h.td[one.how],
        h.td(".mono")[h.bdi[line_of(one.where, 120)]],
        h.td(".end")[
            act(
                place, "/acts/alerts/test", "Test", name="target", value=one.name,
                says=f"Tell {one.name} that this is a test",
            )
        ],
    ]  # fmt: skip


def rule(
    place: "Place", form: AlertForm, shown: "RuleShown | None", targets: list[str], now: int
) -> Iterator["Node"]:
    """The form of a rule, and which of its alerts fire."""
    yield h.p(".crumbs")[h.a(href=place.to("/alerts"))["Alerts"]]
    yield h.div(".heading")[
        h.h1["New rule" if form.is_new else h.bdi[form.name]],
        shown is not None and _state(shown.state),
    ]
    yield _wrong(form)
    yield h.div(".filters")[
        _name_of(form, "rule"),
        h.label[
            "watches",
            h.select(name="when", form="act")[
                (
                    h.option(value=kind, selected=kind == form.values.get("when"))[_KINDS[kind]]
                    for kind in get_args(When)
                )
            ],
        ],
        (
            h.label[
                label,
                h.input(
                    type="text", name=field, form="act", value=form.values.get(field, ""),
                    placeholder=example or " ".join(targets[:3]), maxlength="1400",
                    autocomplete="off", spellcheck="false",
                ),
            ]
            for field, (label, example) in _LABELS.items()
        ),
        act(
            place, "/acts/alerts/rule", "Make the rule" if form.is_new else "Save", looks="main",
            name="is-new", value="yes" if form.is_new else "",
        ),
        not form.is_new
        and act(
            place, "/acts/alerts/remove-rule", "Remove", looks="danger",
            says=f"Remove the rule {form.name}",
        ),
    ]  # fmt: skip
    if shown is not None:
        yield section("What it sees", _subjects(shown, now))


def _subjects(shown: "RuleShown", now: int) -> "Renderable":
    return table(
        "alert-subjects",
        ["what", "seen", "since", "fired"],
        (
            h.tr(data_row="")[
                h.th(scope="row")[h.bdi[line_of(name, 128)]],
                h.td(".text")[h.bdi[line_of(subject.text)]],
                h.td[age(subject.since, now)],
                h.td[age(subject.fired or None, now)],
            ]
            for name, subject in shown.subjects
        ),
        empty="Nothing that it watches for.",
        label="What the rule sees",
    )


def target(place: "Place", form: AlertForm, shown: "TargetShown | None") -> Iterator["Node"]:
    """The form of a target."""
    yield h.p(".crumbs")[h.a(href=place.to("/alerts"))["Alerts"]]
    yield h.h1["New target" if form.is_new else h.bdi[form.name]]
    yield _wrong(form)
    if shown is not None and shown.how == "command":
        yield h.p[
            "A command, ", h.code[h.bdi[line_of(shown.where)]], ". It runs on the machine of the "
            "service, so it is set by the command line beside the store: andon alerts target.",
        ]  # fmt: skip
    else:
        yield _target_fields(place, form, shown)
    if shown is not None:
        yield h.p(".acts")[
            act(
                place, "/acts/alerts/test", "Test", name="target", value=form.name,
                says=f"Tell {form.name} that this is a test",
            ),
            " ",
            act(
                place, "/acts/alerts/remove-target", "Remove", name="target", value=form.name,
                looks="danger", says=f"Remove the target {form.name}",
            ),
        ]  # fmt: skip


def _target_fields(place: "Place", form: AlertForm, shown: "TargetShown | None") -> "Renderable":
    how = form.values.get("how")
    kept = "" if shown is None else f"; empty: it stays {shown.where}"
    secret = "; empty: it stays" if shown is not None and shown.has_secret else ""
    return h.div(".filters")[
        _name_of(form, "target"),
        h.label[
            "told by",
            h.select(name="how", form="act")[
                h.option(value="webhook", selected=how == "webhook")["a signed request"],
                h.option(value="chat", selected=how == "chat")["a chat message"],
            ],
        ],
        h.label[
            f"URL{kept}",
            h.input(
                type="text", name="url", form="act", maxlength="2000", autocomplete="off",
                inputmode="url", spellcheck="false",
            ),
        ],
        h.label[
            f"secret that signs requests, 16 characters or more{secret}",
            h.input(
                type="password", name="secret", form="act", maxlength="200",
                autocomplete="new-password",
            ),
        ],
        h.label[
            "field of a chat message",
            h.input(
                type="text", name="text_field", form="act", maxlength="64", placeholder="text",
                value=form.values.get("text_field", ""), autocomplete="off",
            ),
        ],
        act(
            place, "/acts/alerts/target", "Make the target" if form.is_new else "Save",
            looks="main", name="is-new", value="yes" if form.is_new else "",
        ),
    ]  # fmt: skip


def _name_of(form: AlertForm, what: str) -> "Renderable":
    if not form.is_new:
        return h.input(type="hidden", name="name", value=form.name, form="act")
    return h.label[
        f"name of the {what}",
        h.input(
            type="text", name="name", form="act", value=form.name, maxlength="128",
            autocomplete="off", spellcheck="false",
        ),
    ]  # fmt: skip


def _wrong(form: AlertForm) -> "Node":
    return form.wrong and h.p(".bad", role="alert")["⚠ ", h.bdi[line_of(form.wrong, 500)]]
