"""Tests of single stores: a folder that is named as a store is of that store only."""

from pathlib import Path

import pytest
from conftest import STORES, selected_stores

HERE = Path(__file__).parent


def pytest_itemcollected(item: pytest.Item) -> None:
    left_out = set(STORES) - set(selected_stores(item.config))
    if item.path.relative_to(HERE).parts[0] in left_out:
        item.add_marker(pytest.mark.skip(reason="another --store was asked for"))
