"""The checks of `andon doctor APP` on tasks that have not ended: whether there is code for them,
and whether they are signed for the workers that ask for that."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from andon.contract.queries import Query
from andon.engine.findings import Finding, Level
from andon.lifecycle.statements import parsed
from andon.model.errors import ConfigurationError
from andon.model.fleet import WorkerInfo
from andon.model.headers import SIGNATURE_HEADER
from andon.model.wording import plural
from andon.model.words import UNFINISHED, State, in_order

if TYPE_CHECKING:
    from andon.client.app import Andon
    from andon.engine.base import Engine

MOST_LOOKED = 5_000
"""Tasks of one state that are looked at, the oldest first."""

_PAGE = 500
_MOST_NAMED = 3


class Kind(msgspec.Struct, frozen=True):
    """The fields by which live tasks are counted."""

    state: State
    name: str
    version: int
    key: str  #: id of the key named in their signature; "" if they have none


class Live(msgspec.Struct):
    """The live tasks, as far as they were looked at."""

    counts: Counter[Kind] = msgspec.field(default_factory=Counter[Kind])
    cut: tuple[State, ...] = ()  #: states that have more of them


async def read_live(engine: "Engine") -> Live:
    """Look at the live tasks."""
    live = Live()
    for state in in_order(UNFINISHED):  # each by itself, so that none hides another
        query, looked = Query(states=(state,), limit=_PAGE), 0
        while True:
            page = await engine.find(query)
            for task in page.tasks:
                definition = task.definition
                signature = parsed(definition.headers.get(SIGNATURE_HEADER, ""))
                key = "" if signature is None else signature.key_id
                live.counts[Kind(state, definition.name, definition.version, key)] += 1
            looked += len(page.tasks)
            if not page.cursor:
                break
            if looked >= MOST_LOOKED:
                live.cut = (*live.cut, state)
                break
            query = replace(query, cursor=page.cursor)
    return live


def application(live: Live, app: "Andon") -> Iterator[Finding]:
    """Whether the application can run what has not ended."""
    yield Finding(Level.OK, "application", f"{plural(len(app.registry), 'task type')}")
    missing: dict[tuple[str, int], Counter[State]] = {}
    for kind, count in live.counts.items():
        if app.registry.route(kind.name, kind.version) is None:
            missing.setdefault((kind.name, kind.version), Counter())[kind.state] += count
    for (name, version), states in missing.items():
        which = f"{name!r} version {version}" if version else repr(name)
        where = ", ".join(f"{count:,} {state.value}" for state, count in states.items())
        yield Finding(
            Level.WRONG,
            "application",
            f"has no task {which}, and {plural(states.total(), 'such task')} "
            f"{'has' if states.total() == 1 else 'have'} not ended: {where}",
            "deploy the code, or cancel them: andon tasks cancel --all --name " + name,
        )
    if live.cut:
        yield Finding(
            Level.NOTE,
            "application",
            f"of the tasks that are {', '.join(live.cut)} only the oldest {MOST_LOOKED:,} or so "
            "were looked at",
        )


def signatures(
    live: Live | None, workers: Sequence[WorkerInfo], app: "Andon | None"
) -> Iterator[Finding]:
    """Whether the application signs its tasks with a key that the workers trust."""
    strict = [worker for worker in workers if worker.trusts]
    if not strict:
        return
    who = _named(strict)
    keys = sorted({key for worker in strict for key in worker.trusts})
    yield Finding(Level.OK, "signatures", f"{who} run only what is signed with {', '.join(keys)}")
    if len(strict) < len(workers):
        lax = _named([worker for worker in workers if not worker.trusts])
        yield Finding(
            Level.NOTE,
            "signatures",
            f"{lax} ask for none, and run what others refuse",
            "andon worker APP --trust FILE.pub, or ANDON_TRUSTED_KEYS",
        )
    if app is not None:
        yield from _signer(strict, app)
    if live is not None:
        yield from _unsigned(live, strict)


def _signer(strict: Sequence[WorkerInfo], app: "Andon") -> Iterator[Finding]:
    """Whether the application signs, with a key that is trusted."""
    if app.signing is None:
        yield Finding(
            Level.WRONG,
            "signatures",
            f"the application signs nothing, and {_named(strict)} refuse what is not signed",
            "ANDON_SIGNING_KEY=FILE, or Andon(signing_key=FILE)",
        )
        return
    try:
        key = app.signing.key.key_id
    except ConfigurationError as error:
        yield Finding(
            Level.NOTE,
            "signatures",
            f"the application can sign nothing on this machine: {error}",
            "no harm where it only runs tasks and submits none",
        )
        return
    distrusting = [worker for worker in strict if key not in worker.trusts]
    if distrusting:
        yield Finding(
            Level.WRONG,
            "signatures",
            f"the application signs with key {key}, which {_named(distrusting)} do not trust",
            "give them its public key (andon keys show FILE) before it signs anything",
        )


def _unsigned(live: Live, strict: Sequence[WorkerInfo]) -> Iterator[Finding]:
    """Tasks that every worker which asks for signatures is going to refuse."""
    trusted = {key for worker in strict for key in worker.trusts}
    bad = sum(count for kind, count in live.counts.items() if kind.key not in trusted)
    if bad:
        yield Finding(
            Level.WRONG,
            "signatures",
            f"{plural(bad, 'task')} that {'has' if bad == 1 else 'have'} not ended "
            f"{'is' if bad == 1 else 'are'} not signed with a key that they trust, and fail when "
            "they start there",
            "let a worker without --trust run them, or cancel them and submit them signed",
        )


def _named(workers: Sequence[WorkerInfo]) -> str:
    names = ", ".join(worker.id for worker in workers[:_MOST_NAMED])
    more = len(workers) - _MOST_NAMED
    many = "workers" if len(workers) > 1 else "worker"
    return f"{many} {names}{f' and {more} more' if more > 0 else ''}"
