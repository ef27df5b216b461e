"""How a store takes part in the suite: by a `StoreFactory`, and nothing else.

Somebody else's store passes the same tests, on data they may spoil:

    ANDON_TEST_STORE_URL=redis://localhost/9 pytest tests/conformance

How late a timer may be is the store's own `slack_ms`.
"""

import asyncio
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from conftest import selected_stores
from servers import Servers

from .kit import Kit, StoreFactory

GIVEN_URL = "ANDON_TEST_STORE_URL"

OF_SOME_STORES = {
    "test_parked_claims": ("redis", "postgres"),
    "test_noted": ("memory", "sqlite"),
    "test_created_together": ("memory", "sqlite", "postgres"),
    "test_settled_at_once": ("sqlite",),
}
"""Parts of the suite, and the stores of ours that they are for."""

for _module in OF_SOME_STORES:
    assert find_spec(f"conformance.{_module}"), f"there is no {_module}; was it renamed?"

ONE_PARTITION = {
    "test_hints_that_were_taken_do_not_come_again": "each partition hints for itself",
    "test_a_full_queue_refuses_no_restored_task": "max_size is a share of each partition",
    "test_a_full_queue_refuses": "max_size is a share of each partition",
    "test_a_full_queue_that_discards_names_its_oldest": "max_size is a share of each partition",
    "test_only_pending_tasks_count_against_the_size": "max_size is a share of each partition",
    "test_the_last_places_of_a_full_queue_are_given_in_the_order_of_the_batch": (
        "max_size is a share of each partition"
    ),
    "test_a_unique_key_is_free_for_the_next_of_the_batch_if_the_first_found_no_place": (
        "max_size is a share of each partition"
    ),
    "test_restored_runs_count_against_the_limit_of_their_key": "each partition parks for itself",
    "test_no_more_runs_of_a_key_at_once_than_the_queue_allows": "each partition parks for itself",
    "test_a_parked_task_can_be_cancelled": "order holds within a partition",
    "test_the_next_of_a_key_is_let_through_when_a_run_ends": "order holds within a partition",
    "test_records_and_their_order_are_still_there": "order holds within a partition",
    "test_keys_limits_edges_and_events_are_still_there": "order holds within a partition",
    "test_counts_follow_every_move": "order holds within a partition",
    "test_the_oldest_claimable_task_tells_since_when_it_waits": "order holds within a partition",
    "test_the_bucket_fills_with_time_up_to_its_burst": "it fills between claims of partitions",
    "test_a_filled_bucket_wakes_who_waits": "it fills between claims of partitions",
    "test_no_reservation_is_left_of_a_discarded_end": "they are spread over the nodes",
    "test_limits_hold_when_many_claim_at_once": "limits may be under-used for a moment",
}
"""What a cluster is not asked: tests that rely on one partition, and on what of it."""

NATS_IN_PARTS = frozenset(
    {
        "test_no_more_runs_of_a_key_at_once_than_the_queue_allows",
        "test_a_parked_task_can_be_cancelled",
        "test_the_next_of_a_key_is_let_through_when_a_run_ends",
    }
)
"""Those of them that rely on which of a key's tasks is let through, which NATS decides within a
partition."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "store_kind" not in metafunc.fixturenames:
        return
    kinds = ["given"] if GIVEN_URL in os.environ else list(selected_stores(metafunc.config))
    if find_spec("andon.stores.sqlite") is None and "sqlite" in kinds:
        kinds.remove("sqlite")
    partitioned = ["memory", "sqlite"]
    if metafunc.config.getoption("--store"):  # a minute each: when these stores are asked for
        partitioned += ["postgres", "nats"]
    some = OF_SOME_STORES.get(metafunc.definition.path.stem)
    if some is not None:
        kinds = [kind for kind in kinds if kind in (*some, "given")]
    else:
        kinds += [f"{kind}-4" for kind in partitioned if kind in kinds]
        if "redis" in kinds:
            kinds.append("redis-cluster")
    metafunc.parametrize("store_kind", kinds)


def pytest_itemcollected(item: pytest.Item) -> None:
    name = getattr(item, "originalname", "")
    reason = ONE_PARTITION.get(name)
    in_parts = name in NATS_IN_PARTS and item.name.endswith("[nats-4]")
    if reason is not None and (in_parts or item.name.endswith("[redis-cluster]")):
        item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def store_factory(store_kind: str, tmp_path: Path, servers: Servers) -> Iterator[StoreFactory]:
    if store_kind == "given":
        yield StoreFactory(os.environ[GIVEN_URL], shared=True, durable=True)
        return
    kind, _, partitions = store_kind.rpartition("-")
    options = f"partitions={partitions}" if partitions.isdigit() else ""
    kind = kind if options else store_kind
    kept = kind != "memory"
    with servers.empty_url(kind, tmp_path, options) as url:
        yield StoreFactory(url, shared=kept, durable=kept)


@pytest.fixture
def kit(store_factory: StoreFactory, runner: asyncio.Runner) -> Iterator[Kit]:
    """The store under test, open, with the few words that tests need."""
    kit = Kit(store_factory)
    runner.run(kit.open())
    yield kit
    runner.run(kit.close())
