"""Acts on tasks by id or by filter: asks first, prints each outcome, and a summary.

Ends with exit code 1 when any task was refused.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import click
import msgspec

from andon.cli import people
from andon.cli.errors import CommandFailed
from andon.cli.filters import filters
from andon.cli.ids import named_ids
from andon.cli.output import Word
from andon.cli.session import Session, fail
from andon.contract.queries import Query
from andon.engine.base import ActionResult, Engine
from andon.engine.bulk import Act, Tally, act_on_found, act_on_ids
from andon.engine.filtering import Filters
from andon.model.task import Task
from andon.model.wording import plural

if TYPE_CHECKING:
    from andon.cli.output import Cell, Output

Command = Callable[..., Any]


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Which tasks to act on, from the options."""

    ids: tuple[str, ...]
    all: bool
    filters: Filters
    limit: int | None
    dry_run: bool
    yes: bool

    def check(self) -> None:
        """Refuse what is not clear: usage errors, exit code 2."""
        if self.ids and (self.all or self.filters.any):
            raise click.UsageError("Give ids, or filters or --all, not both.")
        if not (self.ids or self.all or self.filters.any):
            raise click.UsageError(
                "Which tasks? Give their ids (- reads them from a pipe), filters, or --all."
            )
        if not (self.ids or self.dry_run or self.yes) and not people.person_present():
            raise click.UsageError("Nobody can be asked here: add --yes, or --dry-run to look.")


def which(function: Command) -> Command:
    """Add ids, filters, --all, --limit, --dry-run and --yes; hand a `Selection` over as `asked`."""

    @click.argument("ids", nargs=-1, metavar="[ID]...")
    @filters
    @click.option("--all", "every", is_flag=True, help="Every task there is.")
    @click.option("--limit", type=click.IntRange(1), help="With filters or --all: at most so many.")
    @click.option("--dry-run", is_flag=True, help="Only say which tasks it would be.")
    @click.option("--yes", "-y", is_flag=True, help="Do not ask.")
    def call(session: Session, **given: Any) -> Any:
        asked = Selection(
            ids=given.pop("ids"),
            all=given.pop("every"),
            filters=given.pop("filters"),
            limit=given.pop("limit"),
            dry_run=given.pop("dry_run"),
            yes=given.pop("yes"),
        )
        asked.check()
        return function(session, asked=asked, **given)

    call.__doc__ = function.__doc__
    call.__name__ = function.__name__
    given: list[click.Parameter] = getattr(function, "__click_params__", [])
    of_call: list[click.Parameter] = getattr(call, "__click_params__", [])
    of_call.extend(given)
    return call


async def act(
    session: Session,
    asked: Selection,
    verb: str,
    how: Callable[[Engine], Act],
    *,
    dead_letters: bool = False,
) -> None:
    """Do it. `verb` is what is printed for a task that it was done to: `cancelled`."""
    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(session.engine())
        teller = _Teller(session, engine, verb, dry_run=asked.dry_run)
        doing = how(engine)
        if asked.ids:
            tally = await act_on_ids(
                engine,
                await _ids(session, engine, asked, verb),
                doing,
                dead_letters=dead_letters,
                dry_run=asked.dry_run,
                progress=teller.tell,
            )
        else:
            await asked.filters.check(engine)
            query = asked.filters.query(session.profile, dead_letters=dead_letters)
            if not (asked.yes or asked.dry_run):
                await _ask(session, engine, asked, query, verb)
            tally = await act_on_found(
                engine,
                query,
                doing,
                keep=asked.filters.keep(session.profile),
                most=asked.limit,
                dry_run=asked.dry_run,
                progress=teller.tell,
            )
    teller.sum_up(tally)
    if tally.refused:
        fail()


async def _ids(session: Session, engine: Engine, asked: Selection, verb: str) -> list[str]:
    """The ids meant; the user has confirmed guessed ones."""
    named = await named_ids(session, engine, asked.ids)
    guessed = [task_id for task_id, is_guess in named if is_guess]
    if guessed and not (asked.yes or asked.dry_run):
        these = ", ".join(guessed)
        if not people.person_present():
            raise CommandFailed(
                f"No task has all of the ids given; what was given begins {these}. "
                "Give whole ids, or add --yes."
            )
        if not click.confirm(f"{these} will be {verb}. Go on?", err=True):
            session.out.note("Nothing was done.")
            fail()
    return [task_id for task_id, _ in named]


async def _ask(session: Session, engine: Engine, asked: Selection, query: Query, verb: str) -> None:
    async def nothing(ids: Sequence[str]) -> list[ActionResult]:
        return []

    keep = asked.filters.keep(session.profile)
    would = await act_on_found(engine, query, nothing, keep=keep, most=asked.limit, dry_run=True)
    question = f"{plural(would.found, 'task')} ({asked.filters}) will be {verb}. Go on?"
    if not click.confirm(question, err=True):
        session.out.note("Nothing was done.")
        fail()


class _Teller:
    """Prints the outcome of each task."""

    def __init__(self, session: Session, engine: Engine, verb: str, *, dry_run: bool) -> None:
        self.dry_run = dry_run
        self._out: Output = session.out
        self._profile = session.profile
        self._engine = engine
        self._verb = verb

    async def tell(self, tasks: Sequence[Task | None], acted: Sequence[ActionResult]) -> None:
        """One line per task."""
        names = await self._states(acted)
        for one in acted:
            state = names[one.id]
            if self._out.json:
                self._out.record(
                    {
                        "id": one.id,
                        "state": state.text if one.state is not None else None,
                        "changed": one.changed,
                        "error": None if one.error is None else str(one.error),
                    }
                )
                continue
            said: Cell = Word(self._said(one), "red" if one.error is not None else "")
            self._out.words([one.id, state, said])

    def _said(self, one: ActionResult) -> str:
        if one.error is not None:
            return str(one.error)
        if self.dry_run:
            return f"would be {self._verb}"
        return self._verb if one.changed else "nothing to do"

    async def _states(self, acted: Sequence[ActionResult]) -> dict[str, Word]:
        from andon.cli.shown import native_word, state_word

        names = {one.id: native_word(one.state) for one in acted}
        if self._profile.name != "native":
            there = [one.id for one in acted if one.state is not None]
            for task in await self._engine.get(there):
                if task is not None:
                    names[task.id] = state_word(self._profile, task)
        return names

    def sum_up(self, tally: Tally) -> None:
        """The numbers, to stderr."""
        if self.dry_run:
            left = f"; {tally.refused:,} would be refused" if tally.refused else ""
            would = tally.found - tally.refused
            self._out.note(f"{plural(would, 'task')} would be {self._verb}{left}.")
            return
        parts = [f"{plural(tally.changed, 'task')} {self._verb}"]
        parts += [f"{tally.unchanged:,} with nothing to do"] if tally.unchanged else []
        parts += [f"{tally.refused:,} refused"] if tally.refused else []
        self._out.note(", ".join(parts) + ".")


def with_command(command: Any) -> Callable[[Engine], Act]:
    """The same command on each task."""

    def how(engine: Engine) -> Act:
        def do(ids: Sequence[str]) -> Awaitable[list[ActionResult]]:
            return engine.act(ids, command)

        return do

    return how
