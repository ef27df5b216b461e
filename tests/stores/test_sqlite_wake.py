"""Where processes on one file find each other, however long its path is."""

import time
from collections.abc import Set
from pathlib import Path

import pytest

from andon.stores.sqlite.wake import WakeSocket

PATIENCE_S = 60.0


@pytest.mark.parametrize(
    ("database", "temporary"),
    [("short", "short"), ("d" * 120, "short"), ("d" * 120, "t" * 120)],
    ids=["beside the file", "in the temporary folder", "where that is a long path too"],
)
def test_two_on_one_file_hear_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: str, temporary: str
) -> None:
    for name in {database, temporary}:
        (tmp_path / name).mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / temporary))
    file = tmp_path / database / "andon.db"
    one, other = WakeSocket(file), WakeSocket(file)
    one.listen({"ready"})
    other.send(["ready:mail"])
    assert one.receive() == {"ready:mail"}
    folder = one._folder
    other.close()
    one.close()
    assert not folder.exists()


def test_others_are_hinted_from_when_they_listen_until_they_do_not(tmp_path: Path) -> None:
    file = tmp_path / "andon.db"
    one, other = WakeSocket(file), WakeSocket(file)
    one.listen(())
    other.send(["ready:mail"], ["t1"])
    assert one.receive() == set(), "it listens for nothing"
    one.listen({"task"})
    assert _hinted(one, other) == {"task:t1"}
    one.listen({"ready", "task"})
    assert "ready:mail" in _hinted(one, other, but_not={"task:t1"})
    one.listen(())
    other.send(["ready:mail"], ["t1"])
    assert one.receive() == set(), "nothing has its name any more"
    other.close()
    one.close()


def _hinted(one: WakeSocket, other: WakeSocket, *, but_not: Set[str] = frozenset()) -> set[str]:
    """What one hears of the other in the end: a socket that got its name within the tick of the
    last look at the folder is found a second later."""
    end = time.monotonic() + PATIENCE_S
    while not (heard := one.receive() - but_not) and time.monotonic() < end:
        other.send(["ready:mail"], ["t1"])
    return heard


def test_what_a_process_that_died_has_left_is_removed(tmp_path: Path) -> None:
    file = tmp_path / "andon.db"
    one, other = WakeSocket(file), WakeSocket(file)
    one.listen({"ready"})
    one.receiver.close()
    assert len([*one._folder.iterdir()]) == 1
    other.send(["ready:mail"])
    assert [*one._folder.iterdir()] == []
    other.close()
    one.close()
