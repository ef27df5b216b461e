"""A flow works through what has changed since the one before, and its list stays what it was."""

import os
from pathlib import Path

import pytest

from andon.demo import scanning, scratch
from andon.demo.names import Names


@pytest.fixture
def names(folder: Path, tmp_path: Path) -> Names:
    scratch.begin(tmp_path)
    return Names(folder=str(folder), home=str(tmp_path), prefix="r-1")


def changed_since(names: Names) -> tuple[str, ...]:
    before = scanning.newest(names)
    listing = scanning.take(names, before, scanning.look(names), taken_by="t")
    return () if listing is None else listing.changed


def test_the_first_flow_is_of_all_files_and_of_the_demos_own(names: Names, folder: Path) -> None:
    found = changed_since(names)
    assert set(found) == {*scanning.walk(folder), scratch.PATH}
    assert "below/two.py" in found
    assert changed_since(names) == ()
    assert [one.changed for one in scanning.listings(names)] == [found]


def test_a_file_that_was_written_to_or_added_is_a_change_and_one_removed_is_none(
    names: Names, folder: Path
) -> None:
    changed_since(names)
    (folder / "null.py").unlink()
    assert changed_since(names) == ()
    (folder / "new.py").write_text("x = 1\n")
    os.utime(folder / "one.py", ns=(1, 1))
    scratch.change(Path(names.home))
    assert changed_since(names) == (scratch.PATH, "new.py", "one.py")
    newest = scanning.newest(names)
    assert newest is not None
    assert (newest.flow, "null.py" in newest.files) == (2, False)


def test_a_name_that_is_no_text_is_left_out(names: Names, folder: Path) -> None:
    (folder / "more").mkdir()
    try:
        Path(os.fsdecode(os.fsencode(folder / "more") + b"/\xff.py")).touch()
    except OSError:
        pytest.skip("this file system has text for names")
    assert not any("more/" in path for path in scanning.walk(folder))
