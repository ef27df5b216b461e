"""What the SQLite store keeps of unique keys: nothing, once nobody holds them."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from andon.contract.outcomes import ChangeKind
from andon.contract.requests import Change
from andon.lifecycle.admission import admit
from andon.lifecycle.apply import apply
from andon.lifecycle.commands import Cancel
from andon.model.policy import Policy, Retention
from andon.model.task import Definition
from andon.stores.sqlite import SqliteStore

POLICIES = (
    Policy(unique_states=("pending", "cancelled"), retention=Retention(cancelled=0)),
    Policy(unique_states=("pending",)),
)


@pytest.mark.parametrize("policy", POLICIES, ids=["held at its end, and discarded", "freed"])
async def test_no_reservation_stays_behind_a_task_that_is_gone(
    tmp_path: Path, policy: Policy
) -> None:
    path = tmp_path / "andon.db"
    store = SqliteStore(f"sqlite:///{path}")
    await store.open()
    definition = Definition(id="t", name="job", unique_key="u", policy=policy)
    task = admit(definition, store.now(), "submit")
    await store.create([task])
    moved = apply(task, Cancel(), now=store.now(), random=lambda: 0.0, write_id="cancel")
    change = Change(before=task, after=moved.status, event=moved.event, discard=moved.discard)
    (changed,) = await store.commit([change])
    assert changed.kind is ChangeKind.APPLIED
    await store.close()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT key FROM unique_key").fetchall() == []
