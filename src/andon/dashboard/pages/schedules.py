"""Draws schedules: when each fires next, and which task it submits."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import htpy as h

from andon.dashboard.pages.parts import act, age, facts, queue_link, section, state, table
from andon.dashboard.pages.schedule_forms import NEW, times_table
from andon.dashboard.views.bodies import Body
from andon.dashboard.views.looks import line_of
from andon.dashboard.views.schedules import times_of
from andon.engine.schedule_views import is_paused, next_due, queues_of, schedule_of

if TYPE_CHECKING:
    from htpy import Node, Renderable

    from andon.dashboard.pages.frame import Place
    from andon.model.recurrence import ExplainedTime
    from andon.model.task import Task


def content(
    place: "Place", found: "Sequence[Task]", now: int, more: str, *, may_make: bool
) -> Iterator["Node"]:
    """All schedules that have not ended."""
    yield h.div(".heading")[
        h.h1["Schedules"],
        may_make and h.div(".tools")[h.a(".button", href=place.to(NEW))["New schedule"]],
    ]
    yield rows(place, found, now)
    if more:
        yield h.nav(".acts", aria_label="More schedules")[
            h.a(".button", rel="next", href=place.to("/schedules", cursor=more))["Next ⇥"]
        ]


def rows(place: "Place", found: "Sequence[Task]", now: int) -> "Renderable":
    """A row for each schedule."""
    return table(
        "schedules",
        ["schedule", "fires", "next", "task", "queue", "fired", "last", h.td],
        (_row(place, task, now) for task in found),
        empty="There are none. Declare one in code, @app.task(cron=…), or make one here or by "
        "andon schedules add.",
        label="Schedules",
    )


def _row(place: "Place", task: "Task", now: int) -> "Renderable":
    schedule = schedule_of(task, task.id)
    return h.tr(data_row="", class_={"paused": is_paused(task)})[
        h.th(scope="row")[h.a(href=place.named("schedules", task.id))[h.bdi[task.id]]],
        h.td(".mono")[h.bdi[line_of(times_of(schedule.recurrence), 80)]],
        h.td[h.span(".state.off")["‖ paused"] if is_paused(task) else age(next_due(task), now)],
        h.td[h.bdi[line_of(schedule.template.name, 80)]],
        h.td[queue_link(place, schedule.template.queue)],
        h.td(".num")[f"{schedule.fired:,}"],
        h.td[
            schedule.last_id and h.a(".id", href=place.task(schedule.last_id))[schedule.last_id],
            schedule.failures > 0 and h.div(".bad")[f"⚠ {schedule.failures:,} failed in a row"],
        ],
        h.td(".end")[_acts(place, task)],
    ]


def _acts(place: "Place", task: "Task") -> "Node":
    if not all(place.may(f"tasks:change:{queue}") for queue in queues_of(task)):
        return None
    paused = is_paused(task)
    return [
        act(
            place, f"/acts/schedule/{'resume' if paused else 'pause'}",
            "▶ Resume" if paused else "‖ Pause", name="schedule", value=task.id,
            looks="cord pulled" if paused else "cord",
            says=f"{'Resume' if paused else 'Pause'} {task.id}",
        ),
        " ",
        act(
            place, "/acts/schedule/run", "Run now", name="schedule", value=task.id, looks="cord",
            says=f"Run {task.id} now",
        ),
    ]  # fmt: skip


def one(
    place: "Place",
    task: "Task",
    times: "Sequence[ExplainedTime]",
    args: Body | None,
    now: int,
    *,
    may_edit: bool,
) -> Iterator["Node"]:
    """One schedule with its next times."""
    schedule = schedule_of(task, task.id)
    d = schedule.template
    yield h.p(".crumbs")[h.a(href=place.to("/schedules"))["Schedules"]]
    yield h.div(".heading")[
        h.h1[h.bdi[task.id]],
        state(task.state.value),
        is_paused(task) and h.span(".state.off")["‖ paused"],
        h.div(".tools")[
            _acts(place, task),
            may_edit
            and [
                " ",
                h.a(".button", href=place.named("schedules", task.id) + "/edit")["Edit"],
            ],
        ],
    ]
    yield facts(
        [
            ("fires", h.span(".mono")[h.bdi[line_of(times_of(schedule.recurrence))]]),
            ("next", age(next_due(task), now) if next_due(task) else "not"),
            ("task", h.a(href=place.to("/tasks", name=d.name))[h.bdi[line_of(d.name, 120)]]),
            ("queue", queue_link(place, d.queue)),
            ("overlap", schedule.overlap),
            ("pauses after", _after(schedule.pause_after)),
            ("fired", f"{schedule.fired:,} times"),
            ("failures", f"{schedule.failures:,} in a row" if schedule.failures else None),
            ("last", schedule.last_id and h.a(href=place.task(schedule.last_id))[schedule.last_id]),
            ("application", line_of(schedule.application, 120)),
            ("release", line_of(schedule.release, 80)),
        ]
    )
    yield section(
        "Next times",
        times_table(times, now),
    )
    if args is not None and args.text:
        yield section(
            "Arguments", h.pre(tabindex="0", role="region", aria_label="Arguments")[args.text]
        )


def _after(failures: int | None) -> str:
    return f"{failures} failures in a row" if failures else ""
