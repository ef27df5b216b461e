"""The text at the end of the demo: the ledger, where the report is, and what to try next."""

import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from andon.demo.ledger import Ledger
from andon.demo.place import Place, store_in
from andon.demo.scanning import Listing
from andon.model.task import Task
from andon.model.words import State

_MOST_PROBLEMS = 10


def told(
    ledger: Ledger, place: Place, flows: Sequence[Listing], report: Task | None, *, again: str
) -> str:
    """All of it, as text. `flows` are their lists, `report` the last task of the newest."""
    parts = (
        _ledger(ledger, flows),
        _report(place, report),
        _next(ledger, place, flows, again),
    )
    return "\n\n".join("\n".join(part) for part in parts)


def _ledger(ledger: Ledger, flows: Sequence[Listing]) -> list[str]:
    head = "The ledger balances" if ledger.balances else "THE LEDGER DOES NOT BALANCE"
    sum_ = f"completed {ledger.completed:,} + failed {ledger.failed:,}"
    if ledger.unfinished:
        sum_ += f" + unfinished {ledger.unfinished:,}"
    states = ", ".join(f"{state} {number:,}" for state, number in ledger.states.items())
    lines = [
        f"{head}: submitted {ledger.submitted:,} {'=' if ledger.balances else 'against'} {sum_}",
        "",
        *(_flow(flow, balances=ledger.balances) for flow in flows),
        f"  schedule      {ledger.occurrences:,} occurrences"
        + (", none missing, none twice" if ledger.balances else ""),
        f"  by state      {states}",
        f"  dead letters  {ledger.dead_letters:,}",
        f"  runs          {ledger.runs:,}, each resolved once; "
        f"{ledger.retried:,} tasks took more than one",
        f"  of the runs   {ledger.retries:,} failed and retried, "
        f"{ledger.lost:,} lost with their worker, {ledger.released:,} handed back",
        f"  event log     {ledger.moves:,} moves, each of them in the table of moves",
        f"  took          {ledger.seconds:,.1f} s from the first submit to the last end",
    ]
    lines += [f"  PROBLEM       {problem}" for problem in ledger.problems[:_MOST_PROBLEMS]]
    if len(ledger.problems) > _MOST_PROBLEMS:
        lines.append(f"  PROBLEM       and {len(ledger.problems) - _MOST_PROBLEMS:,} more")
    return lines


def _flow(flow: Listing, *, balances: bool) -> str:
    files = list(flow.changed)
    one = len(files) == 1
    what, once = ("1 file", "") if one else (f"{len(files):,} files", "each ")
    if flow.flow > 1:
        what += f" that had changed ({files[0]}{'' if one else ', …'})"
    return f"  {f'flow {flow.flow}':<14}{what}{f', {once}analysed once' if balances else ''}"


def _report(place: Place, report: Task | None) -> list[str]:
    if report is None:
        return ["There is no report: no flow was ever begun."]
    if report.state is not State.COMPLETED:
        error = report.status.last_error
        why = f": {error.message}" if error is not None else ""
        return [f"There is no report: its task ended {report.state.value}{why}"]
    path = _near(place.names.report)
    return [f"The report  {path}", f"Its chart   {path.with_suffix('.svg')}"]


def _next(ledger: Ledger, place: Place, flows: Sequence[Listing], again: str) -> list[str]:
    andon = program()
    url = shlex.quote(_near_url(place))
    steps = [("dlq list", "what could not be analysed")] if ledger.dead_letters else []
    if ledger.most_runs:
        steps.append((f"tasks show {ledger.most_runs}", "a life with retries"))
    if flows:
        steps.append((f"flows show {place.names.flow(1)}", "the first flow, as a tree"))
    steps += [
        (f"schedules show {place.names.schedule}", "the schedule that watched"),
        ("tasks list --limit 20", "tasks, with their states"),
        ("doctor", "what this store promises"),
    ]
    lines = ["Try next"]
    for step, what in steps:
        lines += [f"  {what}:", f"    {andon} {step} --url {url}"]
    return [*lines, "  all of it once more:", f"    {again} --fresh"]


def program() -> str:
    """How `andon` is called from here."""
    here = Path(sys.executable).with_name("andon")
    found = shutil.which("andon")
    if (found is not None and Path(found) == here) or not here.exists():
        return "andon"
    return shlex.quote(str(_near(here)))


def _near(path: Path) -> Path:
    """The path from here, where that is shorter to say."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _near_url(place: Place) -> str:
    return store_in(_near(place.home)) if place.url == store_in(place.home) else place.url
