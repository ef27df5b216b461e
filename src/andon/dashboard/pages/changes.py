"""Draws forms with fields: another start time, priority or arguments of a task, limits of a queue.

Each is a form of its own with the token of the session, so they are drawn for one visitor and never
live: a live page would draw over what the visitor writes.
"""

from typing import TYPE_CHECKING
from urllib.parse import quote

import htpy as h

from andon.dashboard.editing import SETTINGS, new_id
from andon.dashboard.pages.parts import form, section
from andon.dashboard.views.task import TaskView

if TYPE_CHECKING:
    from htpy import Node, Renderable

    from andon.dashboard.pages.frame import Place


def of_task(place: "Place", view: TaskView) -> "Node":
    """Forms that give a task another start time, another priority, or other arguments."""
    if not view.changes or not place.may(f"tasks:change:{view.queue}"):
        return None
    back = f"/tasks/{quote(view.id, safe='')}"
    this = h.input(type="hidden", name="task", value=view.id)
    return section(
        "Change it",
        "reschedule" in view.changes
        and form(
            place, "/acts/task/reschedule", back, "Reschedule", this,
            h.label["starts", h.input(
                type="text", name="run-at", required=True, maxlength="64", autocomplete="off",
                placeholder="+5m, now, 2030-01-31T12:00Z",
            )],
        ),
        "reprioritise" in view.changes
        and form(
            place, "/acts/task/reprioritise", back, "Reprioritise", this,
            h.label["priority, -4 to 5", h.input(
                type="text", name="priority", required=True, maxlength="16", autocomplete="off",
                value=str(view.priority),
            )],
        ),
        "edit" in view.changes and all(map(place.may, view.scopes)) and _edit(place, view, back),
        name="change",
    )  # fmt: skip


def _edit(place: "Place", view: TaskView, back: str) -> "Renderable":
    exact = view.args is not None and view.args.is_exact
    text = view.args.text if view.args is not None and exact else ""
    return h.details[
        h.summary["Edit the arguments"],
        h.p(".dim")[
            "The task is cancelled, and another submitted in its place that is the same in all "
            "else; each names the other."
        ],
        not exact
        and h.p(".dim")["Not all of them are shown as they are, so write all of them anew."],
        form(
            place, "/acts/task/edit", back, "Cancel it, and submit one with these",
            h.input(type="hidden", name="task", value=view.id),
            # The id is known before the form is sent, so that sending it twice makes one task.
            h.input(type="hidden", name="successor", value=new_id(view.now)),
            h.label(".wide")["arguments, as JSON", h.textarea(
                name="arguments", rows=str(min(20, 2 + text.count("\n"))), required=True,
                spellcheck="false",
            )[text]],
        ),
    ]  # fmt: skip


def of_queue(place: "Place", name: str, texts: dict[str, str]) -> "Renderable":
    """The limits of a queue, each as a text; an empty line removes one."""
    return form(
        place, "/acts/queue/configure", f"/queues/{quote(name, safe='')}", "Change",
        h.input(type="hidden", name="queue", value=name),
        [
            [
                # Fields that were not changed here are not set: another user may have changed them.
                h.input(type="hidden", name=f"was-{setting}", value=texts[setting]),
                h.label[what, h.input(
                    type="text", name=setting, value=texts[setting], maxlength="32",
                    autocomplete="off", placeholder="none",
                )],
            ]
            for setting, (what, _) in SETTINGS.items()
        ],
    )  # fmt: skip
