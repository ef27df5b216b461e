"""From a URL to a store, or to a sentence that says what to do."""

import subprocess
import sys

import pytest

from andon.model.errors import ConfigurationError
from andon.stores.memory import MemoryStore
from andon.stores.registry import open_store


def test_a_memory_url_opens_a_memory_store() -> None:
    store = open_store("memory://?partitions=4")
    assert isinstance(store, MemoryStore)
    assert store.partitions == 4
    assert {store.partition_of(f"t{i}") for i in range(100)} == {0, 1, 2, 3}


@pytest.mark.parametrize("url", ["abacus://x", "tasks.db", ""])
def test_an_unknown_scheme_is_refused_with_the_known_ones(url: str) -> None:
    with pytest.raises(ConfigurationError, match="memory:// or sqlite://"):
        open_store(url)


@pytest.mark.parametrize("query", ["partitions=0", "partitions=x", "fast=1", "partitions="])
def test_an_option_that_cannot_be_is_refused(query: str) -> None:
    with pytest.raises(ConfigurationError, match="not an option of the memory store"):
        open_store(f"memory://?{query}")


def test_no_store_is_imported_before_it_is_named() -> None:
    code = "import sys, andon.stores.registry; print([m for m in sys.modules if 'memory' in m])"
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert shown.stdout.strip() == "[]"


def test_a_driver_that_is_missing_is_named_with_what_brings_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr("andon.stores.postgres", raising=False)  # the next import would set it
    for name in [name for name in sys.modules if name.startswith("andon.stores.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(ConfigurationError, match=r"andon\[postgres\]"):
        open_store("postgresql://localhost/db")
