"""Ids sort by age, whatever the clock does, and no two are the same."""

import os
from concurrent.futures import ThreadPoolExecutor

from andon.client.ids import IdMaker, new_id
from andon.lifecycle.admission import check_id


def test_ids_are_valid_task_ids():
    check_id(new_id())


def test_ids_sort_by_the_time_they_were_made():
    times = iter([1_000, 2_000, 3_000])
    make = IdMaker(wall=lambda: next(times))
    ids = [make() for _ in range(3)]
    assert ids == sorted(ids)
    assert ids[0].startswith(f"{1_000:012x}")


def test_ids_grow_within_a_millisecond_even_from_the_highest_random_number():
    make = IdMaker(wall=lambda: 7, draw=lambda bits: (1 << bits) - 1)
    ids = [make() for _ in range(1_000)]
    assert ids == sorted(set(ids))
    assert all(len(made) == 32 for made in ids)


def test_ids_grow_when_the_clock_is_set_back():
    times = iter([5_000, 4_000, 3_000])
    make = IdMaker(wall=lambda: next(times))
    ids = [make() for _ in range(3)]
    assert ids == sorted(set(ids))


def test_ids_made_by_many_threads_are_all_different():
    with ThreadPoolExecutor(8) as pool:
        batches = list(pool.map(lambda _: [new_id() for _ in range(500)], range(8)))
    assert len({made for batch in batches for made in batch}) == 4_000


def test_a_forked_child_does_not_count_on_from_its_parent():
    make = IdMaker(wall=lambda: 7, draw=lambda bits: int.from_bytes(os.urandom(bits // 8)))
    before = make()
    make.forget()
    assert make()[12:20] != before[12:20]
