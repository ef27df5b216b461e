"""Draws acts on many: the confirmation, and the progress."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import htpy as h

from andon.dashboard.pages.parts import meter, task_link
from andon.dashboard.views.acts import MANY
from andon.dashboard.views.looks import line_of

if TYPE_CHECKING:
    from htpy import Node, Renderable

    from andon.dashboard.bulk import Doing
    from andon.dashboard.pages.frame import Place

_MOST_SHOWN = 10


def question(
    place: "Place",
    *,
    act: str,
    words: str,
    number: int,
    is_whole: bool,
    fields: Sequence[tuple[str, str]],
    cursor: str,
    examples: Sequence[str],
    back: str,
) -> Iterator["Node"]:
    """How many tasks the act would touch, and the buttons to confirm it."""
    label, what = MANY[act].label, MANY[act].what
    how_many = f"{number:,}" if is_whole else f"at least {number:,}"
    noun = "task" if number == 1 and is_whole else "tasks"
    yield h.section("#question.message")[
        h.h1[f"{label} {how_many} {noun}?"],
        h.p["Those meant: ", h.b[h.bdi[line_of(words)]], "."],
        h.p(".dim")[what, " Tasks that are submitted after you say yes are left alone."],
        not is_whole
        and h.p[
            "Counting goes through the tasks one by one here, and has not come to their end. "
            "You may go on counting, or do it to all of them, however many they are."
        ],
        examples
        and h.ul[
            (h.li[task_link(place, one)] for one in examples[:_MOST_SHOWN]),
            len(examples) > _MOST_SHOWN
            and h.li(".dim")[f"and {len(examples) - _MOST_SHOWN:,} more"],
        ],
        h.div(".acts")[
            number > 0
            and h.button(
                type="submit",
                form="act",
                formaction=place.to("/bulk/do"),
                name="do",
                value=act,
                class_="danger" if act in ("cancel", "delete") else "main",
            )[f"{label} {how_many} {noun}"],
            not is_whole
            and h.button(
                type="submit", form="act", formaction=place.to("/bulk/matching"), name="do",
                value=act,
            )["Go on counting"],
            h.a(".button", href=place.root + back)["Do nothing"],
        ],
        [h.input(type="hidden", form="act", name=name, value=value) for name, value in fields],
        h.input(type="hidden", form="act", name="counted", value=str(number)),
        h.input(type="hidden", form="act", name="whole", value="yes" if is_whole else ""),
        cursor and h.input(type="hidden", form="act", name="counted-to", value=cursor),
    ]  # fmt: skip


def progress(place: "Place", doing: "Doing") -> Iterator["Renderable"]:
    """The progress of an act."""
    tally = doing.tally
    expected = doing.expected
    share = tally.found / expected if expected else 0.0
    said = f"{tally.found:,}" + ("" if expected is None else f" of {expected:,}") + " tasks"
    heading = {
        "waits": "waits for another act to end",
        "runs": "goes on",
        "done": "✓ done",
        "failed": "✗ ended early",
    }[doing.state]
    yield h.section("#doing.message", role="status")[
        h.h1[f"{doing.label}: {heading}"],
        h.p["Those meant: ", h.b[h.bdi[line_of(doing.words)]], "."],
        bool(expected) and meter(1.0 if doing.state == "done" else share, said),
        h.p[
            f"{said}: {tally.changed:,} changed, {tally.unchanged:,} had nothing to do, "
            f"{tally.refused:,} refused."
        ],
        doing.error
        and h.p(".bad")[f"⚠ {doing.error} What was done stays done; doing it again is safe."],
        doing.refused
        and [
            h.h2["Refused"],
            h.ul[
                (
                    h.li[task_link(place, task_id), ": ", h.bdi[why]]
                    for task_id, why in doing.refused
                )
            ],
        ],
        h.p[h.a(".button", href=place.root + doing.back)["Back to the list"]],
    ]
