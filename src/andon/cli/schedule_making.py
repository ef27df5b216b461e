"""`andon schedules add` and `edit`."""

from typing import Any

import click

from andon.cli.schedule_options import (
    RULES,
    TASK,
    TIMES,
    adding,
    rules_given,
    task_given,
    times_given,
)
from andon.cli.schedules import keeper, schedule_named
from andon.cli.session import Session, common
from andon.cli.submit import application_of, check_known, note_unknown
from andon.model.recurrence import Recurrence


@click.command("add")
@click.argument("name")
@click.argument("task_name", metavar="TASK")
@adding(TIMES, TASK, RULES)
@common
async def add(
    session: Session,
    *,
    name: str,
    task_name: str,
    app_spec: str | None,
    profile: str | None,
    **given: Any,
) -> None:
    """Make a schedule: TASK is submitted at each of its times.

    `andon schedules add nightly report --cron '0 2 * * *' --tz Europe/Berlin`. The task of each
    time has its id from the name and the time: nightly:20261123T010000Z. A name that is taken is
    refused; `andon schedules next` shows beforehand what times mean.
    """
    from andon.engine.schedule_requests import ScheduleRequest
    from andon.engine.type_queues import with_queues

    version = given["version"] or 0
    app = application_of(session, app_spec, profile)
    try:
        if app_spec is not None:
            check_known(app, task_name, version)
        engine = await app.engine()
        recurrence = Recurrence(**times_given(given, engine.now()))
        rules = rules_given(given)
        submission, _ = task_given(app, task_name, given)
        request = ScheduleRequest(name=name, recurrence=recurrence, task=submission, **rules)
        await _put(session, engine, request, "add")
        if app_spec is None:
            [bears] = await with_queues(engine, [submission])
            await note_unknown(session, engine, bears, submission.queue)
    finally:
        await app.close()


@click.command("edit")
@click.argument("name")
@click.option("--task", "task_name", metavar="NAME", help="Another task, of this name.")
@adding(TIMES, TASK, RULES)
@common
async def edit(
    session: Session,
    *,
    name: str,
    task_name: str | None,
    app_spec: str | None,
    profile: str | None,
    **given: Any,
) -> None:
    """Change a schedule: what is given; all else stays as it is.

    `none` takes a setting away. New times count from now on. What code declares holds again as soon
    as the code says something new. If somebody else changes the same part of it at this moment (its
    times, its task, --overlap or --pause-after), the later of both is refused.
    """
    from andon.engine.schedule_views import changed, request_of

    app = application_of(session, app_spec, profile)
    try:
        engine = await app.engine()
        task = await schedule_named(engine, name)
        request = request_of(task)
        fields = times_given(given, engine.now()) | rules_given(given)
        bears = task_name or request.task.name
        if app_spec is not None:
            check_known(app, bears, given["version"] or request.task.version)
        submission, said = task_given(app, bears, given)
        fields |= {field: getattr(submission, field) for field in said}
        if task_name is not None:
            fields["task"] = task_name
        if not fields:
            raise click.UsageError("What is to be changed? See: andon schedules edit --help.")
        await _put(session, engine, changed(task, fields), "edit")
    finally:
        await app.close()


async def _put(session: Session, engine: Any, request: Any, how: Any) -> None:
    from andon.cli.schedule_views import show_times, times_of
    from andon.engine.schedule_views import next_times, schedule_document, schedule_of
    from andon.lifecycle.recurrence.checking import check

    check(request.recurrence)  # checked here, so that the error is the same for stores and services
    [outcome] = await keeper(engine).put([request], how)
    if outcome.error is not None:
        raise outcome.error
    out = session.out
    [task] = await engine.get([request.name])
    if task is None:  # deleted by another user a moment later
        out.words([request.name, outcome.result])
        return
    if out.json:
        out.document(schedule_document(task) | {"result": outcome.result})
        return
    times = times_of(schedule_of(task, task.id).recurrence)
    out.words([request.name, outcome.result, times])
    if out.terminal:
        now = engine.now()
        show_times(out, next_times(task, now, 3), now)
