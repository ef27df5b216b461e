"""Charts by task type: what was seen of each, and that it says what the numbers are of."""

import pytest
from service.kit import Running, serving, with_minute

from andon import Andon
from andon.dashboard.views.types import MOST_ROWS, types_of
from andon.lifecycle.minutes import MINUTE_MS
from andon.model.minutes import (
    BANDS_MS,
    OTHERS,
    MinuteBase,
    MinuteCounts,
    MinuteHistory,
    MinutePoint,
    MinuteRow,
    MinuteSeries,
)

from .kit import Site
from .scene import HOSTILE

BANDS = (0, 3, *[0] * 10)
COUNTS = MinuteCounts(finished=2, failed=1, sampled=3, wait=BANDS, run=BANDS)


def plant(running: Running, *, whole: bool, types: dict[str, MinuteCounts]) -> None:
    engine = running.service.engine
    end = engine.now() // MINUTE_MS * MINUTE_MS
    base = MinuteBase(end + 1_000, {}, {}, "")
    row = MinuteRow(end // MINUTE_MS - 1, end - MINUTE_MS, end, end - MINUTE_MS, {}, types, whole)
    running.call(with_minute(engine, base, row))


@pytest.mark.parametrize("whole", [True, False])
def test_types_are_listed_and_each_has_its_charts(app: Andon, whole: bool):
    with serving(app, timekeeper=False) as running:
        few = MinuteCounts(finished=1, sampled=1, wait=BANDS, run=BANDS)
        plant(running, whole=whole, types={"shop.charge": COUNTS, "a": few, OTHERS: few})
        site = Site(running)
        page = site.get("/queues")
        assert page.has("a", href="/types")
        page = site.get("/types")
        rows = list(page.one(id="types-table").one("tbody").every("tr"))
        assert [row.one("th").text for row in rows] == ["shop.charge", OTHERS, "a"]
        assert rows[0].text == "shop.charge 3 1 up to 30 ms up to 30 ms 3 1"
        assert not rows[1].has("a")
        assert ("Of a sample" in page.one(id="types").text) is not whole
        page = site.get("/types/shop.charge")
        assert ("Of a sample" in page.one(id="of-type").text) is not whole
        labels = [one["aria-label"] for one in page.one(id="history").every("svg")]
        assert labels == [
            "Last hour: 3 runs ended, 1 of them failed",
            "Last day: 3 runs ended, 1 of them failed",
            "How long runs of the last hour waited: 3 up to 30 ms",
            "How long runs of the last hour took: 3 up to 30 ms",
        ]
        nothing = site.get("/types/nobody").one(id="history")
        assert nothing.has("svg", aria_label="Last hour: 0 runs ended, 0 of them failed")
        site.close()


def test_a_type_with_a_hostile_name_has_its_page(app: Andon):
    name = "".join(HOSTILE.split())
    with serving(app, timekeeper=False) as running:
        plant(running, whole=True, types={name: COUNTS})
        site = Site(running)
        page = site.get("/types")
        link = page.one(id="types-table").one("a")["href"]
        assert "3 runs ended" in str(
            [one.attributes for one in site.get(link).one(id="history").every("svg")]
        )
        site.close()


def test_the_types_of_which_most_ended_are_listed():
    def history(*series: MinuteSeries) -> MinuteHistory:
        return MinuteHistory(since=0, until=60 * MINUTE_MS, missing=(), series=series, whole=True)

    def of(name: str, *ended: int) -> MinuteSeries:
        points = tuple(
            MinutePoint(at * MINUTE_MS, MinuteCounts(finished=number), 60.0)
            for at, number in enumerate(ended)
        )
        return MinuteSeries(name, points)

    many = [of(f"t{n:03}", n, n) for n in range(MOST_ROWS + 7)]
    view = types_of(history(of("t106", 5)), history(*many))
    assert (len(view.rows), view.more) == (MOST_ROWS, 7)
    assert (view.rows[0].name, view.rows[0].day.finished) == ("t106", 212)
    assert (view.rows[0].hour.finished, view.rows[1].hour.finished) == (5, 0)
    assert len(BANDS_MS) == len(view.bands_ms)
