"""The subcommands of `andon tasks` that change tasks."""

from typing import Any

import click

from andon.cli.acting import Selection, act, which, with_command
from andon.cli.session import Session, common
from andon.cli.values import WHEN, When
from andon.lifecycle.commands import (
    Archive,
    Delete,
    Reprioritise,
    Rerun,
    Reschedule,
    RunNow,
    Schedule,
)


@click.command()
@common
@which
@click.option("--force", is_flag=True, help="Running tasks too, without waiting for them.")
async def cancel(session: Session, *, asked: Selection, force: bool) -> None:
    """Cancel tasks that have not ended.

    A running task is asked to stop and ends by itself; with --force it is cancelled at once and
    its run can write no more.
    """
    await act(
        session,
        asked,
        "cancelled" if force else "cancelled or asked to stop",
        lambda engine: lambda ids: engine.cancel(ids, force=force),
    )


@click.command()
@common
@which
async def retry(session: Session, *, asked: Selection) -> None:
    """Rerun what has ended, run now what waits.

    A pending task needs nothing; a running one is refused.
    """
    await act(session, asked, "retried", lambda engine: engine.retry)


@click.command()
@common
@which
@click.option("--run-at", type=WHEN, help="When to start: ISO 8601, or +5m.")
@click.option("--deadline", type=WHEN, help="A new deadline; needed where the old one has passed.")
@click.option("--keep-budget", is_flag=True, help="The tries used still count, but for one run.")
@click.option("--blocked", is_flag=True, help="What is blocked, too: it runs without its wait.")
async def rerun(
    session: Session,
    *,
    asked: Selection,
    run_at: When | None,
    deadline: When | None,
    keep_budget: bool,
    blocked: bool,
) -> None:
    """Run tasks again that have ended.

    With a new budget of tries; the result is cleared, history and errors are kept. A task that has
    had as many runs as its policy allows (`max_runs`) is refused.
    """

    def how(engine: Any) -> Any:
        now = engine.now()
        command = Rerun(
            run_at=None if run_at is None else run_at.on(now),
            deadline=None if deadline is None else deadline.on(now),
            keep_budget=keep_budget,
            blocked=blocked,
        )
        return with_command(command)(engine)

    await act(session, asked, "rerun", how)


@click.command("run-now")
@common
@which
async def run_now(session: Session, *, asked: Selection) -> None:
    """Start waiting tasks without their wait.

    Scheduled tasks, those between two tries, and blocked ones (whose dependencies are dropped).
    """
    await act(session, asked, "made pending", with_command(RunNow()))


@click.command()
@common
@which
async def schedule(session: Session, *, asked: Selection) -> None:
    """Release blocked tasks by hand.

    Whatever they wait for; a start time that they have is kept.
    """
    await act(session, asked, "scheduled", with_command(Schedule()))


@click.command()
@common
@which
@click.option("--run-at", type=WHEN, required=True, help="When to start: ISO 8601, or +5m.")
async def reschedule(session: Session, *, asked: Selection, run_at: When) -> None:
    """Give waiting tasks another start time."""
    await act(
        session,
        asked,
        "rescheduled",
        lambda engine: with_command(Reschedule(run_at=run_at.on(engine.now())))(engine),
    )


@click.command()
@common
@which
@click.option("--priority", required=True, help="-4 to 5, or a name from lowest to highest.")
async def reprioritise(session: Session, *, asked: Selection, priority: str) -> None:
    """Give tasks another priority; of one that runs, it counts from its next run on."""
    from andon.cli.arguments import priority_of
    from andon.lifecycle.admission import check_priority

    number = priority_of(priority)
    check_priority(number)
    await act(session, asked, "reprioritised", with_command(Reprioritise(priority=number)))


@click.command()
@common
@which
async def archive(session: Session, *, asked: Selection) -> None:
    """Make dead letters of waiting tasks.

    They end failed, reason archived-by-hand, and are kept as dead letters whatever their policies
    say; `andon dlq resubmit` runs them again. A running task is refused: cancel it first.
    """
    await act(session, asked, "archived", with_command(Archive()))


@click.command()
@common
@click.argument("task_id", metavar="ID")
@click.option(
    "--args", "arguments", metavar="JSON", required=True, help="All of them; - reads stdin."
)
@click.option("--id", "successor", metavar="ID", help="The successor's; repeating it is safe.")
async def edit(session: Session, *, task_id: str, arguments: str, successor: str | None) -> None:
    """Give a task that has not begun other arguments.

    It is cancelled, and a successor submitted in its place that is the same in all else; each
    names the other. Prints the successor's id. A task that others depend on is refused: they would
    not follow.
    """
    import msgspec

    from andon.cli.arguments import args_of
    from andon.client.ids import new_id

    args = msgspec.json.encode(args_of(arguments))
    async with session.engine() as engine:
        done = await engine.edit(task_id, args, successor or new_id())
    if done.error is not None:
        raise done.error
    out = session.out
    if out.json:
        state = None if done.state is None else done.state.value
        fields = {"id": task_id, "successor": done.id, "state": state, "created": done.created}
        out.document(fields)
    else:
        out.line(done.id)
    if done.state is None:
        out.note("It is not stored yet: its queue is full, or its unique key taken. It will be.")


@click.command()
@common
@which
@click.option("--force", is_flag=True, help="Even those whose results others still wait for.")
async def delete(session: Session, *, asked: Selection, force: bool) -> None:
    """Remove the records of ended tasks.

    A live task is refused: cancel it first.
    """
    await act(
        session,
        asked,
        "deleted",
        lambda engine: lambda ids: engine.act(ids, Delete(), force=force),
    )
