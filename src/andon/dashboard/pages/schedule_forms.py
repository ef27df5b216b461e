"""Draws the form of a schedule, of a new one or one that is changed, with a preview of its next
times."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, get_args

import htpy as h

from andon.dashboard.pages.parts import age, moment, section, table
from andon.dashboard.views.looks import line_of
from andon.dashboard.views.schedule_forms import FIELDS, ScheduleForm
from andon.engine.schedule_requests import Overlap

if TYPE_CHECKING:
    from htpy import Node, Renderable

    from andon.dashboard.pages.frame import Place
    from andon.model.recurrence import ExplainedTime

NEW = "/schedules/~new"
"""The name in paths of the form of a new schedule: no schedule has such a name."""

_CATCH_UP = {
    "latest": "the latest",
    "none": "none",
    "all": "all",
}
_OVERLAP = {
    "allow": "it runs beside it",
    "skip": "it is left out",
    "queue": "it waits for its end",
    "replace": "it takes its place",
}
_LINES: dict[str, tuple[str, str, str]] = {
    "schedule": ("name", "nightly-report", "47"),
    "task": ("task", "report.make", "200"),
    "queue": ("queue", "that of its type", "200"),
    "every": ("or every", "30s, 5m, 1h30m", "40"),
    "tz": ("time zone", "Europe/Berlin", "80"),
    "jitter": ("jitter, up to", "none", "40"),
    "pause_after": ("pause after failures in a row", "never", "16"),
}
_TEXTS = {
    "args": "arguments, as JSON",
    "cron": "cron expressions, one a line: 0 2 * * *",
    "exclude": "left out, one a line: 2026-12-25",
}


def content(place: "Place", form: ScheduleForm, now: int) -> Iterator["Node"]:
    """The form, what is wrong with it, and its next times once they were requested."""
    yield h.p(".crumbs")[h.a(href=place.to("/schedules"))["Schedules"]]
    yield h.h1["New schedule" if form.is_new else ["Edit ", h.bdi[line_of(form.name, 80)]]]
    yield _wrong(place, form)
    yield _form(place, form)
    if form.times is not None:
        yield section("Next times, if this is saved", times_table(form.times, now), name="preview")


def _wrong(place: "Place", form: ScheduleForm) -> "Node":
    if not form.wrong:
        return None
    return h.p("#wrong.bad", role="alert")[
        "⚠ ", h.bdi[line_of(form.wrong, 500)], " Nothing was changed.",
        not form.is_new
        and [" ", h.a(href=place.named("schedules", form.name))["How it stands now"], "."],
    ]  # fmt: skip


def _form(place: "Place", form: ScheduleForm) -> "Renderable":
    return h.form(".filters.change", method="post", action=place.to("/acts/schedule/preview"))[
        h.input(type="hidden", name="form-token", value=place.form_token),
        h.input(type="hidden", name="is-new", value="yes" if form.is_new else ""),
        h.input(type="hidden", name="hides", value="yes" if form.hides else ""),
        not form.is_new and list(_as_it_was(form)),
        form.is_new and _input(form, "schedule"),
        _input(form, "task"),
        _input(form, "queue"),
        _text(form, "cron"),
        _input(form, "every"),
        _input(form, "tz"),
        _input(form, "jitter"),
        _choice(form, "catch_up", "made up for after an outage", _CATCH_UP),
        _choice(
            form, "overlap", "while the one before has not ended",
            {name: _OVERLAP[name] for name in get_args(Overlap)},
        ),
        _input(form, "pause_after"),
        _text(form, "args"),
        form.hides
        and not form.is_new
        and h.p(".dim.wide")[
            "Not all of the arguments are shown as they are; left empty, they stay."
        ],
        _text(form, "exclude"),
        # Enter presses the first button: it changes nothing.
        h.button(type="submit")["Show its next times"],
        h.button(
            ".main", type="submit",
            formaction=place.to(f"/acts/schedule/{'add' if form.is_new else 'edit'}"),
        )["Make the schedule" if form.is_new else "Save"],
    ]  # fmt: skip


def _as_it_was(form: ScheduleForm) -> Iterator["Renderable"]:
    yield h.input(type="hidden", name="schedule", value=form.name)
    for field in FIELDS:
        yield h.input(type="hidden", name=f"was-{field}", value=form.was.get(field, ""))
    for part, digest in form.parts.items():
        yield h.input(type="hidden", name=f"part-{part}", value=digest)


def _input(form: ScheduleForm, field: str) -> "Renderable":
    label, example, most = _LINES[field]
    value = form.name if field == "schedule" else form.values.get(field, "")
    return h.label[
        label,
        h.input(
            type="text", name=field, value=value, placeholder=example, maxlength=most,
            autocomplete="off", spellcheck="false", **_fault(form, field),
        ),
    ]  # fmt: skip


def _text(form: ScheduleForm, field: str) -> "Renderable":
    text = form.values.get(field, "")
    return h.label(".wide")[
        _TEXTS[field],
        h.textarea(
            name=field, rows=str(min(20, 2 + text.count("\n"))), spellcheck="false",
            **_fault(form, field),
        )[text],
    ]  # fmt: skip


def _choice(form: ScheduleForm, field: str, label: str, among: dict[str, str]) -> "Renderable":
    return h.label[
        label,
        h.select(name=field, **_fault(form, field))[
            (
                h.option(value=name, selected=name == form.values.get(field))[said]
                for name, said in among.items()
            )
        ],
    ]


def _fault(form: ScheduleForm, field: str) -> dict[str, str]:
    """Attributes that mark a field as invalid and name the element with its error message."""
    return {"aria-invalid": "true", "aria-describedby": "wrong"} if form.field == field else {}


def times_table(times: "Sequence[ExplainedTime]", now: int) -> "Renderable":
    """Times of a schedule, and how changes of the clocks affect them."""
    return table(
        "next-times",
        ["when", "at", "its local time", "notes"],
        (
            h.tr[
                h.td[age(one.occurrence.due, now)],
                h.td[moment(one.occurrence.due)],
                h.td(".mono")[one.local],
                h.td[", ".join(one.notes)],
            ]
            for one in times
        ),
        empty="It fires no more.",
        label="Next times",
    )
