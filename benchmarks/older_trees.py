"""What a benchmark of this tree needs to run on the source of an older commit.

Import it before anything that a newer tree has moved.
"""

import importlib
import sys
from importlib.util import find_spec
from types import ModuleType

import andon

MOVED = {
    "contract.limits": "stores.base",
    "contract.requests": "stores.base",
    "contract.store": "stores.base",
}
"""Modules of this tree, and where an older tree has what they define."""


def stand_in() -> None:
    """Let the old places answer to the new names, if this is a tree from before the move."""
    if find_spec("andon.contract") is not None:
        return
    package = sys.modules["andon.contract"] = ModuleType("andon.contract")
    package.__path__ = []
    for new, old in MOVED.items():
        sys.modules[f"{andon.__name__}.{new}"] = importlib.import_module(f"{andon.__name__}.{old}")


stand_in()
