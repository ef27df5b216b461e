"""How many closings and occurrences each queue loses or doubles when its worker is killed.

    python benchmarks/bearing_peers.py [--groups 20] [--seconds 30] [--only andon,celery]

Each on a Redis server of its own, in an environment of its own (`.bench/envs`).

Closings: so many groups of twenty members are submitted, each with a task that closes it. When a
third of the members has run, the worker is killed with SIGKILL and started again. Then it is waited
until every group was closed, or nothing has happened for a minute. Each group is to close once.

Occurrences: a task recurs every second. After a third of the time worker and scheduler are killed
with SIGKILL, and started again five seconds later. Those that fell into the gap are lost unless
they are made up for. In the last third a second scheduler, or worker if that schedules, runs beside
the first: those that come too often are doubled. Counted is by how many the occurrences differ from
the seconds that have passed, within one for the beginning and the end of each part.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import environments
import store_servers
from bearing_sides.shape import MEMBERS
from peers.shape import Peer

HERE = Path(__file__).resolve().parent
QUIET_S = 60.0
DOWN_S = 5.0


class _Celery(Peer):
    requires = ("celery[redis]==5.7.0", "redis==8.1.0")


class _Dramatiq(Peer):
    requires = ("dramatiq[redis]==2.2.1", "redis==8.1.0")


class _Taskiq(Peer):
    requires = ("taskiq==0.13.0", "taskiq-redis==1.2.4", "redis==8.1.0")


class _Docket(Peer):
    requires = ("pydocket==0.27.0", "redis==8.1.0")


class _APScheduler(Peer):
    requires = ("apscheduler==3.11.3", "redis==8.1.0")


PEERS: dict[str, type[Peer] | None] = {
    "andon": None,
    "celery": _Celery,
    "dramatiq": _Dramatiq,
    "taskiq": _Taskiq,
    "docket": _Docket,
    "apscheduler": _APScheduler,
}


NO_SCHEDULER = ("dramatiq",)


class Side:
    """One queue on one server: its processes, and the lines that its tasks have written."""

    def __init__(self, name: str, python: Path, url: str, folder: Path) -> None:
        self._python = python
        self._module = f"bearing_sides.{name}"
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(HERE),
            "SIDE_URL": url,
            "ANDON_URL": url,
            "SIDE_FOLDER": str(folder),
        }
        self._folder = folder
        self._log = (folder / "log").open("ab")
        self._running: list[subprocess.Popen[bytes]] = []
        self.commands: dict[str, list[str] | None] = self._ask()

    def _ask(self) -> dict[str, list[str] | None]:
        """The commands of the side, told by its own environment."""
        program = (
            f"import json, {self._module} as m; print(json.dumps({{"
            "'worker': m.worker and m.worker(), 'scheduler': m.scheduler and m.scheduler(), "
            "'groups': m.groups and []}))"
        )
        told = self.run(program)
        return json.loads(told.splitlines()[-1])

    def run(self, program: str) -> str:
        done = subprocess.run(
            [str(self._python), "-c", program],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            cwd=self._folder,
        )
        if done.returncode:
            raise RuntimeError(f"{self._module}: {done.stderr.strip().splitlines()[-1]}")
        return done.stdout

    def groups(self, count: int) -> None:
        self.run(f"import {self._module} as m; m.groups({count})")

    def start(self, *roles: str) -> None:
        for role in roles:
            command = self.commands[role]
            if command:
                self._running.append(
                    subprocess.Popen(
                        command,
                        env=self._environment,
                        stdout=self._log,
                        stderr=self._log,
                        stdin=subprocess.DEVNULL,
                        cwd=self._folder,
                        start_new_session=True,  # so that what it forks can be killed with it
                    )
                )

    def kill(self, number: int = signal.SIGKILL) -> None:
        """End all that was started here, and what that has started."""
        for process in self._running:
            try:
                os.killpg(process.pid, number)
            except ProcessLookupError:
                continue
        for process in self._running:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self._running.clear()

    def close(self) -> None:
        self.kill(signal.SIGTERM)
        self._log.close()

    def lines(self, kind: str) -> list[list[str]]:
        file = self._folder / "lines"
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        return [words for line in text.splitlines() if (words := line.split())[0] == kind]

    def until(self, holds: Callable[[], bool]) -> bool:
        """Wait until that holds, as long as something happens; whether it does."""
        seen, quiet = -1, time.monotonic()
        while not holds():
            size = sum(len(self.lines(kind)) for kind in ("member", "closing", "tick"))
            if size != seen:
                seen, quiet = size, time.monotonic()
            if time.monotonic() > quiet + QUIET_S:
                return False
            time.sleep(0.1)
        return True


@contextmanager
def side(name: str) -> Iterator[Side]:
    peer = PEERS[name]
    python = Path(sys.executable)
    if peer is not None:
        python = environments.python_for(f"{name}-bearing", peer)
    with store_servers.running("redis") as server, tempfile.TemporaryDirectory() as folder:
        made = Side(name, python, server.url, Path(folder))
        try:
            yield made
        finally:
            made.close()


def closings(name: str, groups: int) -> dict[str, int] | None:
    """Groups that were never closed, or more than once; None: it has none."""
    with side(name) as one:
        if one.commands["groups"] is None:
            return None
        one.start("worker")
        one.groups(groups)
        members = groups * MEMBERS
        if not one.until(lambda: len(one.lines("member")) >= members // 3):
            raise RuntimeError(f"{name} does not work; see what it logs")
        one.kill()
        one.start("worker")
        one.until(lambda: len({group for _, group in one.lines("closing")}) == groups)
        time.sleep(2)  # for one that comes twice
        closed = Counter(group for _, group in one.lines("closing"))
        ran = {tuple(words) for words in one.lines("member")}
        return {
            "lost": groups - len(closed),
            "doubled": sum(count - 1 for count in closed.values()),
            "members_never_run": members - len(ran),
        }


def occurrences(name: str, seconds: int) -> dict[str, int] | None:
    """By how many the occurrences are too few or too many; None: it has no scheduler."""
    part = max(3, seconds // 3)
    with side(name) as one:
        roles = ("worker", "scheduler")
        if name in NO_SCHEDULER:
            return None
        one.start(*roles)
        if not one.until(lambda: len(one.lines("tick")) >= 2):
            raise RuntimeError(f"{name} does not work; see what it logs")
        first = len(one.lines("tick"))
        begun = time.time()
        time.sleep(part)
        one.kill()
        time.sleep(DOWN_S)
        one.start(*roles)
        one.until(lambda: time.time() > begun + DOWN_S + 2 * part)
        lost = round(time.time() - begun) - (len(one.lines("tick")) - first)
        # A second scheduler beside the first.
        one.start("scheduler" if one.commands["scheduler"] else "worker")
        time.sleep(3)  # until it has begun
        before, since = len(one.lines("tick")), time.time()
        time.sleep(part)
        more = len(one.lines("tick")) - before - round(time.time() - since)
        return {"lost": max(0, lost - 1), "doubled": max(0, more - 1)}


def counted(count: Callable[[str, int], dict[str, int] | None], name: str, size: int) -> str:
    try:
        told = count(name, size)
    except (RuntimeError, environments.NotInstallable) as error:
        return f"not measured: {error}"
    if told is None:
        return "has none"
    never = told.get("members_never_run")
    more = f" ({never} members never ran)" if never else ""
    return f"{told['lost']} lost, {told['doubled']} doubled{more}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--only", default=",".join(PEERS), help="some of them, by commas")
    asked = parser.parse_args()
    told: dict[str, dict[str, Any]] = {}
    for name in asked.only.split(","):
        told[name] = {
            "closings": counted(closings, name, asked.groups),
            "occurrences": counted(occurrences, name, asked.seconds),
        }
        print(name, *told[name].values(), sep=": ", file=sys.stderr, flush=True)
    said = "; ".join(
        f"{name}: closings {one['closings']}, occurrences {one['occurrences']}"
        for name, one in told.items()
    )
    print(json.dumps({"said": said, **told}))
    if any(not one.startswith("0 lost, 0 doubled") for one in told.get("andon", {}).values()):
        sys.exit("Andon has lost or doubled something.")


if __name__ == "__main__":
    main()
