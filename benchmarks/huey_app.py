"""What Huey runs. Imported by its consumer; counts in process, since Huey keeps no record."""

import itertools
import json
import os
import time
from pathlib import Path

from huey import SqliteHuey

_FSYNC = {"default": None, "full": True, "off": False}

huey = SqliteHuey(
    "bench",
    filename=os.environ["BENCH_HUEY_FILE"],
    results=False,
    fsync=_FSYNC[os.environ.get("BENCH_HUEY_SYNC", "default")],
)
_out = Path(os.environ.get("BENCH_HUEY_OUT", "unused"))
_wanted = int(os.environ.get("BENCH_HUEY_N", "0"))
_number = itertools.count(1)
_first: list[float] = []
_waits: list[int] = []


@huey.task(name="noop")
def noop(number: int) -> None:
    if number < 0:
        _tell("ready", {})
        return
    done = next(_number)
    if done == 1:
        _first.append(time.time())
    if done == _wanted:
        _tell("done", {"n": done, "first": _first[0], "last": time.time()})


@huey.task(name="arrive")
def arrive(sent_ns: int) -> None:
    _waits.append(time.time_ns() - sent_ns)
    if len(_waits) == _wanted:
        _tell("done", {"n": len(_waits), "waits": _waits})


def _tell(what: str, value: dict[str, object]) -> None:
    part = _out.with_suffix(".part")
    part.write_text(json.dumps(value), encoding="utf-8")
    part.rename(_out.with_suffix(f".{what}"))
