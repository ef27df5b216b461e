"""Interpreter settings for a process that does nothing but run or serve tasks.

For processes that are Andon's own (`andon worker`, `dev`, `serve`); a library must not change
either setting in a process of the user's.
"""

import gc
import sys

SWITCH_INTERVAL_S = 0.001
"""How long a thread may keep the interpreter: with the usual 5 ms the store's writer waits for
the loop so often that a drain takes a third longer."""

SERVING_SWITCH_INTERVAL_S = 0.0001
"""The same where no handlers run: the loop of a busy service computes all the time, and the store's
writer waits for it with each step."""

COLLECT_AFTER = 10_000
"""How many objects are made before the garbage collector looks at the youngest. A run makes some
thirty that it tracks and none that need it; with the usual 700 it looked at them 40 times per
thousand runs, a twelfth of the CPU of a drain."""


def tune_process(switch_interval_s: float = SWITCH_INTERVAL_S) -> None:
    """Set up the process; call it once the application is imported, whose objects stay."""
    sys.setswitchinterval(switch_interval_s)
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, 10, 10)
