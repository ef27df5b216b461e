"""An older release of Andon beside this one on one store, both of them killed under load.

The older releases come out of the repository's history, each with its own `program.py`.
"""

import asyncio
import io
import random
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from andon.model.errors import StoreError
from andon.model.words import State
from andon.stores.registry import open_store

from .conftest import ROOT, Fleet
from .test_kills import storm
from .watching import PATIENCE_S, Watcher

pytestmark = pytest.mark.crash

SAME_SCHEMA = "26b92dde967d2c43ec6384ad94b06eb8545fdac8"
"""An older release that works beside this one on SQLite and PostgreSQL. On Redis it takes the
numbers of tasks for decimal, and is kept out."""

SAME_NUMBERS = "cb9c651d5f5d949e401502d99eee31e5923145f8"
"""The first release that writes on Redis what this one does."""

SCHEMA_BEFORE = "c5a32bbbb798879535da7dc4e361154a55855889"
"""The last one before schema 2. SQLite and PostgreSQL migrate it; the others refuse it."""

COUNTS_ELSEWHERE = "1afc43da0322bfbc635c67182d0fe7247c9477ab"
"""One of schema 3 of SQLite and PostgreSQL, which migrate it; for the other stores it is no other
schema."""

WITHOUT_LISTS = "0af6f05b"
"""The last one that does not enter tasks in lists by name: where these are kept in the store, it is
kept out once they are there."""


def release_at(commit: str, folder: Path) -> Path:
    """The sources and the test program of an older release, unpacked; skips without history."""
    packed = subprocess.run(
        ["git", "-C", ROOT, "archive", commit, "src", "tests/crash/program.py"],
        capture_output=True,
        check=False,
    )
    if packed.returncode:
        pytest.skip(f"the history of this checkout does not reach {commit[:7]}")
    unpacked = folder / commit[:7]
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extraction_filter = lambda member, _: member  # our own; 3.11.4 has filters
        archive.extractall(unpacked)
    return unpacked


def test_two_releases_killed_beside_each_other_lose_nothing(
    fleet: Fleet, rng: random.Random, tmp_path: Path, store_kind: str
) -> None:
    # NATS keeps no lists by name in the store, so it knows no difference.
    others = {"nats": WITHOUT_LISTS, "redis": SAME_NUMBERS}
    older = release_at(others.get(store_kind, SAME_SCHEMA), tmp_path)
    fleet.releases = {"worker0": older, "submitter0": older, "meddler0": older}
    asyncio.run(storm(fleet, rng, workers=2, submitters=2, meddlers=2, prey="ws"))


@pytest.mark.parametrize(
    "upgrade",
    [
        (SCHEMA_BEFORE, "work"),
        (SCHEMA_BEFORE, "submit"),
        (COUNTS_ELSEWHERE, "work"),
        (WITHOUT_LISTS, "work"),
        (SAME_SCHEMA, "work"),
    ],
    ids=[
        "schema-before-work",
        "schema-before-submit",
        "counts-elsewhere-work",
        "without-lists-work",
        "decimal-numbers-work",
    ],
)
def test_a_newer_release_migrates_under_an_older_one_and_loses_nothing(
    fleet: Fleet, rng: random.Random, tmp_path: Path, store_kind: str, upgrade: tuple[str, str]
) -> None:
    """Whatever the older release was told is stored is done by the newer one."""
    release, newcomer = upgrade
    migrates = {SAME_SCHEMA: ("redis",), WITHOUT_LISTS: ("sqlite", "postgres", "redis")}
    if store_kind not in migrates.get(release, ("sqlite", "postgres")):
        pytest.skip("this store has nothing to migrate, or refuses the older schema")
    older = release_at(release, tmp_path)
    fleet.releases = {"older-worker": older, "older-submitter": older}
    fleet.start("older-worker", "work", rng.random())
    fleet.start("older-submitter", "submit", rng.random(), "old", 2_000)
    until(lambda: len(fleet.acknowledged()) > 50, fleet)

    fleet.start("newer", newcomer, rng.random(), *(("new", 20) if newcomer == "submit" else ()))
    until(lambda: fleet.is_up("newer") or newcomer == "submit", fleet)
    # It goes on until its next write is refused, or all that it had to do is done.
    fleet.end("older-submitter")
    fleet.kill("older-worker")
    if newcomer == "submit":
        assert fleet.end("newer") == 0, fleet.logs()
        fleet.start("newer", "work", rng.random())

    async def resolved() -> None:
        store = open_store(fleet.url)
        await store.open()
        try:
            watcher = Watcher(store)
            await watcher.until_resolved(len(fleet.acknowledged()))
            assert set(fleet.acknowledged()) <= watcher.ledger.tasks.keys()
            assert set(watcher.ledger.states()) == {State.COMPLETED}
        finally:
            await store.close()

    asyncio.run(resolved())
    fleet.signal("newer", signal.SIGTERM)
    assert fleet.end("newer") in (0, -signal.SIGTERM), fleet.logs()


def until(holds: Callable[[], bool], fleet: Fleet) -> None:
    """Wait until that holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, fleet.logs()
        time.sleep(0.02)


def test_a_store_of_an_older_schema_that_is_not_migrated_is_refused_unharmed(
    fleet: Fleet, rng: random.Random, tmp_path: Path, store_kind: str
) -> None:
    if store_kind in ("sqlite", "postgres"):
        pytest.skip("this store migrates")
    older = release_at(SCHEMA_BEFORE, tmp_path)
    fleet.releases = dict.fromkeys(("submitter", "worker"), older)
    fleet.start("submitter", "submit", rng.random(), "old", 50)
    assert fleet.end("submitter") == 0, fleet.logs()

    async def refused() -> None:
        store = open_store(fleet.url)
        with pytest.raises(StoreError, match="has schema"):
            await store.open()
        await store.close()

    asyncio.run(refused())
    fleet.start("worker", "work", rng.random())
    until(lambda: len({line[0] for line in fleet.lines("done")}) == 50, fleet)
