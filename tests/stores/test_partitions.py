"""Partitions are one thing in every store: the same hash, a number that stays as it was made."""

import asyncio
from pathlib import Path

import pytest
from conftest import selected_stores, shared_stores
from servers import Servers

from andon.model.errors import ConfigurationError
from andon.stores.kit.partitions import partition_of
from andon.stores.registry import open_store


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for name, kinds in (("store_kind", selected_stores), ("kept_kind", shared_stores)):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, kinds(metafunc.config))


def with_partitions(url: str, count: int) -> str:
    return f"{url}{'&' if '?' in url else '?'}partitions={count}"


async def opened(url: str) -> tuple[int, list[int]]:
    """The number of partitions, and those of a hundred ids."""
    store = open_store(url)
    await store.open()
    try:
        return store.partitions, [store.partition_of(f"task-{n}") for n in range(100)]
    finally:
        await store.close()


@pytest.mark.parametrize("count", [1, 4])
def test_every_store_puts_an_id_into_the_same_partition(
    store_kind: str, count: int, tmp_path: Path, servers: Servers
) -> None:
    url = with_partitions(servers.fresh_url(store_kind, tmp_path), count)
    there = [partition_of(f"task-{n}", count) for n in range(100)]
    assert set(there) == set(range(count))
    assert asyncio.run(opened(url)) == (count, there)


def test_the_number_of_partitions_stays_as_the_store_was_made(
    kept_kind: str, tmp_path: Path, servers: Servers
) -> None:
    url = servers.fresh_url(kept_kind, tmp_path)
    assert asyncio.run(opened(with_partitions(url, 4)))[0] == 4
    for other in (1, 3):
        with pytest.raises(ConfigurationError, match=r"4.*partitions|partitions=4") as refused:
            asyncio.run(opened(with_partitions(url, other)))
        assert "\n" not in str(refused.value)
    assert asyncio.run(opened(url))[0] == 4
