"""Write ids: never the same twice, in a process or across a fork."""

from andon.engine.writes import WriteIds


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
