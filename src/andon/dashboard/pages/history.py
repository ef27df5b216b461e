"""Draws the last hour and the last day as charts."""

from typing import TYPE_CHECKING

import htpy as h

from andon.dashboard.pages import charts
from andon.dashboard.views.minutes import Minutes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from htpy import Renderable


def cards(hour: Minutes, day: Minutes) -> "Renderable":
    """Runs that ended in the last hour and day, and how long they waited and took."""
    return h.div("#history.charts")[list(_cards(hour, day))]


def _cards(hour: Minutes, day: Minutes) -> "Iterator[Renderable]":
    yield _card(
        "Last hour",
        "runs ended, by minute; grey: not known",
        charts.minutes(hour, label="Last hour"),
    )
    yield _card(
        "Last day", "runs ended, by quarter of an hour", charts.minutes(day, label="Last day")
    )
    wait, run = (charts.usual_band(hour, of_runs=of_runs) for of_runs in (False, True))
    yield _card(
        "Waited",
        f"in the last hour, most {wait}" if wait else "in the last hour: no run ended",
        charts.bands(hour, of_runs=False, label="How long runs of the last hour waited"),
    )
    yield _card(
        "Took",
        f"in the last hour, most {run}" if run else "in the last hour: no run ended",
        charts.bands(hour, of_runs=True, label="How long runs of the last hour took"),
    )


def _card(title: str, about: str, chart: "Renderable") -> "Renderable":
    return h.div(".card")[h.div(".heading")[h.h2[title], h.p(".dim")[about]], chart]
