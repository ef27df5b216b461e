"""Draws parts that many pages have: times, states, tables, buttons of acts, bars."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import htpy as h

from andon.dashboard.views.looks import line_of, look_of
from andon.lifecycle.faces.fields import iso
from andon.model.wording import ago, span

if TYPE_CHECKING:
    from htpy import Node, Renderable

    from andon.dashboard.pages.frame import Place


def state(name: str | None, *, label: str = "") -> "Renderable":
    """A state: its sign, its name, its tone. `label`: the name under which a profile shows it."""
    look = look_of(name)
    return h.span(f".state.{look.tone}")[
        h.span(".sign", aria_hidden="true")[look.sign], " ", label or name or "gone"
    ]


def age(at: int | None, now: int) -> "Node":
    """A time as an age; the exact time beside it."""
    if at is None:
        return h.span(".dim")["·"]
    return h.time(datetime=iso(at), title=iso(at))[ago(at, now)]


def moment(at: int | None) -> "Node":
    """An exact time; the script shows it in the reader's zone."""
    if at is None:
        return h.span(".dim")["·"]
    text = iso(at)
    return h.time(".clock", datetime=text, title=text)[f"{text[:10]} {text[11:23]}Z"]


def duration(ms: int | None) -> str:
    """How long, in words."""
    if ms is None:
        return "·"
    return f"{max(0, ms)} ms" if ms < 1_000 else span(ms / 1000)


def count(number: int, *, dims: bool = True) -> "Renderable":
    """A number with separators; zero is dim."""
    return h.span(class_=["num", {"dim": dims and not number}])[f"{number:,}"]


def task_link(place: "Place", task_id: str) -> "Renderable":
    """The id of a task, as a link to it."""
    return h.a(".id", href=place.task(task_id))[h.bdi[task_id]]


def queue_link(place: "Place", name: str) -> "Renderable":
    """The name of a queue, as a link to it."""
    return h.a(href=place.named("queues", name))[h.bdi[line_of(name, 80)]]


def act(
    place: "Place",
    path: str,
    label: str,
    *,
    name: str = "do",
    value: str = "",
    looks: str = "",
    title: str = "",
    says: str = "",
) -> "Renderable":
    """A button of an act, of the page's one form. `says` names the act if the label alone does
    not."""
    return h.button(
        type="submit",
        form="act",
        formaction=place.to(path),
        name=name,
        value=value,
        class_=looks or None,
        title=title or None,
        aria_label=says or None,
    )[label]


def form(place: "Place", path: str, back: str, label: str, *content: "Node") -> "Renderable":
    """A separate form with fields: Enter in one of its lines sends this form only. It returns to
    the page `back`."""
    return h.form(".filters.change", method="post", action=place.to(path))[
        h.input(type="hidden", name="form-token", value=place.form_token),
        h.input(type="hidden", name="back", value=back),
        content,
        h.button(type="submit")[label],
    ]


def table(
    name: str,
    head: Sequence["Node"],
    rows: Iterable["Node"],
    *,
    empty: "Node" = "",
    label: str = "",
) -> "Renderable":
    """A table that scrolls sideways if it is too wide. `empty` is shown in its place if there are
    no rows."""
    drawn = list(rows)
    if not drawn:
        return h.div(f"#{name}.empty")[h.p[empty]]
    return h.div(f"#{name}.scroll", tabindex="0", role="region", aria_label=label or name)[
        h.table[
            h.thead[h.tr[(one if _is_cell(one) else h.th(scope="col")[one] for one in head)]],
            h.tbody[drawn],
        ]
    ]


def _is_cell(node: "Node") -> bool:
    return isinstance(node, h.Element) and str(node).startswith(("<th", "<td"))


def facts(pairs: Iterable[tuple[str, "Node"]]) -> "Renderable":
    """Names and values; those without a value are left out."""
    return h.dl(".facts")[
        (
            h.div[h.dt[name], h.dd[value]]
            for name, value in pairs
            if value is not None and value is not False and value not in ("", [])
        )
    ]


def meter(share: float, label: str, tone: str = "runs") -> "Renderable":
    """A bar of 100 units; its value is shown beside it as text."""
    width = round(100 * max(0.0, min(1.0, share)), 1)
    return h.svg(
        f".meter.{tone}", viewBox="0 0 100 8", preserveAspectRatio="none", role="img",
        aria_label=label,
    )[
        h.rect(".back", width="100", height="8", rx="2"),
        h.rect(".front", width=str(width), height="8", rx="2"),
    ]  # fmt: skip


def section(title: str, *content: "Node", name: str = "", tools: "Node" = None) -> "Renderable":
    """A part of a page under a heading."""
    return h.section(id=name or None)[
        h.div(".heading")[h.h2[title], tools and h.div(".tools")[tools]], content
    ]


def chip(text: str, href: str = "") -> "Renderable":
    """A tag, a limit, or another word in a frame."""
    shown = h.bdi[line_of(text, 80)]
    return h.a(".chip", href=href)[shown] if href else h.span(".chip")[shown]
