"""Why a pending task waits: each reason, and which of several is told."""

from typing import Any

import pytest

from andon.lifecycle.waiting import Ahead, Why, spoken, why_waits
from andon.model.code import Code
from andon.model.fleet import QueueConfig, WorkerInfo

SHOP = Code.of([("shop.charge", 2)])
MAIL = Code.of([("mail.*", 0)])
CODES = {code.digest: code for code in (SHOP, MAIL)}


def worker(code: Code | None = SHOP, **fields: Any) -> WorkerInfo:
    told = {"queues": ("default",), "concurrency": 2, "code": "" if code is None else code.digest}
    return WorkerInfo(id="w", **{**told, **fields})


def why(
    kind: str, *workers: WorkerInfo, config: dict[str, Any] | None = None, **counts: int
) -> tuple[Why, str] | None:
    queue = QueueConfig(name="default", **(config or {}))
    wait = why_waits(
        kind,
        queue,
        workers=workers,
        codes=CODES,
        active=counts.get("active"),
        active_of_key=counts.get("active_of_key"),
    )
    return None if wait is None else (wait.why, wait.text)


def test_nothing_keeps_a_task_that_a_worker_has_code_and_room_for() -> None:
    assert why("shop.charge@2", worker()) is None
    assert why("mail.send", worker(MAIL)) is None


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("shop.charge", "waits for a worker that has shop.charge"),
        ("shop.charge@3", "waits for a worker that has shop.charge v3"),
        ("other", "waits for a worker that has other"),
    ],
)
def test_code_that_nobody_has_is_named(kind: str, text: str) -> None:
    assert why(kind, worker(), worker(MAIL)) == (Why.NO_CODE, text)


def test_workers_of_other_queues_and_those_that_leave_do_not_count() -> None:
    elsewhere, leaving = worker(queues=("other",)), worker(state="stopping")
    nobody = (Why.NO_WORKER, "no worker asks queue default")
    assert why("shop.charge@2") == nobody
    assert why("shop.charge@2", elsewhere) == nobody
    assert why("shop.charge@2", leaving) == nobody
    assert why("shop.charge@2", elsewhere, worker(MAIL)) == (
        Why.NO_CODE,
        "waits for a worker that has shop.charge v2",
    )


def test_a_worker_that_names_nothing_may_be_given_everything() -> None:
    assert why("other", worker(None)) is None


def test_a_worker_whose_list_is_not_known_is_not_said_to_lack_anything() -> None:
    assert why("other", worker(Code.of([("forgotten", 0)]))) is None


def test_what_anybody_may_run_waits_for_no_code() -> None:
    assert why("other?", worker()) is None


def test_workers_that_have_it_may_all_be_full_or_quiet() -> None:
    busy = (Why.BUSY, "every worker that has it is full or quiet")
    full, quiet = worker(active=2), worker(state="quiet")
    assert why("shop.charge@2", full, quiet, worker(MAIL)) == busy
    assert why("shop.charge@2", full, worker(active=1)) is None
    assert why("shop.charge@2", worker(concurrency=0)) is None, "it tells no concurrency"


def test_limits_of_the_queue_are_told_with_their_numbers() -> None:
    assert why("shop.charge@2", worker(), config={"max_concurrent": 3}, active=2) is None
    assert why("shop.charge@2", worker(), config={"max_concurrent": 3}, active=3) == (
        Why.QUEUE_LIMIT,
        "queue default has 3 runs, of 3 at once",
    )
    limits = {"max_concurrent_per_key": 1}
    assert why("shop.charge@2", worker(), config=limits, active_of_key=0) is None
    assert why("shop.charge@2", worker(), config=limits, active_of_key=1) == (
        Why.KEY_LIMIT,
        "its key has 1 runs, of 1 at once",
    )
    assert why("shop.charge@2", worker(), config={"rate_limit": 0.5}) == (
        Why.RATE,
        "queue default lets 0.5 start in a second",
    )


def test_a_task_behind_one_of_its_key_that_nobody_has_code_for_names_it() -> None:
    def behind(*ahead: Ahead, most: int = 1, active: int = 0) -> tuple[Why, str] | None:
        queue = QueueConfig(name="default", max_concurrent_per_key=most)
        wait = why_waits(
            "shop.charge@2",
            queue,
            workers=[worker()],
            codes=CODES,
            active_of_key=active,
            ahead=ahead,
        )
        return None if wait is None else (wait.why, wait.text)

    stuck, going = Ahead("a1", "gone@3"), Ahead("b1", "shop.charge@2")
    named = (
        Why.KEY_BLOCKED,
        "comes after a1 of the same key, which waits for a worker that has gone v3",
    )
    first = (Why.KEY_LIMIT, "others of its key come first, of which 1 may run at once")
    assert behind() is None
    assert behind(stuck) == named
    assert behind(stuck, going) == named
    assert behind(going, stuck) == first
    assert behind(stuck, most=2) is None
    assert behind(stuck, most=2, active=1) == named
    assert (behind(stuck, going, most=2) or ("",))[0] is Why.KEY_LIMIT
    assert (behind(stuck, active=1) or ("",))[0] is Why.KEY_LIMIT


def test_what_has_to_be_mended_first_is_told_first() -> None:
    config = {"paused": True, "max_concurrent": 1, "rate_limit": 1.0}
    assert (why("other", config=config, active=1) or ("",))[0] is Why.PAUSED
    config["paused"] = False
    assert (why("other", config=config, active=1) or ("",))[0] is Why.NO_WORKER
    assert (why("other", worker(), config=config, active=1) or ("",))[0] is Why.NO_CODE
    full = worker(active=2)
    assert (why("shop.charge@2", full, config=config, active=1) or ("",))[0] is Why.QUEUE_LIMIT
    assert (why("shop.charge@2", full, config=config, active=0) or ("",))[0] is Why.BUSY


def test_a_kind_is_said_with_its_version_if_it_has_one() -> None:
    assert [spoken(kind) for kind in ("a", "a?", "a@2", "a@2?")] == ["a", "a", "a v2", "a v2"]
