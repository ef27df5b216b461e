"""The claim policy: each situation of a claim loop has one next step."""

from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.lifecycle.constants import SLOW_POLL_S
from andon.worker.claiming.policy import (
    LONGEST_COOLDOWN_S,
    LONGEST_HOLD_S,
    NO_PREFETCH_S,
    SHORTEST_POLL_S,
    Claim,
    ClaimSettings,
    ClaimView,
    Park,
    Release,
    Repeat,
    Sleep,
    Start,
    Step,
    Stop,
    next_step,
    should_prefetch,
)

FIVE = ClaimSettings(concurrency=5, batch=5)
HALVES = ClaimSettings(concurrency=40, batch=20)
PREFETCHING = ClaimSettings(concurrency=5, batch=5, prefetches=True)
PARKING = ClaimSettings(concurrency=5, batch=5, parks=True)
PATIENT = ClaimSettings(concurrency=5, batch=5, poll_s=60.0)

BUSY = ClaimView(now=100.0, was_quick=True, was_full=True, unstarted=5)
"""Five tasks came, those before ended quickly, and there are more."""
ASKED = ClaimView(now=100.0, to_ask=0)
"""All partitions were asked."""
EMPTY = ClaimView(now=0.0, hinted=True, empty_wakes=2, round_s=0.01, round_ended_at=0.0)
"""Hints woke the worker twice for nothing."""


class Row(NamedTuple):
    situation: str
    settings: ClaimSettings
    view: ClaimView
    step: Step


def but(view: ClaimView, **facts: object) -> ClaimView:
    return msgspec.structs.replace(view, **facts)


TABLE = [
    Row("nothing was asked yet", FIVE, ClaimView(), Claim(5)),
    Row("some slots are free", FIVE, ClaimView(running=3), Claim(2)),
    Row("no slot is free", FIVE, ClaimView(running=5), Sleep("no-capacity", None)),
    Row("no slot is free, and a hint came", FIVE, ClaimView(running=5, hinted=True),
        Sleep("no-capacity", None)),
    Row("another partition is to be asked", FIVE, but(ASKED, to_ask=2), Claim(5)),
    Row("all partitions were asked", FIVE, ASKED, Sleep("no-work", SLOW_POLL_S)),
    Row("all were asked, and polls are rare", PATIENT, ASKED, Sleep("no-work", 60.0)),
    Row("all were asked, and a hint came meanwhile", FIVE, but(ASKED, hinted=True), Claim(5)),
    # The store takes reports as quickly as the worker makes them, or claims wait.
    Row("as many reports as slots", FIVE, ClaimView(reporting=5), Claim(5)),
    Row("more reports than slots", FIVE, ClaimView(reporting=6), Sleep("no-capacity", None)),
    Row("what is free, whole, beside reports", FIVE, ClaimView(running=2, reporting=5), Claim(3)),
    Row("what is free, or nothing", FIVE, ClaimView(running=2, reporting=6),
        Sleep("no-capacity", None)),
    Row("the last slot", FIVE, ClaimView(running=4, reporting=5), Claim(1)),
    Row("the last slot is for reports", FIVE, ClaimView(running=4, reporting=6),
        Sleep("no-capacity", None)),
    Row("half of the slots at once", HALVES, ClaimView(), Claim(20)),
    Row("less than half is free", HALVES, ClaimView(running=30), Claim(10)),
    # Claimed tasks.
    Row("tasks came", FIVE, ClaimView(unstarted=3, running=2), Start(3)),
    Row("more tasks came than slots are free", FIVE, ClaimView(unstarted=3, running=4), Start(1)),
    Row("tasks wait for slots", FIVE, but(BUSY, running=5, now=0.0),
        Sleep("no-capacity", LONGEST_HOLD_S)),
    Row("tasks have waited for slots too long", FIVE, but(BUSY, running=5, answered_at=99.0),
        Release(late=True)),
    # Prefetch.
    Row("quick tasks, and more of them", PREFETCHING, BUSY, Claim(10, prefetch=True)),
    Row("quick tasks of a prefetching claim, and more of them", PREFETCHING,
        but(BUSY, unstarted=10), Claim(10, prefetch=True)),
    Row("the last tasks of a prefetching claim took their time", PREFETCHING,
        but(BUSY, unstarted=10, was_quick=False), Start(5)),
    Row("the store asks for no prefetch", FIVE, BUSY, Start(5)),
    Row("the last tasks took their time", PREFETCHING, but(BUSY, was_quick=False), Start(5)),
    Row("the last claim was not full", PREFETCHING, but(BUSY, was_full=False), Start(5)),
    Row("tasks still run", PREFETCHING, but(BUSY, running=1), Start(4)),
    Row("some types are limited", PREFETCHING, but(BUSY, has_limited_types=True), Start(5)),
    Row("reports of two claims are under way", PREFETCHING, but(BUSY, reporting=20),
        Claim(10, prefetch=True)),
    Row("more reports than of two claims", PREFETCHING, but(BUSY, reporting=21), Start(5)),
    Row("prefetched tasks were released", PREFETCHING,
        but(BUSY, released_at=100.0 - NO_PREFETCH_S / 2), Start(5)),
    Row("prefetched tasks were released long ago", PREFETCHING,
        but(BUSY, released_at=99.0 - NO_PREFETCH_S), Claim(10, prefetch=True)),
    Row("quick tasks have ended, their reports are many", PREFETCHING,
        but(BUSY, unstarted=0, reporting=20), Claim(10)),
    # Parked claims.
    Row("nothing has run for a moment", PARKING, but(ASKED, to_ask=1, rested=True), Park(5)),
    Row("the store cannot park claims", FIVE, but(ASKED, to_ask=1, rested=True), Claim(5)),
    Row("nothing has run, but only just now", PARKING, but(ASKED, to_ask=1), Claim(5)),
    Row("something runs again", PARKING, but(ASKED, to_ask=1, rested=True, running=1), Claim(4)),
    Row("limited types keep claims from being parked", PARKING,
        but(ASKED, to_ask=1, rested=True, has_limited_types=True), Claim(5)),
    Row("a claim was parked", PARKING, but(ASKED, rested=True), Sleep("no-work", SLOW_POLL_S)),
    # Rate limits: no hint says that they allow more.
    Row("a rate-limited queue gave tasks", FIVE, but(ASKED, rate_interval=0.5, got=1),
        Sleep("no-work", 0.5)),
    Row("a quick rate-limited queue gave tasks", FIVE, but(ASKED, rate_interval=0.001, got=1),
        Sleep("no-work", SHORTEST_POLL_S)),
    Row("a rate-limited queue gave nothing", FIVE, but(ASKED, rate_interval=0.5, last_pause=0.5),
        Sleep("no-work", 1.0)),
    Row("a rate-limited queue gives nothing for long", FIVE,
        but(ASKED, rate_interval=0.5, last_pause=4.0), Sleep("no-work", SLOW_POLL_S)),
    # Hints for tasks that other workers take.
    Row("hints woke it for nothing", FIVE, EMPTY, Sleep("cooldown", 0.02)),
    Row("hints wake it for nothing again and again", FIVE, but(EMPTY, empty_wakes=100),
        Sleep("cooldown", LONGEST_COOLDOWN_S)),
    Row("a hint woke it for nothing once", FIVE, but(EMPTY, empty_wakes=1), Claim(5)),
    Row("it has waited", FIVE, but(EMPTY, now=1.0), Claim(5)),
    # Failures.
    Row("the store did not answer", FIVE, ClaimView(retry_in=0.7, is_unanswered=True),
        Sleep("retry", 0.7)),
    Row("a claim failed before it was sent, and tasks have come", PREFETCHING,
        but(BUSY, retry_in=0.7), Start(5)),
    Row("the store may answer again", FIVE, ClaimView(is_unanswered=True), Repeat()),
    Row("a claim is unanswered, and no slot is free", FIVE,
        ClaimView(is_unanswered=True, running=5), Repeat()),
    Row("a claim is unanswered, and the worker is quiet", FIVE,
        ClaimView(is_unanswered=True, quiet=True), Repeat()),
    # What the worker was told.
    Row("quiet", FIVE, ClaimView(quiet=True, hinted=True), Sleep("no-capacity", None)),
    Row("quiet, with claimed tasks", PREFETCHING, but(BUSY, quiet=True), Release()),
    Row("no queue is known", FIVE, ClaimView(has_queues=False), Sleep("no-capacity", None)),
    Row("the last queue went while tasks came", PREFETCHING, but(BUSY, has_queues=False), Start(5)),
    Row("stopping", FIVE, ClaimView(stopping=True, hinted=True), Stop()),
    Row("stopping, with claimed tasks", PREFETCHING, but(BUSY, stopping=True), Release()),
    Row("stopping, while runs go on", FIVE, ClaimView(stopping=True, running=5), Stop()),
    Row("stopping, while the store is away", FIVE,
        ClaimView(stopping=True, retry_in=5.0, is_unanswered=True), Stop()),
]  # fmt: skip


@pytest.mark.parametrize("row", TABLE, ids=[row.situation for row in TABLE])
def test_each_situation_has_its_step(row: Row) -> None:
    assert next_step(row.settings, row.view) == row.step


def test_each_situation_has_a_name_of_its_own() -> None:
    assert len({row.situation for row in TABLE}) == len(TABLE)


counts = st.integers(0, 12)
seconds = st.floats(0.0, 200.0)

all_settings = st.builds(
    ClaimSettings,
    concurrency=st.integers(1, 10),
    batch=st.integers(1, 20),
    prefetches=st.booleans(),
    parks=st.booleans(),
    poll_s=st.floats(0.1, 3600.0),
)
all_views = st.builds(
    ClaimView,
    now=seconds,
    stopping=st.booleans(),
    quiet=st.booleans(),
    has_queues=st.booleans(),
    running=counts,
    reporting=st.integers(0, 40),
    has_limited_types=st.booleans(),
    unstarted=st.one_of(st.just(0), counts),
    answered_at=seconds,
    retry_in=st.none() | st.floats(0.0, 5.0),
    is_unanswered=st.booleans(),
    was_full=st.booleans(),
    was_quick=st.booleans(),
    released_at=seconds,
    to_ask=st.integers(0, 3),
    got=counts,
    hinted=st.booleans(),
    rested=st.booleans(),
    rate_interval=st.none() | st.floats(0.001, 100.0),
    last_pause=st.floats(0.01, 100.0),
    empty_wakes=counts,
    round_s=st.floats(0.0, 10.0),
    round_ended_at=seconds,
)


def idle(view: ClaimView) -> bool:
    """Nothing keeps the worker from claiming but the number of its runs."""
    return (
        not (view.stopping or view.quiet or view.is_unanswered or view.unstarted)
        and view.has_queues
        and view.retry_in is None
    )


@given(all_settings, all_views)
def test_no_step_starts_or_claims_more_than_fits(settings: ClaimSettings, view: ClaimView) -> None:
    free = max(settings.concurrency - view.running, 0)
    match next_step(settings, view):
        case Claim(limit, prefetch=True):
            assert 0 < limit <= settings.prefetched
            assert free == settings.concurrency
            assert view.unstarted
        case Claim(limit) if settings.prefetches and should_prefetch(settings, view):
            assert limit == settings.prefetched
            assert not view.unstarted
        case Claim(limit) | Park(limit):
            assert 0 < limit <= free
            assert not view.unstarted
        case Start(count):
            assert 0 < count <= min(free, view.unstarted)
        case _:
            pass


@given(all_settings, all_views)
def test_a_hinted_worker_with_free_slots_claims_or_waits_a_moment(
    settings: ClaimSettings, view: ClaimView
) -> None:
    view = but(view, hinted=True)
    if not idle(view) or view.running >= settings.concurrency:
        return
    match next_step(settings, view):
        case Claim() | Park():
            pass
        case Sleep("cooldown", float(left)):
            assert 0 < left <= view.round_ended_at + LONGEST_COOLDOWN_S - view.now + 1e-9
        case step:
            assert step == Sleep("no-capacity", None)
            assert view.reporting > settings.concurrency


@given(all_settings, all_views)
def test_a_sleep_without_a_bound_is_one_that_a_run_or_an_order_ends(
    settings: ClaimSettings, view: ClaimView
) -> None:
    step = next_step(settings, view)
    if isinstance(step, Sleep) and step.seconds is None:
        assert step.reason == "no-capacity"
        assert view.running or view.reporting or view.quiet or not view.has_queues


@given(all_settings, all_views)
def test_when_nothing_came_it_parks_or_sleeps_with_a_bound(
    settings: ClaimSettings, view: ClaimView
) -> None:
    view = but(view, to_ask=0, hinted=False)
    if idle(view) and not view.running and not view.reporting:
        step = next_step(settings, view)
        assert isinstance(step, Sleep)
        assert step.reason == "no-work"
        assert step.seconds is not None
        assert 0 < step.seconds <= max(settings.poll_s, SLOW_POLL_S)


@given(all_settings, all_views)
def test_a_worker_that_stops_only_releases_what_it_has_and_ends(
    settings: ClaimSettings, view: ClaimView
) -> None:
    step = next_step(settings, but(view, stopping=True))
    assert step == (Release() if view.unstarted else Stop())


@given(all_settings, all_views)
def test_a_quiet_worker_claims_nothing_new(settings: ClaimSettings, view: ClaimView) -> None:
    step = next_step(settings, but(view, quiet=True))
    assert not isinstance(step, Claim | Park | Start)


@given(all_settings, all_views)
def test_claimed_tasks_wait_no_longer_than_a_moment(
    settings: ClaimSettings, view: ClaimView
) -> None:
    step = next_step(settings, but(view, unstarted=1, now=view.answered_at + LONGEST_HOLD_S))
    assert not isinstance(step, Sleep)


@given(all_settings, all_views)
def test_after_a_failure_nothing_is_claimed_before_a_pause(
    settings: ClaimSettings, view: ClaimView
) -> None:
    step = next_step(settings, but(view, retry_in=1.0))
    assert not isinstance(step, Claim | Park | Repeat)
