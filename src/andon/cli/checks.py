"""The checks of `andon doctor`: of the store, and of the application if there is one."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from andon.artifacts.place import open_blobs
from andon.cli import live as live_tasks
from andon.engine import checks
from andon.engine.findings import Finding
from andon.engine.schedule_checks import Declared
from andon.model.errors import ConfigurationError

if TYPE_CHECKING:
    from andon.client.app import Andon
    from andon.engine.base import Engine


class Looked(msgspec.Struct, frozen=True):
    """Everything that was read, once."""

    facts: checks.Facts
    live: live_tasks.Live | None = None  #: of an application's tasks, those that have not ended


async def read(engine: "Engine", app: "Andon | None" = None) -> Looked:
    """Read what the checks need."""
    facts = await checks.read(engine)
    if app is None:
        return Looked(facts)
    facts = msgspec.structs.replace(facts, no_logs=_why_no_logs(facts, app))
    return Looked(facts, await live_tasks.read_live(engine))


def _why_no_logs(facts: checks.Facts, app: "Andon") -> str:
    """Why logs are not kept, as far as this process knows: no place is named, or it cannot be
    opened."""
    if app.artifacts is None:
        return facts.no_logs
    try:
        open_blobs(app.artifacts)
    except ConfigurationError as error:
        return str(error).removesuffix(".")
    return ""


def declared_by(app: "Andon") -> Declared:
    """The schedules that an application's code declares."""
    from andon.client.release import application_name

    return application_name(app), {name for _, name, _ in app.declared_schedules}


def all_checks(looked: Looked, app: "Andon | None") -> Iterator[Finding]:
    """Every finding, in the order in which they are printed."""
    yield from checks.store_checks(looked.facts, None if app is None else declared_by(app))
    if app is not None and looked.live is not None:
        yield from live_tasks.application(looked.live, app)
    yield from live_tasks.signatures(looked.live, looked.facts.workers, app)
