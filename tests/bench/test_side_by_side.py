"""How peers are counted and reported; the peers themselves are not installed here."""

import os
import subprocess
import sys
import time
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module


def _run_tasks(slots: Path, *numbers: int) -> None:
    code = "import sys; from peers.slots import ran; [ran(int(n)) for n in sys.argv[1:]]"
    subprocess.run(
        [sys.executable, "-c", code, *map(str, numbers)],
        check=True,
        env={**os.environ, "PYTHONPATH": str(BENCHMARKS), "BENCH_SLOTS": str(slots)},
    )


def test_runs_in_several_processes_are_counted_each_once(module: Any, tmp_path: Path):
    slots = module("peers.slots").Slots(tmp_path / "slots", 6)
    _run_tasks(tmp_path / "slots", 0, 1, 2)
    assert not slots.all_ran(range(6))
    _run_tasks(tmp_path / "slots", 5, 4, 3, 1)
    assert slots.all_ran(range(6))
    assert len(slots.times(range(6))) == 6
    assert slots.repeats() == 1
    slots.close()


def test_every_driver_tells_of_itself_without_its_peer(module: Any):
    peers = module("peers")
    for store, names in peers.BY_STORE.items():
        for name in names:
            driver = peers.driver(name)
            assert all("==" in requirement for requirement in driver.requires), name
            assert driver.stores[store], name
            for variant in driver.stores[store]:
                assert driver.variants[variant], name
                assert driver.drained[variant] > 0, name


def _side(module: Any, name: str) -> Any:
    return module("side_by_side").Side(name, "settings", 100)


def test_a_peer_that_counts_wrong_has_no_figure_but_a_problem(module: Any):
    side = _side(module, "peer")
    module("side_by_side")._add(side, {"kind": "drain", "n": 10, "verified": 9, "rate": 5.0})
    assert side.outcomes == {}
    assert side.problems == ["drain: 9 of 10 counted"]


def test_a_wrong_count_of_andon_ends_the_run(module: Any):
    together = module("side_by_side")
    with pytest.raises(together.WrongCount, match="9 of 10"):
        together._add(
            _side(module, "andon"), {"kind": "drain", "n": 10, "verified": 9, "rate": 5.0}
        )


def test_a_session_that_hangs_is_ended_with_all_it_started(
    module: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    together = module("side_by_side")
    monkeypatch.setattr(together, "PATIENCE_S", 3.0)
    side = _side(module, "peer")
    side.command = [
        *("sh", "-c", 'sleep 600 & echo $! > "$0"; echo \'{"begins": "drain"}\'; wait'),
        str(tmp_path / "pid"),
    ]
    together._session(side, module("store_servers").Started("redis", "redis://none", "", 0), {})
    assert side.problems == ["drain: ended after 3 s"]
    _gone(int((tmp_path / "pid").read_text()))


def _gone(pid: int) -> None:
    until = time.monotonic() + 10
    while True:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return
        if state == "Z":
            return
        assert time.monotonic() < until, "it lives on"
        time.sleep(0.02)


def test_why_a_session_failed_is_told(module: Any):
    side = _side(module, "peer")
    side.command = [sys.executable, "-c", "raise SystemExit('the server is too old')"]
    module("side_by_side")._session(
        side, module("store_servers").Started("redis", "redis://none", "", 0), {}
    )
    assert side.problems == ["start: the server is too old"]


def test_a_section_leaves_the_others_as_they_were(
    module: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    page = module("page")
    monkeypatch.setattr(page, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(page, "KEPT", tmp_path / "page")
    (tmp_path / "page.md").write_text("# By hand\n")
    page.replace("redis", ["## Redis", "", "first"], {"drain": "<svg/>"})
    page.replace("sqlite", ["## SQLite"], {})
    page.replace("redis", ["## Redis", "", "second"], {})
    text = (tmp_path / "page.md").read_text()
    assert text.startswith("# By hand\n\n")
    assert text.count("# By hand") == 1
    assert text.index("## SQLite") < text.index("second")
    assert "first" not in text
    assert (tmp_path / "page" / "redis-drain.svg").read_text() == "<svg/>"


def _told(ours: float, theirs: float, *, waited: float = 1.0, rounds: int = 5) -> dict[str, Any]:
    def side(rate: float, wait: float) -> dict[str, Any]:
        drains = [{"n": 10, "verified": 10, "rate": rate + i - rounds // 2} for i in range(rounds)]
        waits = [{"n": 10, "verified": 10, "p50_ms": wait, "p95_ms": 9.0, "p99_ms": 9.0}] * rounds
        outcomes = {"drain": drains, "latency": waits}
        return {"settings": "fast", "versions": {"x": "1"}, "outcomes": outcomes, "problems": []}

    return {
        "store": "redis",
        "server": "Redis 0",
        "machine": {"cpu": "c", "cores": 1, "system": "s", "date": "d", "load_before": [0.1]},
        "rounds": rounds,
        "sides": {"andon": side(ours, waited), "other": side(theirs, 2.0)},
        "missing": ["third cannot be installed here: no wheel"],
        "flat": None,
    }


def test_the_report_tells_ratios_of_medians_and_what_is_missing(module: Any):
    lines = "\n".join(module("side_by_side_report").section(_told(300, 100)))
    assert "| other | - | - | - | 3.00 | - |" in lines
    assert "At none of the figures shown here." in lines
    assert "- third cannot be installed here: no wheel" in lines


def test_the_report_tells_where_a_peer_is_better(module: Any):
    lines = "\n".join(module("side_by_side_report").section(_told(100, 200)))
    assert "- drain, tasks per second: other (2.00x)" in lines
    assert "- latency" not in lines
    lines = "\n".join(module("side_by_side_report").section(_told(100, 200, waited=3.0)))
    assert "- latency, p50, ms (Andon 3.0): other (2.0)" in lines


def test_the_report_has_the_smallest_and_the_largest_beside_each_median(module: Any):
    lines = "\n".join(module("side_by_side_report").section(_told(300, 100)))
    assert "| Andon | - | - | - | 300 (298 to 302) | - | 10 |" in lines
    assert "| other | 2.0 (2.0 to 2.0) |" in lines
    assert "fewer than" not in lines


def test_what_rests_on_too_few_rounds_is_said_or_left_out(module: Any):
    told = _told(100, 200, waited=3.0, rounds=3)
    report = module("side_by_side_report")
    lines = "\n".join(report.section(told))
    assert "fewer than 5 rounds" in lines
    assert "| other | - | - | - | 200 (199 to 201) | - | 10 |" in lines
    assert "### Latency" not in lines
    assert "latency, p50" not in lines
    assert "latency" not in report.plots(told)


@pytest.mark.parametrize("store", ["sqlite", "redis", "postgres", "nats", "service"])
def test_the_page_shows_what_was_measured(module: Any, store: str):
    page = module("page")
    names = {"sqlite": "embedded_report", "service": "service_report"}
    report = module(names.get(store, "side_by_side_report"))
    told = page.kept(store)
    fresh = "\n".join(report.section(told)).strip()
    assert page._section(page.PAGE.read_text(), store) == fresh, (
        f"refresh it: cd benchmarks && python page.py {store}"
    )
    drawn = {f"{store}-{name}.svg" for name in report.plots(told)}
    assert {file.name for file in page.KEPT.glob(f"{store}-*.svg")} == drawn


def test_the_heads_of_the_page_and_of_the_readme_have_what_was_measured(module: Any):
    for path, text in module("summary").pages().items():
        assert path.read_text(encoding="utf-8") == text, (
            "refresh it: cd benchmarks && python summary.py"
        )


def test_a_head_leaves_out_what_rests_on_too_few_rounds(module: Any):
    summary = module("summary")
    enough = "\n".join(summary.head({"redis": _told(300, 100)}))
    assert "| drain, one worker process, tasks/s | 300 (298 to 302) |" in enough
    assert "| drain, one worker process | 3.00 (other) |" in enough
    few = {"redis": _told(300, 100, rounds=3)}
    for lines in (summary.head(few), summary.short(few)):
        assert "300" not in "\n".join(lines)


def test_a_head_says_where_a_peer_is_ahead(module: Any):
    head = "\n".join(module("summary").head({"redis": _told(100, 200, waited=3.0)}))
    assert "- Redis: drain, one worker process (other, 2.00 times the rate); " in head
    assert "submit to start, p50, ms (other 2.0, Andon 3.0)" in head
    ahead = "\n".join(module("summary").head({"redis": _told(300, 100)}))
    assert "- Redis: at none of these." in ahead


def _served(rounds: int) -> dict[str, list[dict[str, Any]]]:
    """What rounds of the service measure: 1, 2 and so on, of everything."""
    figures = ("rate", "cpu_us", "p50_ms", "p99_ms", "submits_rate", "memory_mb", "last_max_ms")
    rows = ("empty route", "single submits")
    names = [f"{row}{how}" for row in rows for how in ("", ", fewer connections")]
    names += ["empty route, same body", "bulk submit", "the task to get", "GET under load"]
    names += ["streams", "streams under load", "drain, remote worker"]
    return {name: [dict.fromkeys(figures, float(n + 1)) for n in range(rounds)] for name in names}


def test_each_row_of_the_service_has_the_smallest_and_the_largest(module: Any):
    report = module("service_report")
    rows = report._rows(_served(5))
    assert len(rows) == 2 + 12
    for row in rows[2:]:
        assert "(100 to 100)" in row if "empty route's rate" in row else "(1" in row, row
    assert report._few(_served(5)) == []


def test_rows_of_the_service_that_rest_on_too_few_rounds_are_left_out_and_named(module: Any):
    report = module("service_report")
    outcomes = _served(5) | {"bulk submit": _served(4)["bulk submit"]}
    assert not any("bulk submit" in row for row in report._rows(outcomes))
    [said, _] = report._few(outcomes)
    assert said == "Left out until they are measured in 5 rounds: bulk submit (4)."


def test_every_round_of_the_service_measures_every_row(module: Any, monkeypatch: Any):
    module("peers")  # so that the others of the folder are found
    # By its place: beside other tests the name is that of a package of theirs.
    spec = spec_from_file_location("benchmarks_of_the_service", BENCHMARKS / "service.py")
    assert spec is not None
    assert spec.loader is not None
    service = module_from_spec(spec)
    spec.loader.exec_module(service)
    asked: list[str] = []

    def one(url: str, sizes: dict[str, int], folder: Path) -> dict[str, list[dict[str, Any]]]:
        asked.append(url)
        return _served(1)

    monkeypatch.setattr(service, "_one", one)
    outcomes = service._rounds(lambda n: f"store{n}", {"rounds": 5}, Path())
    assert asked == [f"store{n}" for n in range(1, 6)]
    assert {len(found) for found in outcomes.values()} == {5}
    assert module("service_report")._few(outcomes) == []


def test_how_much_a_ratio_varies_is_that_of_fifths_of_the_rounds(module: Any):
    blocks = module("blocks")
    few = [1.0] * 55
    many = (
        [1.0] * 11 + [1.1] * 33 + [0.9] * 10 + [50.0]
    )  # one round that went wrong decides nothing
    within = blocks.ratios(few, many)
    assert [round(ratio, 2) for ratio in within] == [1.0, 1.1, 1.1, 1.1, 0.9]
    assert blocks.told(1.1, within) == "1.10 (0.90 to 1.10)"
    assert blocks.told(1.1, []) == "1.10"


def test_a_table_of_flatness_shows_how_much_its_ratios_vary(module: Any):
    cost = {"few_us": 10.0, "many_us": 11.0, "ratio": 1.1}
    flat = {"few": 10, "many": 20, "rounds": 60, "how": "", "date": "d"}
    lines = module("embedded_report").flat_lines
    known = lines({"flat": flat | {"costs": {"claim": cost | {"within": [1.0, 1.2]}}}})
    assert "| claim | 10.0 | 11.0 | 1.10 (1.00 to 1.20) |" in known
    assert any("In brackets" in line for line in known)
    earlier = lines({"flat": flat | {"costs": {"claim": cost}}})
    assert "| claim | 10.0 | 11.0 | 1.10 |" in earlier
    assert not any("In brackets" in line for line in earlier)
