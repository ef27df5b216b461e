"""What a benchmark of this tree needs to run on the source of an older commit.

Import it before anything that a newer tree has moved.
"""

import importlib
import sys
from contextlib import suppress
from importlib.util import find_spec
from types import ModuleType

import andon

MOVED = {
    "contract.limits": "stores.base",
    "contract.requests": "stores.base",
    "contract.store": "stores.base",
}
"""Modules of this tree, and where an older tree has what they define."""


SPINNING = ("stores.kit.spinning", "stores.awake")
"""Where a tree has the waits that look for an answer again and again, the newest place first."""


def stand_in() -> None:
    """Let the old places answer to the new names, if this is a tree from before the move."""
    if find_spec("andon.contract") is not None:
        return
    package = sys.modules["andon.contract"] = ModuleType("andon.contract")
    package.__path__ = []
    for new, old in MOVED.items():
        sys.modules[f"{andon.__name__}.{new}"] = importlib.import_module(f"{andon.__name__}.{old}")


def wait_asleep() -> None:
    """Let no wait for an answer spin, in connections made from now on. A process tries by itself
    whether that pays, on a machine as quiet as it happens to be, and then spends on waiting as much
    as on work: two processes of one tree would differ by half."""
    for name in SPINNING:
        with suppress(ModuleNotFoundError):
            spinning = importlib.import_module(f"{andon.__name__}.{name}")
            spinning.look_at = lambda _socket: None  # type: ignore[attr-defined]
            return


stand_in()
