"""Draws the findings of the doctor."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import htpy as h

from andon.dashboard.pages.parts import table
from andon.dashboard.views.looks import line_of

if TYPE_CHECKING:
    from htpy import Node

    from andon.engine.findings import Finding

_SIGNS = {"ok": ("✓", "good"), "note": ("!", "runs"), "wrong": ("✗", "bad")}


def content(found: "Sequence[Finding]") -> Iterator["Node"]:
    """Every finding, problems first."""
    wrong = sum(one.level.value == "wrong" for one in found)
    notes = sum(one.level.value == "note" for one in found)
    order = ["wrong", "note", "ok"]
    yield h.div(".heading")[
        h.h1["Doctor"],
        h.p(".dim")[
            f"{wrong} wrong, {notes} worth knowing, {len(found) - wrong - notes} fine. With your "
            "application at hand it sees more: ",
            h.code["andon doctor APP"],
        ],
    ]
    yield table(
        "findings",
        ["level", "about", "finding", "what to do"],
        (
            h.tr[
                h.td(".tight")[_sign(one.level.value)],
                h.th(scope="row")[line_of(one.about, 120)],
                h.td[h.bdi[line_of(one.text, 600)]],
                h.td[one.todo and h.code[h.bdi[line_of(one.todo, 400)]]],
            ]
            for one in sorted(found, key=lambda one: order.index(one.level.value))
        ),
        label="Findings",
    )


def _sign(level: str) -> "Node":
    sign, tone = _SIGNS[level]
    return h.span(f".state.{tone}")[h.span(".sign", aria_hidden="true")[sign], " ", level]
