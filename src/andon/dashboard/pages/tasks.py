"""Draws lists of tasks: filters, rows, and acts on them."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import htpy as h

from andon.dashboard.pages.parts import act, age, queue_link, state, table, task_link
from andon.dashboard.views.acts import MANY
from andon.dashboard.views.looks import line_of
from andon.dashboard.views.tasks import STATES, TaskFilter, TaskList, TaskRow

if TYPE_CHECKING:
    from htpy import Node, Renderable

    from andon.dashboard.pages.frame import Place

_TEXTS = (
    ("name", "name"),
    ("id", "id begins"),
    ("key", "key"),
    ("group", "group"),
    ("tag", "tag"),
    ("worker", "worker"),
)


def content(place: "Place", view: TaskList, queues: Sequence[str]) -> Iterator["Node"]:
    """The whole page."""
    yield h.div(".heading")[h.h1["Tasks"], h.p(".dim")[_how_many(view)]]
    yield filters(place, view.asked, queues)
    yield bulk(place, view.asked)
    yield rows(place, view)
    yield pager(place, view)


def _how_many(view: TaskList) -> str:
    return "" if view.total is None else f"{view.total:,} {view.asked.words}"


def filters(place: "Place", asked: TaskFilter, queues: Sequence[str]) -> "Renderable":
    """A form of filters: each narrows the list."""
    return h.form("#filters.filters", method="get", action=place.to("/tasks"))[
        h.label["state", _states(asked)],
        h.label[
            "queue",
            h.select(name="queue", data_submits="")[
                h.option(value="")["any"],
                (
                    h.option(value=name, selected=name == asked.queue)[line_of(name, 60)]
                    for name in sorted({*queues, *filter(None, [asked.queue])})
                ),
            ],
        ],
        (
            h.label[
                label,
                h.input(type="text", name=name, value=getattr(asked, name), maxlength="256"),
            ]
            for name, label in _TEXTS
        ),
        h.label[
            "order",
            h.select(name="order", data_submits="")[
                (
                    h.option(value=value, selected=value == asked.order)[label]
                    for value, label in (
                        ("", "as suits"),
                        ("newest", "newest first"),
                        ("oldest", "oldest first"),
                        ("due", "due first"),
                    )
                )
            ],
        ],
        h.button(".main", type="submit")["Find"],
        asked != TaskFilter() and h.a(".button", href=place.to("/tasks"))["Clear"],
    ]


def _states(asked: TaskFilter) -> "Renderable":
    several = len(asked.states) > 1
    return h.select(name="state", data_submits="")[
        h.option(value="")["any"],
        several
        and h.option(value=asked.states[0].value, selected=True)[
            " or ".join(one.value for one in asked.states)
        ],
        (
            h.option(value=one.value, selected=not several and one in asked.states)[one.value]
            for one in STATES
        ),
    ]


def may_act(place: "Place", asked: TaskFilter) -> list[tuple[str, str]]:
    """The acts on the listed tasks that the visitor may do: names and labels."""
    queue = asked.queue or "*"
    return [
        (name, act.label)
        for name, act in MANY.items()
        if place.may(f"{act.scope}{queue}")
        and (not asked.states or any(state in act.fits for state in asked.states))
    ]


def bulk(
    place: "Place", asked: TaskFilter, *, letters: bool = False, fingerprint: str = ""
) -> "Node":
    """Acts on the chosen tasks, or on all that the filter finds. Each first shows how many.
    `letters`: only on dead letters, of one group if a fingerprint is given."""
    acts = [one for one in may_act(place, asked) if not letters or one[0] in ("retry", "delete")]
    if not acts:
        return None
    return h.div(".acts", role="group", aria_label="Acts on tasks")[
        h.span(".dim", data_chosen="", aria_live="polite"),
        [
            act(
                place,
                "/bulk/chosen",
                f"{label}…",
                value=name,
                title=f"{label} those that are chosen; you are asked first",
                says=f"{label} chosen tasks",
            )
            for name, label in acts
        ],
        h.span(".dim")["all that match:"],
        [
            act(
                place,
                "/bulk/matching",
                f"{label} all…",
                value=name,
                looks="danger" if name in ("delete", "cancel") else "",
                title=f"{label} all {asked.words}; you are told how many, and asked, first",
                says=f"{label} all that match",
            )
            for name, label in acts
        ],
        # The filter is sent with it; the chosen tasks are in the rows.
        [h.input(type="hidden", form="act", name=name, value=value) for name, value in asked.pairs],
        letters and h.input(type="hidden", form="act", name="letters", value="yes"),
        fingerprint and h.input(type="hidden", form="act", name="fingerprint", value=fingerprint),
    ]


def rows(place: "Place", view: TaskList) -> "Renderable":
    """The rows."""
    chooses = bool(may_act(place, view.asked))
    return table(
        "tasks",
        [
            chooses
            and h.th(".tight")[
                h.input(type="checkbox", data_every="", aria_label="Choose all on this page")
            ],
            "task", "name", "queue", "state", "tries", "created", "note",
        ],
        (row(place, one, view.now, chooses=chooses) for one in view.rows),
        empty=_nothing(view),
        label="Tasks",
    )  # fmt: skip


def _nothing(view: TaskList) -> str:
    if view.next:
        return "None was found so far."
    return "No task is like that." if view.asked != TaskFilter() else "There is no task yet."


def row(place: "Place", one: TaskRow, now: int, *, chooses: bool) -> "Renderable":
    """One task in a list."""
    return h.tr(data_row="")[
        chooses
        and h.td(".tight")[
            h.input(
                type="checkbox", form="act", name="chosen", value=one.id,
                aria_label=f"Choose {one.id}",
            )
        ],
        h.th(scope="row")[task_link(place, one.id)],
        h.td[h.a(".quiet", href=place.to("/tasks", name=one.name))[h.bdi[one.name]]],
        h.td[queue_link(place, one.queue)],
        h.td[state(one.state)],
        h.td(".num")[one.tries or ""],
        h.td(".tight")[age(one.created_at, now)],
        h.td(".text", class_=["text", {"bad": one.is_bad}], title=one.note)[h.bdi[one.note]],
    ]  # fmt: skip


def pager(place: "Place", view: TaskList) -> "Renderable":
    """Links to the next page and to the first; and whether the search for this one goes on."""
    base = dict(view.asked.pairs)
    return h.nav(
        "#pager.acts", aria_label="More tasks", hidden=not view.next and not view.asked.cursor
    )[
        view.is_cut
        and h.p(".dim")[
            "No index has just these: tasks are looked through one by one, and not all have been. ",
            not view.asked.cursor and h.span(".live-only")["What is found comes by itself. "],
        ],
        view.asked.cursor and h.a(".button", href=place.to("/tasks", **base))["⇤ First"],
        view.next
        and h.a(".button", rel="next", href=place.to("/tasks", **base, cursor=view.next))[
            "Look on ⇥" if view.is_cut else "Next ⇥"
        ],
    ]
