"""The application: three task types, as anybody would write them.

    scan ──► analyze (one per file) ──► report

Its store is the one that ANDON_URL names, so `andon worker andon.demo.app:app --url …` in another
terminal lends a hand.
"""

import asyncio
from pathlib import Path

import msgspec

from andon.client.app import Andon
from andon.demo import scanning
from andon.demo.analysis import Facts, Unparsable, analyse
from andon.demo.report import Outcome, write_report
from andon.worker.context import Context
from andon.worker.control import Terminate

LEASE_S = 5.0
"""Short, so that what a killed worker had in hand goes on within seconds."""

FIRST_BUDGET = 64 * 1024
BUDGET_GROWTH = 4

_AT_ONCE = 100

app = Andon(lease=LEASE_S, retention=None, dead_letter_retention=None, shutdown_grace=2.0)


class OverBudget(Exception):
    """The file is larger than this try may read."""


@app.task(name="demo.scan", max_retries=10, retry_delay=0.5, backoff="constant")
async def scan(ctx: Context, folder: str, listing: str, prefix: str, report_to: str) -> int:
    """Submit one analysis per file, and the report that waits for all of them.

    May be killed anywhere and run again: the list of files is kept, and every id is derived from
    it, so what was submitted already is found to be there. The report comes last; once it is
    submitted, nothing is left to do.
    """
    files = (await asyncio.to_thread(scanning.take, Path(folder), Path(listing))).files
    if not files:
        raise Terminate(f"There is no Python file below {folder} any more.")
    queue = ctx.task.definition.queue
    ids: list[str] = []
    for start in range(0, len(files), _AT_ONCE):
        drafts = [
            analyze.options(id=scanning.file_id(prefix, path), queue=queue).draft(folder, path)
            for path in files[start : start + _AT_ONCE]
        ]
        ids += [handle.id for handle in await app.submit_many(drafts)]
        ctx.progress(99 * len(ids) // len(files), f"{len(ids)} of {len(files)} files submitted")
    last = report.options(
        id=f"{prefix}-report",
        queue=queue,
        depends_on=ids,
        requires="all-resolved",
        load_dependencies=True,
    )
    await last.submit(folder, listing, prefix, report_to)
    return len(files)


@app.task(
    name="demo.analyze",
    isolation="process",
    timeout=60,
    max_retries=4,
    retry_delay=1.0,
    backoff="exponential_jitter",
    no_retry_on=(Unparsable,),
)
def analyze(ctx: Context, folder: str, path: str) -> Facts:
    """Count what is in one file.

    A try has a budget: the first reads up to 64 KiB, each later one four times as much. So a
    large file gives way at once to the many small ones, and comes back a moment later with more:
    the retries are real, and the same files need them in every run. A file that does not parse
    never will, so it is not retried and becomes a dead letter.
    """
    source = Path(folder, path)
    budget = FIRST_BUDGET * BUDGET_GROWTH ** (ctx.attempt - 1)
    size = source.stat().st_size
    if size > budget:
        raise OverBudget(f"{path}: {size:,} bytes; try {ctx.attempt} may read {budget:,}")
    try:
        return analyse(source.read_bytes(), path, tries=ctx.attempt)
    except Unparsable as error:
        raise Unparsable(f"{path}: {error}", error.code) from None


@app.task(name="demo.report", max_retries=3, retry_delay=1.0, backoff="constant")
def report(ctx: Context, folder: str, listing: str, prefix: str, report_to: str) -> str:
    """Write the report from what all the analyses found, also those that failed."""
    files = scanning.take(Path(folder), Path(listing)).files
    paths = {scanning.file_id(prefix, path): path for path in files}
    outcomes: list[Outcome] = []
    for task_id, found in ctx.dependencies.items():
        facts = None if found.result is None else msgspec.convert(found.result, Facts)
        error = found.error
        outcomes.append(
            Outcome(
                path=paths[task_id],
                state=found.state,
                facts=facts,
                error=f"{error.code}, {error.message}" if error is not None else "",
            )
        )
        if len(outcomes) % 100 == 0:
            ctx.progress(90 * len(outcomes) // len(paths), f"{len(outcomes)} results read")
    outcomes.sort(key=lambda outcome: outcome.path)
    return str(write_report(Path(report_to), folder, outcomes))
