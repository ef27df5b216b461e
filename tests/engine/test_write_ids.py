"""Write ids: never the same twice, in a process or across a fork."""

from andon.engine.writes import LoneWrites, WriteIds


def test_ids_differ() -> None:
    ids = WriteIds()
    assert len({ids() for _ in range(10_000)}) == 10_000


def test_two_processes_count_apart() -> None:
    assert WriteIds()()[:16] != WriteIds()()[:16]


def test_a_forked_child_counts_apart() -> None:
    ids = WriteIds()
    before = ids()[:16]
    ids.renew()  # what a fork does
    assert ids()[:16] != before


def test_tasks_submitted_one_by_one_within_a_millisecond_share_a_write_id() -> None:
    write_id = LoneWrites()
    shared = [write_id(task, 1_000) for task in ("a", "b", "c")]
    assert len(set(shared)) == 1
    assert write_id("d", 1_001) not in shared


def test_a_task_submitted_again_within_the_millisecond_has_another_write_id() -> None:
    write_id = LoneWrites()
    seen: set[tuple[str, str]] = set()
    for task in ("b", "b", "a", "c", "b", "c", "a"):
        told = (task, write_id(task, 1_000))
        assert told not in seen
        seen.add(told)
