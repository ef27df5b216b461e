"""The demo as a user starts it: real processes, killed and started again."""

import asyncio
import signal
from pathlib import Path

import psutil
import pytest
from tests.demo.conftest import UNPARSABLE, Start

from andon.demo import place as places
from andon.demo import scanning
from andon.demo.app import analyze, app
from andon.model.errors import ConfigurationError


@pytest.mark.slow
def test_every_file_is_accounted_for(start: Start, folder: Path, tmp_path: Path) -> None:
    code, out, err = start(folder, "--out", "out").end()
    assert code == 0, out + err
    assert "The ledger balances: submitted 10 = completed 6 + failed 4" in out
    assert "dead letters  4" in out
    assert "failed broken.py: line 1: invalid syntax" in out
    assert "1 failed and retried" in out
    assert "dlq list --url sqlite:///out/andon.db" in out
    report = (tmp_path / "out" / "report.md").read_text()
    assert "| of them analysed | 4 | 50.0 % |" in report
    assert "| `large.py` | 72,000 | 2 |" in report
    for name in UNPARSABLE:
        assert f"| `{name}` | failed |" in report
    assert (tmp_path / "out" / "report.svg").read_text().startswith("<svg")


@pytest.mark.slow
def test_what_is_done_is_not_done_again_unless_asked(start: Start, folder: Path) -> None:
    first = start(folder, "--json").ledger()
    second = start(folder, "--json").ledger()
    assert (first.pop("idle"), second.pop("idle")) == (False, True)
    assert first == second
    fresh = start(folder, "--json", "--fresh").ledger()
    assert (fresh["round"], fresh["idle"], fresh["submitted"]) == (2, False, 10)


@pytest.mark.crash
@pytest.mark.slow
def test_killed_it_goes_on_where_it_was(start: Start, long_folder: Path) -> None:
    first = start(long_folder, "--json", "--workers", 1)
    first.until_completed(4)
    first.kill()
    again = start(long_folder, "--json", "--workers", 1)
    ledger = again.ledger()
    assert ledger["balances"]
    assert (ledger["submitted"], ledger["completed"], ledger["failed"]) == (63, 62, 1)
    assert ledger["runs"] == 63 + ledger["lost"] + ledger["released"]  # no run for nothing


@pytest.mark.crash
@pytest.mark.slow
def test_a_killed_worker_is_replaced(start: Start, long_folder: Path) -> None:
    run = start(long_folder, "--json", "--workers", 1)
    run.until_completed(4)
    [worker] = psutil.Process(run.process.pid).children()
    worker.kill()
    ledger = run.ledger()
    assert ledger["balances"]
    assert (ledger["submitted"], ledger["completed"], ledger["failed"]) == (63, 62, 1)
    # What it held was lost with it and ran again; between two claims it may have held nothing.
    assert ledger["runs"] == 63 + ledger["lost"] + ledger["released"]


@pytest.mark.crash
@pytest.mark.slow
def test_interrupted_it_says_how_to_go_on(start: Start, long_folder: Path) -> None:
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


@pytest.mark.slow
def test_a_scan_cut_short_submits_nothing_twice(
    start: Start, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = places.home_of(folder, tmp_path / "out")
    place = places.find(folder, home, None)
    files = scanning.take(folder, place.listing).files

    async def submit_some() -> None:
        monkeypatch.setattr(app, "url", place.url)
        async with app:
            for path in files[:3]:
                task_id = scanning.file_id(place.prefix, path)
                await analyze.options(id=task_id, queue=place.queue).submit(str(folder), path)

    asyncio.run(submit_some())
    (folder / "later.py").write_text("x = 1\n")  # not in the list, so not in this round
    ledger = start(folder, "--out", "out", "--json").ledger()
    assert (ledger["submitted"], ledger["failed"]) == (10, 4)


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
        (("code", "--url", "memory://"), "memory:// lives in one"),
        (("code", "--url", "mysql://x"), "There is no store for"),
        (("code", "--workers", "0"), "at least one worker"),
        (("code", "--out", "file.py"), "cannot be made"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(
    start: Start, tmp_path: Path, given: tuple[str, ...], said: str
) -> None:
    (tmp_path / "file.py").write_text("x = 1\n")
    (tmp_path / "bare").mkdir()
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.py").write_text("x = 1\n")
    code, out, err = start(*given).end()
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


def test_the_place_of_another_folder_is_not_taken(folder: Path, tmp_path: Path) -> None:
    home = places.home_of(folder, tmp_path / "out")
    places.keep(places.find(folder, home, None))
    with pytest.raises(ConfigurationError, match="holds the demo of"):
        places.find(tmp_path, home, None)
