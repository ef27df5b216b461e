"""The application: four task types, as a user would write them.

    schedule ──► watch, each second          a flow, for all files or those that have changed:
                   └─ something has changed ──► scan ──► analyze, one per file ──► report

Its store is the one that ANDON_URL names, so `andon worker andon.demo.app:app --url …` in another
terminal helps with the work.
"""

import asyncio
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

import msgspec

from andon.client.app import Andon
from andon.demo import findings, scanning
from andon.demo.analysis import Facts, Unparsable, analyse
from andon.demo.findings import Outcome
from andon.demo.names import Names
from andon.demo.report import write_report
from andon.demo.scanning import Listing
from andon.worker.context import Context
from andon.worker.control import Terminate

LEASE_S = 5.0
"""Short, so that what a killed worker had in hand goes on within seconds."""

FIRST_BUDGET = 64 * 1024
BUDGET_GROWTH = 4

_TELL_EVERY = 100

app = Andon(lease=LEASE_S, retention=None, dead_letter_retention=None, shutdown_grace=2.0)


class OverBudget(Exception):
    """The file is larger than this try may read."""


class Source(msgspec.Struct, frozen=True):
    """A file to analyse."""

    root: str  #: the folder that its path is below
    path: str


@app.task(name="demo.watch", priority=5, max_retries=10, retry_delay=0.5, backoff="constant")
async def watch(ctx: Context, names: Names) -> str:
    """Begin a flow if a file has changed since the last one began, and that one is over.

    May be killed anywhere and run again. The list of files is kept before anything is submitted,
    and names the occurrence that took it, which submits that list's flow however often it runs; a
    flow that is there already is not submitted twice. If the occurrence is lost for good, the next
    one finds a list without a flow and submits it.
    """
    last = await asyncio.to_thread(scanning.newest, names)
    if last is not None:
        report = await app.tasks.get(names.report_of(last.flow, len(last.changed)))
        if report is None or last.taken_by == ctx.task_id:
            return await _begin(names, last)
        if not report.ended:
            return f"flow {last.flow} is at work"
    files = await asyncio.to_thread(scanning.look, names)
    listing = scanning.take(names, last, files, taken_by=ctx.task_id)
    if listing is None:
        return "nothing has changed"
    return await _begin(names, listing)


async def _begin(names: Names, listing: Listing) -> str:
    """Submit the flow of a list."""
    number, queue = listing.flow, names.queue
    with app.flow("analysis", id=names.flow(number)) as flow:
        first = flow.add(scan.options(queue=queue), names, number)
        files = flow.map(
            analyze.options(queue=queue),
            [Source(str(scanning.root_of(names, path)), path) for path in listing.changed],
        )
        last = flow.add(
            report.options(queue=queue, requires="all-resolved"),
            names,
            number,
            first.result,
            files.results,
        )
        flow.chain(first, files, last)
    await flow.submit()
    return f"flow {number} of {len(listing.changed):,} files"


@app.task(name="demo.scan", max_retries=3, retry_delay=0.5, backoff="constant")
def scan(ctx: Context, names: Names, number: int) -> list[str]:
    """A digest of each file of the flow, in the order of its list, for the report to say which are
    the same; empty for one that cannot be read."""
    paths = _listing(names, number).changed
    digests: list[str] = []
    for path in paths:
        try:
            content = (scanning.root_of(names, path) / path).read_bytes()
        except OSError:  # its own analysis says why
            digests.append("")
        else:
            digests.append(blake2b(content, digest_size=12).hexdigest())
        if len(digests) % _TELL_EVERY == 0:
            ctx.progress(100 * len(digests) // len(paths), f"{len(digests):,} files read")
    return digests


@app.task(
    name="demo.analyze",
    isolation="process",
    timeout=60,
    max_retries=4,
    retry_delay=1.0,
    backoff="exponential_jitter",
    no_retry_on=(Unparsable,),
)
def analyze(ctx: Context, source: Source) -> Facts:
    """Count what is in one file.

    A try has a budget: the first reads up to 64 KiB, each later one four times as much. So a large
    file is put off at once for the many small ones, and is tried again a moment later with a larger
    budget: the retries are real, and the same files need them in every flow. A file that does not
    parse never will, so it is not retried and becomes a dead letter.
    """
    path, file = source.path, Path(source.root, source.path)
    budget = FIRST_BUDGET * BUDGET_GROWTH ** (ctx.attempt - 1)
    size = file.stat().st_size
    if size > budget:
        raise OverBudget(f"{path}: {size:,} bytes; try {ctx.attempt} may read {budget:,}")
    try:
        return analyse(file.read_bytes(), path, tries=ctx.attempt)
    except Unparsable as error:
        raise Unparsable(f"{path}: {error}", error.code) from None


@app.task(name="demo.report", max_retries=3, retry_delay=1.0, backoff="constant")
def report(
    ctx: Context,
    names: Names,
    number: int,
    digests: Sequence[str] | None,
    found: Sequence[Facts | None],
) -> str:
    """Write the report from what all the analyses found, also those that failed. What has not
    changed since the flow before is taken from that one's findings."""
    listing = _listing(names, number)
    outcomes: list[Outcome] = []
    for place, (path, facts) in enumerate(zip(listing.changed, found, strict=True)):
        ended = ctx.dependencies[names.analysis(number, place)]
        error = ended.error
        outcomes.append(
            Outcome(
                path=path,
                state=ended.state,
                facts=facts,
                error=f"{error.code}, {error.message}" if error is not None else "",
                digest=digests[place] if digests else "",
            )
        )
    ctx.progress(50, f"{len(outcomes):,} results read")
    whole = findings.merged(names, number, outcomes, there=listing.files)
    return str(write_report(names.report, names.folder, whole))


def _listing(names: Names, number: int) -> Listing:
    try:
        return scanning.read(names, number)
    except FileNotFoundError:
        raise Terminate(
            f"There is no list of files of flow {number} in {names.home} any more."
        ) from None
