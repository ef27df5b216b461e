"""Draws dead letters, grouped by error fingerprint."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import htpy as h

from andon.dashboard.pages.parts import age, count, queue_link, table, task_link
from andon.dashboard.pages.tasks import bulk, rows
from andon.dashboard.views.letters import Letters
from andon.dashboard.views.looks import line_of
from andon.lifecycle.error_fingerprint import letter_pattern
from andon.model.letters import LetterGroup
from andon.model.wording import plural

if TYPE_CHECKING:
    from htpy import Node, Renderable

    from andon.dashboard.pages.frame import Place
    from andon.dashboard.views.tasks import TaskList
    from andon.model.task import Task


def content(place: "Place", view: Letters) -> Iterator["Node"]:
    """The whole page."""
    looked, groups = fragments(place, view)
    yield h.div(".heading")[
        h.h1["Dead letters"],
        looked,
        h.div(".tools")[
            view.queue and h.a(".button", href=place.to("/dead-letters"))["All queues"],
            h.a(".button", href=place.to("/dead-letters/list", queue=view.queue))["One by one"],
        ],
    ]
    yield groups


def fragments(place: "Place", view: Letters) -> Iterator["Renderable"]:
    """The live fragments of the page."""
    yield _looked(place, view)
    may = place.may(f"tasks:change:{view.queue or '*'}")
    yield table(
        "letters",
        ["what went wrong", "how many", "first", "last", "types", "queues", h.td],
        (_group(place, group, view, may=may) for group in view.shown),
        empty="✓ There are none. What fails for good, and is kept, is listed here.",
        label="Dead letters by cause",
    )


def _looked(place: "Place", view: Letters) -> "Renderable":
    """How many dead letters there are, and how many of them were read."""
    found, rarer = view.found, len(view.groups) - len(view.shown)
    goes_on = place.to("/dead-letters", queue=view.queue, on="1")
    more = not view.looks_on and (rarer > 0 or not found.whole)
    return h.p("#letters-looked.dim")[
        f"{view.total:,} in all",
        view.queue and f", of queue {view.queue}",
        not found.whole
        and f"; grouped here: the newest {found.looked:,}, so there may be more of each cause",
        rarer > 0 and f"; {plural(rarer, 'rarer cause')} left out",
        more and [". ", h.a(href=goes_on)["Look on"]],
    ]


def _group(place: "Place", group: LetterGroup, view: Letters, *, may: bool) -> "Renderable":
    listed = place.to("/dead-letters/list", fingerprint=group.fingerprint, queue=view.queue)
    return h.tr(data_row="")[
        h.th(scope="row")[
            h.a(href=listed)[h.bdi[line_of(group.pattern)]],
            h.div(".dim")["newest ", task_link(place, group.newest)],
        ],
        h.td[count(group.count)],
        h.td(".tight")[age(group.oldest_at, view.now)],
        h.td(".tight")[age(group.newest_at, view.now)],
        h.td[[h.div[h.bdi[line_of(name, 80)]] for name in group.names[:3]]],
        h.td[[part for name in group.queues for part in (queue_link(place, name), " ")]],
        h.td(".end")[
            may
            and [
                _of_group(place, "retry", "Run again…", group, queue=view.queue),
                " ",
                _of_group(place, "delete", "Delete…", group, queue=view.queue, looks="danger"),
            ]
        ],
    ]


def _of_group(
    place: "Place", name: str, label: str, group: LetterGroup, *, queue: str, looks: str = ""
) -> "Renderable":
    path = place.to("/bulk/letters", fingerprint=group.fingerprint, queue=queue)
    return h.button(
        type="submit",
        form="act",
        formaction=path,
        name="do",
        value=name,
        class_=looks or None,
        aria_label=f"{label.rstrip('…')} all of: {line_of(group.pattern)}",
    )[label]


def listed(
    place: "Place", view: "TaskList", fingerprint: str, first: "Sequence[Task]"
) -> Iterator["Node"]:
    """Dead letters one by one; of one group, if a fingerprint is given."""
    queue = view.asked.queue
    pattern = letter_pattern(first[0]) if fingerprint and first else ""
    yield h.p(".crumbs")[h.a(href=place.to("/dead-letters", queue=queue))["Dead letters"]]
    yield h.div(".heading")[
        h.h1[h.bdi[line_of(pattern)] if pattern else "Dead letters, one by one"],
        queue and h.p(".dim")["of queue ", queue_link(place, queue)],
    ]
    yield bulk(place, view.asked, letters=True, fingerprint=fingerprint)
    yield rows(place, view)
    more = view.next and place.to(
        "/dead-letters/list", fingerprint=fingerprint, queue=queue, cursor=view.next
    )
    if more:
        yield h.nav(".acts", aria_label="More")[h.a(".button", rel="next", href=more)["Next ⇥"]]
