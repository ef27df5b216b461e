"""Where processes on one file find each other, however long its path is."""

from pathlib import Path

import pytest

from andon.stores.sqlite.wake import WakeSocket


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
