"""View models by themselves: where things stand, what is hidden, how fast it goes."""

import pytest

from andon.dashboard.pages.charts import bands, minutes, throughput, usual_band
from andon.dashboard.views.bodies import Redaction
from andon.dashboard.views.graph import graph_of
from andon.dashboard.views.looks import line_of, lines_of
from andon.dashboard.views.minutes import minutes_of
from andon.dashboard.views.rates import KEPT_MS, STEP_MS, Sampler, per_second
from andon.lifecycle.flows import FlowNode
from andon.model.fleet import DayCounts, QueueHistory
from andon.model.minutes import BANDS_MS, MinuteCounts, MinuteHistory, MinutePoint, MinuteSeries

MINUTE = 60_000


def counted(*days: tuple[str, int, int]) -> list[QueueHistory]:
    rows = tuple(
        DayCounts(day=day, submitted=processed, processed=processed, failed=failed)
        for day, processed, failed in days
    )
    return [QueueHistory(queue="mail", days=rows)]


def test_rates_are_differences_of_counters():
    sampler = Sampler()
    sampler.add(1_000, counted(("2026-11-25", 100, 10)))
    assert not sampler.rates().is_known
    sampler.add(3_000, counted(("2026-11-25", 140, 14)))
    rates = sampler.rates(["mail"])
    assert (rates.processed, rates.failed) == (20.0, 2.0)
    assert sampler.rates(["other"]).processed == 0
    assert sampler.line() == [(4_000, 20.0, 2.0)]


def test_readings_close_together_are_one_point_and_nothing_between_them_is_lost():
    sampler = Sampler()
    for at in range(0, 400_000, 500):
        sampler.add(at, counted(("2026-11-25", at // 50, 0)))
    assert sampler.rates(["mail"]).processed == 20.0
    line = sampler.line(["mail"])
    assert {processed for _, processed, _ in line} == {20.0}
    assert len(line) <= KEPT_MS // STEP_MS


def test_while_nothing_ends_the_chart_of_it_stays_the_same():
    sampler, charts = Sampler(), set[str]()
    for at in range(0, 2 * KEPT_MS, 700):
        sampler.add(at, counted(("2026-11-25", 7, 0)))
        if at > KEPT_MS + STEP_MS:
            charts.add(str(throughput(sampler.line(), KEPT_MS)))
    assert len(charts) == 1


def test_at_midnight_a_new_day_begins_at_zero():
    sampler = Sampler()
    sampler.add(0, counted(("2026-11-25", 100, 0), ("2026-11-24", 7, 0)))
    sampler.add(2_000, counted(("2026-11-26", 6, 0), ("2026-11-25", 104, 0)))
    assert sampler.rates().processed == 5.0


def test_a_clock_that_stands_still_makes_no_rate():
    sampler = Sampler()
    sampler.add(1_000, counted(("2026-11-25", 100, 0)))
    sampler.add(1_000, counted(("2026-11-25", 200, 0)))
    assert not sampler.rates().is_known


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0"), (0.04, "0"), (0.31, "0.3"), (12.4, "12"), (3_412, "3.4k")]
)
def test_rates_have_few_letters(value: float, shown: str):
    assert per_second(value) == shown


def node(name: str, *after: int) -> FlowNode:
    return FlowNode(
        name=name, count=1, states={"pending": 1}, after=after, ids=(name,), stuck=(), progress=0
    )


def test_a_node_stands_right_of_all_that_it_waits_for_and_none_covers_another():
    nodes = [node("a"), node("b"), node("c", 0, 1), node("d", 0), node("e", 2, 3)]
    graph = graph_of(nodes)
    for place, one in enumerate(nodes):
        for parent in one.after:
            assert graph.boxes[place].x > graph.boxes[parent].x
    assert len({(box.x, box.y) for box in graph.boxes}) == len(nodes)
    assert len(graph.arrows) == 5
    assert graph_of([]).boxes == []


def test_a_flow_of_many_nodes_is_drawn_in_part():
    graph = graph_of([node(f"n{i}") for i in range(1_000)])
    assert (len(graph.boxes), graph.more) == (300, 700)


def test_secrets_are_hidden_wherever_they_stand_and_names_may_be_added():
    body = Redaction(["^iban_of_ann$"]).seen(
        b'{"a": [{"api_key": "k1"}, {"x": {"Authorization": "Bearer k2"}}], "iban_of_ann": "k3",'
        b' "tokens_used": 17, "note": "kept"}'
    )
    assert body is not None
    assert not any(secret in body.text for secret in ("k1", "k2", "k3"))
    assert "kept" in body.text
    assert body.hidden == 4


def test_a_body_that_is_no_json_or_too_large_is_told():
    seen = Redaction().seen(b"\xff{not json")
    assert seen is not None
    assert not seen.is_json
    large = Redaction().seen(b'"' + b"x" * 2_000_000 + b'"')
    assert large is not None
    assert large.text == ""
    deep = Redaction().seen(b"[" * 400 + b"]" * 400)
    assert deep is not None
    assert deep.is_json


def test_a_text_is_cut_and_says_so():
    assert line_of("a\x1b[31mb\u202ec\n" + "d" * 1_000).startswith("abc d")
    assert len(line_of("d" * 1_000_000)) <= 301
    assert lines_of("x" * 100_000).more == 100_000 - 64 * 1024


def history(**points: dict[int, MinuteCounts]) -> MinuteHistory:
    return MinuteHistory(
        since=0,
        until=60 * MINUTE,
        missing=(5 * MINUTE,),
        series=tuple(
            MinuteSeries(
                name,
                tuple(MinutePoint(at * MINUTE, counts, 60.0) for at, counts in found.items()),
            )
            for name, found in points.items()
        ),
        whole=True,
    )


def bands_with(band: int) -> tuple[int, ...]:
    return tuple(int(place == band) for place in range(len(BANDS_MS) + 1))


def test_minutes_of_several_queues_are_added_and_what_is_missing_is_told():
    counts = MinuteCounts(finished=3, failed=1, sampled=1, wait=bands_with(2), run=bands_with(4))
    view = minutes_of(history(mail={7: counts, 8: counts}, other={7: counts}))
    assert (view.slices[7].ended, view.slices[7].failed, view.slices[8].ended) == (8, 2, 4)
    assert not view.slices[5].is_known
    assert view.slices[6].is_known
    assert minutes_of(history(mail={7: counts}), ["other"]).is_empty
    quarters = minutes_of(history(mail={7: counts, 16: counts}), each=15)
    assert [one.ended for one in quarters.slices] == [4, 4, 0, 0]
    assert "8 runs ended, 2 of them failed" in str(minutes(quarters, label="x"))
    assert usual_band(view, of_runs=False) == "up to 100 ms"
    assert "up to 1s" in str(bands(view, of_runs=True, label="x"))
