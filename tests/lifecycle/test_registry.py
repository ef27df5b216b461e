"""Workers that are known by their claims alone: noted seldom, quarantined, forgotten."""

from typing import Any

import pytest
from msgspec.structs import replace

from andon.lifecycle.registry import (
    MOST_RECENT,
    QUEUE_KEPT_MS,
    SELDOM_MS,
    WORKER_KEPT_MS,
    claimed,
    declared,
    is_quarantined,
    quarantined,
    queue_claimed,
)
from andon.model.registry import ClaimedQueue, ClaimingWorker, Quarantine, RecentRun

NOW = 1_900_000_000_000
RUN = RecentRun("t", 0)
WORKER = ClaimingWorker(
    queue="q",
    worker="g/w",
    first_claim=NOW,
    last_active=NOW,
    expires_at=NOW + WORKER_KEPT_MS,
    recent=(RUN,),
)


def test_the_first_claim_makes_the_record() -> None:
    assert claimed("q", "g/w", None, [RUN], NOW) == WORKER


@pytest.mark.parametrize(
    ("runs", "later", "written"),
    [
        ([], 0, {}),
        ([], SELDOM_MS - 1, {}),
        ([RUN], SELDOM_MS - 1, {}),
        (
            [],
            SELDOM_MS,
            {"last_active": NOW + SELDOM_MS, "expires_at": NOW + SELDOM_MS + WORKER_KEPT_MS},
        ),
        (
            [RUN, RecentRun("t", 1)],
            1,
            {
                "last_active": NOW + 1,
                "expires_at": NOW + 1 + WORKER_KEPT_MS,
                "recent": (RUN, RecentRun("t", 1)),
            },
        ),
    ],
    ids=["nothing", "soon", "a repeat", "later", "a task"],
)
def test_a_claim_is_written_seldom_but_with_each_task(
    runs: list[RecentRun], later: int, written: dict[str, Any]
) -> None:
    after = claimed("q", "g/w", WORKER, runs, NOW + later)
    assert after == replace(WORKER, **written)
    assert (after is WORKER) is (not written)


def test_the_newest_runs_are_kept() -> None:
    runs = [RecentRun("t", number) for number in range(30)]
    assert claimed("q", "g/w", None, runs, NOW).recent == tuple(runs[-MOST_RECENT:])
    assert claimed("q", "g/w", WORKER, runs, NOW).recent == tuple(runs[-MOST_RECENT:])


def test_a_quarantine_lasts_until_its_moment_and_is_lifted_by_one_that_has_passed() -> None:
    said = Quarantine(at=NOW, until=NOW + 5, by="ann", info="odd disk")
    held = quarantined(WORKER, said)
    assert (held.quarantined_until, held.quarantines) == (NOW + 5, (said,))
    assert is_quarantined(held, NOW + 4)
    assert not is_quarantined(held, NOW + 5)
    lifted = quarantined(held, Quarantine(at=NOW + 1, until=NOW))
    assert not is_quarantined(lifted, NOW + 1)
    assert len(lifted.quarantines) == 2
    assert not is_quarantined(None, NOW)


def test_a_worker_is_kept_beyond_its_quarantine_and_with_its_newest_words() -> None:
    worker = WORKER
    for number in range(30):
        said = Quarantine(at=NOW, until=NOW + 10 * WORKER_KEPT_MS, info=str(number))
        worker = quarantined(worker, said)
    assert worker.expires_at == NOW + 11 * WORKER_KEPT_MS
    assert [said.info for said in worker.quarantines] == [str(n) for n in range(10, 30)]
    assert claimed("q", "g/w", worker, [], NOW + SELDOM_MS).expires_at == worker.expires_at


def test_a_queue_is_written_seldom() -> None:
    first = queue_claimed("q", None, NOW)
    assert first == ClaimedQueue(queue="q", last_active=NOW, expires_at=NOW + QUEUE_KEPT_MS)
    assert queue_claimed("q", first, NOW + SELDOM_MS - 1) is first
    later = queue_claimed("q", first, NOW + SELDOM_MS)
    assert later.last_active == NOW + SELDOM_MS


def test_a_worker_that_was_declared_is_kept_so_long_at_least() -> None:
    later = NOW + 3 * WORKER_KEPT_MS
    new = declared("q", "g/w", None, later, NOW)
    assert (new.first_claim, new.last_active, new.expires_at) == (NOW, NOW, later)
    again = declared("q", "g/w", WORKER, later, NOW + 7)
    assert again == replace(WORKER, last_active=NOW + 7, expires_at=later)
    assert declared("q", "g/w", again, NOW + 8, NOW + 8).expires_at == later
    assert claimed("q", "g/w", again, [RecentRun("u", 0)], NOW + 9).expires_at == later
