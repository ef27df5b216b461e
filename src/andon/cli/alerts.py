"""`andon alerts`: the commands that list, show, test and remove; those that make are in
`alert_making`."""

from typing import TYPE_CHECKING, Any

import click

from andon.cli.errors import CommandFailed
from andon.cli.layout import Column
from andon.cli.lazy import Entry, LazyGroup
from andon.cli.session import Session, common
from andon.lifecycle.alerts.telling import (
    alerts_document,
    condition_of,
    document_of,
    rule_document,
    target_document,
    text_of,
)
from andon.model.errors import ConfigurationError

if TYPE_CHECKING:
    from andon.engine.alert_requests import AlertKeeper
    from andon.engine.base import Engine
    from andon.model.alerts import AlertsShown, RuleShown

COMMANDS = {
    "list": Entry("andon.cli.alerts:list_rules", "List alert rules and how they stand."),
    "show": Entry("andon.cli.alerts:show", "Show one rule and what fires."),
    "add": Entry("andon.cli.alert_making:add", "Make a rule."),
    "edit": Entry("andon.cli.alert_making:edit", "Change what is given of a rule."),
    "remove": Entry("andon.cli.alerts:remove", "Forget rules, or targets."),
    "targets": Entry("andon.cli.alerts:list_targets", "List the targets that alerts are sent to."),
    "target": Entry("andon.cli.alert_making:target", "Make or change a target."),
    "test": Entry("andon.cli.alerts:test", "Tell a target that this is a test."),
    "apply": Entry("andon.cli.alert_making:apply", "Have rules and targets be what a file says."),
}


@click.group(cls=LazyGroup, entries=COMMANDS)
def alerts() -> None:
    """List, make, test and apply alert rules.

    Rules are looked at once a minute by whichever worker or service comes first, and told by andon
    serve: to a signed webhook, a chat, or a command. What is secret of a target is never printed.
    """


def alerts_of(engine: "Engine") -> "AlertKeeper":
    """The alerts behind an engine. Raises `CommandFailed` where there are none."""
    from andon.engine.alert_requests import HasAlerts

    if not isinstance(engine, HasAlerts):
        raise CommandFailed("This store or service knows no alerts.")
    return engine.alerts


@click.command("list")
@click.option("--now", is_flag=True, help="Evaluate the rules now; send nothing.")
@common
async def list_rules(session: Session, *, now: bool) -> None:
    """List alert rules and how they stand.

    They stand as the look of the last minute found them. With --now they are looked at now, and
    what would be told is printed besides: nothing is told, and nothing is written.
    """
    async with session.engine() as engine:
        keeper = alerts_of(engine)
        if not now:
            _print_rules(session, await keeper.shown(), engine.now())
            return
        preview = await keeper.preview()
        if session.out.json:
            told = [{**document_of(one, ""), "targets": one.targets} for one in preview.notices]
            for one in told:
                del one["delivery"]
            session.out.document({**alerts_document(preview.shown), "told": told})
            return
        _print_rules(session, preview.shown, engine.now())
        for notice in preview.notices:
            whom = ", ".join(notice.targets)
            session.out.note(f"Would tell {whom}: {text_of(notice)}")


def _print_rules(session: Session, shown: "AlertsShown", now: int) -> None:
    out = session.out
    if out.json:
        out.document(alerts_document(shown))
        return
    out.table(
        [
            Column("rule", named=True),
            Column("state", keeps=True),
            Column("fires when", wraps=True),
            Column("firing", wraps=True),
            Column("tells"),
        ],
        [
            [one.name, one.state, condition_of(one.rule), _firing(one), ", ".join(one.rule.targets)]
            for one in shown.rules
        ],
        empty="There is no alert rule yet. Make one: andon alerts add NAME --when oldest-age "
        "--above 10m --to TARGET.",
    )
    if shown.rules and out.terminal:
        when = "never yet" if shown.looked_at is None else out.when(shown.looked_at, now)
        out.note(f"Looked at {when}.")


def _firing(rule: "RuleShown") -> str:
    names = [name for name, subject in rule.subjects if subject.fired]
    more = len(names) - 5 + rule.more
    return ", ".join(names[:5]) + (f" and {more:,} more" if more > 0 else "")


@click.command()
@click.argument("name")
@common
async def show(session: Session, *, name: str) -> None:
    """Show one rule and what fires."""
    async with session.engine() as engine:
        shown = await alerts_of(engine).shown()
        now = engine.now()
    rule = next((one for one in shown.rules if one.name == name), None)
    if rule is None:
        raise _unknown("rule", name, [one.name for one in shown.rules])
    print_rule(session, rule, now)


def print_rule(session: Session, shown: "RuleShown", now: int) -> None:
    """One rule, and each subject of it on a line of its own."""
    out, rule = session.out, shown.rule
    if out.json:
        out.document(rule_document(shown))
        return
    out.pairs(
        [
            ("rule", shown.name),
            ("state", shown.state),
            ("when", rule.when),
            ("fires when", condition_of(rule)),
            ("tells", ", ".join(rule.targets) or "nobody"),
            *((subject, _subject(session, of, now)) for subject, of in shown.subjects),
            ("others", f"{shown.more:,}" if shown.more else ""),
        ]
    )


def _subject(session: Session, subject: Any, now: int) -> str:
    stands = "fired" if subject.fired else "waits"
    at = session.out.when(subject.fired or subject.since, now)
    return f"{subject.text} ({stands} {at})"


@click.command("targets")
@common
async def list_targets(session: Session) -> None:
    """List the targets that alerts are sent to."""
    async with session.engine() as engine:
        shown = await alerts_of(engine).shown()
    out = session.out
    if out.json:
        out.document([target_document(one) for one in shown.targets])
        return
    out.table(
        [Column("target", named=True), Column("how", keeps=True), Column("where")],
        [[one.name, one.how, one.where] for one in shown.targets],
        empty="There is no target yet. Make one: andon alerts target NAME --chat URL.",
    )


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--target", "is_target", is_flag=True, help="They are targets, not rules.")
@common
async def remove(session: Session, *, names: tuple[str, ...], is_target: bool) -> None:
    """Forget rules, or targets.

    What fires of a rule that is removed is not told to be over. A target that a rule tells is
    refused.
    """
    async with session.engine() as engine:
        keeper = alerts_of(engine)
        for name in names:
            done = await (keeper.remove_target(name) if is_target else keeper.remove_rule(name))
            if not done:
                shown = await keeper.shown()
                there = shown.targets if is_target else shown.rules
                what = "target" if is_target else "rule"
                raise _unknown(what, name, [one.name for one in there])
            session.out.words([name, "removed"])


@click.command()
@click.argument("target")
@click.option("--timeout", type=float, default=30.0, show_default=True, help="Seconds to wait.")
@common
async def test(session: Session, *, target: str, timeout: float) -> None:
    """Tell a target that this is a test.

    A task delivers it, as it does every alert: this waits for its end, and fails if the target was
    not told. Somewhere andon serve must run.
    """
    async with session.engine() as engine:
        task_id = await alerts_of(engine).test(target)
        task = await _delivered(engine, task_id, timeout)
    error = None if task is None else task.status.last_error
    if task is not None and task.state.value == "completed":
        session.out.words([target, "told", task_id])
        return
    if error is not None:
        raise CommandFailed(f"Target {target!r} was not told (task {task_id}): {error.message}")
    raise CommandFailed(
        f"Target {target!r} was not told within {timeout:g} s: task {task_id} is "
        f"{'gone' if task is None else task.state.value}. Alerts are delivered by andon serve; "
        "is one running?"
    )


async def _delivered(engine: "Engine", task_id: str, timeout: float) -> Any:
    """The record of a delivery once it has ended, or failed once."""
    import asyncio

    task = None
    try:
        async with asyncio.timeout(timeout):
            async for task in engine.watch(task_id):
                if task.status.last_error is not None:
                    break
    except TimeoutError:
        [task] = await engine.get([task_id])
    return task


def _unknown(what: str, name: str, known: list[str]) -> ConfigurationError:
    from difflib import get_close_matches

    near = get_close_matches(name, known, n=1)
    there = ", ".join(sorted(known)[:20]) or "none yet"
    hint = f"Did you mean {near[0]!r}?" if near else f"There are: {there}."
    return ConfigurationError(f"There is no alert {what} {name[:128]!r}. {hint}")
