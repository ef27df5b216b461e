"""Chance with a seed that is printed when the test fails, and replayed by the environment."""

import os
import random
import zlib

SEED = "ANDON_CRASH_SEED"


def chance(test: str) -> random.Random:
    """Chance for the test of that name."""
    given = os.environ.get(SEED)
    default = zlib.crc32(test.encode()) ^ random.getrandbits(32)
    seed = int(given) if given else default
    print(f"replay with {SEED}={seed}")
    return random.Random(seed)
