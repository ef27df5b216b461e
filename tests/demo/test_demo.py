"""The demo as a user starts it: real processes, killed and started again."""

import asyncio
import json
import re
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.demo.conftest import UNPARSABLE, Start

from andon.demo import place as places
from andon.demo import run, scanning, scratch
from andon.demo.__main__ import main
from andon.demo.app import app
from andon.demo.conducting import begin as begin_round
from andon.model.errors import ConfigurationError

OWN = 3 + 3
"""Tasks beside those for the files of a folder: in the first flow a scan, a report and the analysis
of the demo's own file; in the second the same."""


@pytest.mark.slow
def test_every_file_is_accounted_for_a_change_is_found_and_nothing_is_done_again_unasked(
    start: Start, folder: Path, tmp_path: Path
) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    code, out, err = start(folder, "--out", "out").end()
    assert code == 0, out + err
    assert re.search(r"The ledger balances: submitted \d+ = completed \d+ \+ failed 4\n", out)
    assert re.search(r"flow 1 +9 files, each analysed once\n", out)
    assert re.search(
        r"flow 2 +1 file that had changed \(.scratch/changing.py\), analysed once\n", out
    )
    assert re.search(r"schedule +\d+ occurrences, none missing, none twice\n", out)
    assert "dead letters  4" in out
    assert "failed broken.py: line 1: invalid syntax" in out
    assert "The demo changes a file of its own, .scratch/changing.py." in out
    assert "The schedule found that: flow 2 has analysed it" in out
    assert "1 failed and retried" in out
    assert "dlq list --url sqlite:///out/andon.db" in out
    report = (tmp_path / "out" / "report.md").read_text()
    assert "| of them analysed | 5 | 55.6 % |" in report
    assert "| functions and methods | 3 |" in report  # one of them was added by the change
    assert "| `large.py` | 72,000 | 2 |" in report
    for name in UNPARSABLE:
        assert f"| `{name}` | failed |" in report
    assert (tmp_path / "out" / "report.svg").read_text().startswith("<svg")
    assert before == {path: path.stat().st_mtime_ns for path in folder.rglob("*")}

    again = start(folder, "--out", "out", "--json")
    code, said, err = again.end()
    assert code == 0
    assert "There is nothing to do" in err
    assert out[out.index("The ledger balances") :] == err[err.index("The ledger balances") :]
    done = json.loads(said)
    assert (done["idle"], [flow["files"] for flow in done["flows"]]) == (True, [9, 1])
    fresh = start(folder, "--out", "out", "--json", "--fresh").ledger()
    assert (fresh["round"], fresh["idle"]) == (2, False)
    assert fresh["submitted"] - fresh["occurrences"] == 8 + OWN


@pytest.mark.crash
@pytest.mark.slow
def test_killed_it_goes_on_where_it_was(start: Start, long_folder: Path) -> None:
    first = start(long_folder, "--json", "--workers", 1)
    first.until_completed(4)
    first.kill()
    again = start(long_folder, "--json", "--workers", 1)
    accounted_for(again.ledger())


@pytest.mark.crash
@pytest.mark.slow
def test_killed_workers_are_replaced(start: Start, long_folder: Path) -> None:
    run = start(long_folder, "--json", "--workers", 1, "--kills", 1)
    run.until_completed(4)
    [worker] = psutil.Process(run.process.pid).children()
    worker.kill()
    # What they held was lost with them and ran again; between two claims it may have held nothing.
    accounted_for(run.ledger())


def accounted_for(ledger: dict[str, Any]) -> None:
    """All of the long folder was done, however often something was killed."""
    assert ledger["balances"]
    assert ledger["submitted"] - ledger["occurrences"] == 61 + OWN
    assert [flow["files"] for flow in ledger["flows"]] == [62, 1]
    assert ledger["failed"] == 1
    assert ledger["runs"] == ledger["submitted"] + ledger["lost"] + ledger["released"]


@pytest.mark.crash
@pytest.mark.slow
def test_interrupted_it_leaves_nothing_behind_and_says_how_to_go_on(
    start: Start, long_folder: Path, tmp_path: Path
) -> None:
    run = start(long_folder, "--json", "--workers", 1)
    run.until_completed(4)
    workers = psutil.Process(run.process.pid).children(recursive=True)
    code, out, err = run.end(signal.SIGINT)
    assert code == 130
    assert "Nothing is lost" in err
    assert f"Go on with:  python -m andon.demo {long_folder}" in err
    assert out == ""
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert alive == []
    # What it goes on with is in its own folder, and there is nothing else, not in TMPDIR either.
    assert {path.name for path in tmp_path.iterdir()} == {"long", ".andon"}


@pytest.mark.slow
def test_a_list_whose_flow_was_never_submitted_gets_it_and_what_came_later_is_a_change(
    start: Start, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = places.home_of(folder, tmp_path / "out")
    place = places.find(folder, home, None)
    names = place.names
    monkeypatch.setattr(app, "url", place.url)

    async def begin() -> None:
        async with app:
            scanning.take(names, None, {"a.py": (1, 1)}, taken_by="of a store that was removed")
            assert await begin_round(app, names)
            assert scanning.newest(names) is None
            assert not await begin_round(app, names)

    asyncio.run(begin())
    scanning.take(names, None, scanning.look(names), taken_by="an occurrence that was lost")
    (folder / "later.py").write_text("x = 1\n")
    ledger = start(folder, "--out", "out", "--json").ledger()
    files = [path for flow in scanning.listings(names) for path in flow.changed]
    assert len(scanning.read(names, 1).changed) == 9
    assert sorted(files[9:]) == [scratch.PATH, "later.py"]
    assert (ledger["balances"], ledger["failed"]) == (True, 4)


def test_only_one_demo_works_in_a_folder(start: Start, folder: Path, tmp_path: Path) -> None:
    home = places.home_of(folder, tmp_path / "out")
    with places.held(home):
        code, _, err = start(folder, "--out", "out").end()
    assert code == 2
    assert "Another demo is at work" in err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("nowhere",), "There is no folder 'nowhere'"),
        (("file.py",), "is not a folder"),
        (("bare",), "There is no Python file below"),
        ((".", "--out", "x"), "There are more than 1 Python files below"),
        (("code", "--url", "memory://"), "memory:// lives in one"),
        (("code", "--url", "mysql://x"), "There is no store for"),
        (("code", "--workers", "0"), "at least one worker"),
        (("code", "--out", "file.py"), "cannot be made"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(
    tmp_path: Path,
    given: tuple[str, ...],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file.py").write_text("x = 1\n")
    (tmp_path / "bare").mkdir()
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.py").write_text("x = 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(scanning, "MOST_FILES", 1)
    monkeypatch.setattr("sys.argv", ["andon.demo", *given])
    assert main() == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err


def test_the_place_of_another_folder_is_not_taken(folder: Path, tmp_path: Path) -> None:
    home = places.home_of(folder, tmp_path / "out")
    places.keep(places.find(folder, home, None))
    with pytest.raises(ConfigurationError, match="holds the demo of"):
        places.find(tmp_path, home, None)


def test_it_says_to_go_on_with_a_command_that_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.chdir(Path(sys.executable).parent.parent)
    said = run._command("andon demo", "some files", url=None, out=None)
    program, *rest = shlex.split(said)
    assert (Path.cwd() / program).samefile(Path(sys.executable).with_name("andon"))
    assert rest == ["demo", "some files"]
