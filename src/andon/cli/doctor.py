"""`andon doctor`: what the store guarantees as it is configured, and what is wrong."""

from typing import TYPE_CHECKING

import click

from andon.cli.output import Word
from andon.cli.session import Session, common, fail

if TYPE_CHECKING:
    from andon.engine.findings import Finding

_MARKS = {"ok": ("✓", "green"), "note": ("!", "yellow"), "wrong": ("✗", "bold red")}


@click.command()
@click.argument("app", required=False)
@common
async def doctor(session: Session, *, app: str | None) -> None:
    """Check what is promised and what is wrong.

    What survives which accident with the store as it is configured, versions, disk, permissions,
    the clock, workers, queues that stand still, timers, schedules, records that cannot be read,
    where logs are kept; with APP also whether its code runs what has not ended yet, and whether it
    signs what workers want signed. Exit code 1 if anything is wrong.
    """
    from andon.cli.checks import all_checks, read
    from andon.engine import findings
    from andon.engine.checks import wrong as how_many_wrong

    application = None
    if app is not None:
        from andon.cli.apps import load_app

        application = load_app(app, url=session.given_url)
        session.given_url = application.url
    async with session.engine() as engine:
        found = list(all_checks(await read(engine, application), application))
    if session.out.json:
        session.out.document({"wrong": how_many_wrong(found), "findings": found})
    else:
        for finding in found:
            _print(session, finding)
    wrong = how_many_wrong(found)
    notes = sum(finding.level is findings.Level.NOTE for finding in found)
    session.out.note(f"{wrong} wrong, {notes} worth knowing, {len(found) - wrong - notes} fine.")
    if wrong:
        fail()


def _print(session: Session, finding: "Finding") -> None:
    out = session.out
    mark, style = _MARKS[finding.level.value]
    if not out.terminal:
        out.words([finding.level.value, finding.about, finding.text, finding.todo])
        return
    out.words([Word(mark, style), Word(f"{finding.about}:", "bold"), finding.text])
    if finding.todo:
        out.words([Word(f"   → {finding.todo}", "dim")])
