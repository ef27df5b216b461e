"""No module imports, by way of others, itself: also not in functions or for types alone.

`make layers` keeps the packages in order. Inside a package it is here that two modules that need
one another are found: they are one module, or a third one has what both need.
"""

from collections.abc import Mapping, Set
from graphlib import CycleError, TopologicalSorter

import grimp
import pytest

Imports = Mapping[str, Set[str]]


def circle_in(imports: Imports) -> list[str]:
    """The modules of one circle, the first again at its end; empty if there is none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


@pytest.fixture(scope="module")
def imports() -> Imports:
    graph = grimp.build_graph("andon", cache_dir=None)
    return {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}


def test_no_module_imports_itself_by_way_of_others(imports: Imports) -> None:
    assert "andon.worker.registry" in imports["andon.client.declaring"], "it reads no imports"
    assert not (circle := circle_in(imports)), " -> ".join(circle)


def test_imports_for_types_and_in_functions_count(imports: Imports) -> None:
    assert "andon.client.store_access" in imports["andon.client.handle"]  # if TYPE_CHECKING
    assert "andon.stores.registry" in imports["andon.engine.opening"]  # in a function


def test_a_circle_is_named() -> None:
    circle = circle_in({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})
    assert circle[0] == circle[-1]
    assert set(circle) == {"a", "b", "c"}
