"""Decides which target a move of a schedule takes: the part of `decide` for schedules. Pure."""

import msgspec

from andon.lifecycle import commands as c
from andon.lifecycle.delays import Random
from andon.lifecycle.firing import borne_now, recurred, restarted, resumed, revised
from andon.lifecycle.outcome import Outcome
from andon.lifecycle.schedules import changed_meanwhile, with_parts
from andon.model.errors import InvalidTransition
from andon.model.task import Schedule, Task
from andon.model.words import Reason, State


def recur(task: Task, command: c.Recur, now: int, random: Random) -> Outcome:
    """Bear the tasks that are due, and go on to the next time."""
    schedule = _schedule_of(task, command)
    if schedule.paused_at is not None:
        raise InvalidTransition(task.id, command.event, task.state, "It is paused.")
    fired = recurred(task.id, schedule, command.last, now)
    if fired.schedule.next_due is None:
        state, reason = State.COMPLETED, Reason.SCHEDULE_ENDED
    elif fired.schedule.paused_at is not None:
        state, reason = State.RECURRING, Reason.FAILURES_IN_A_ROW
    else:
        state = State.RECURRING
        reason = Reason.OVERLAP if fired.skipped else Reason.START_TIME
    return Outcome(state, reason, births=fired.births, schedule=fired.schedule)


def pause(task: Task, command: c.Pause, now: int, random: Random) -> Outcome:
    """Stop firing until it is resumed. A schedule that is paused already keeps the time of the
    first pause."""
    schedule = _schedule_of(task, command)
    since = now if schedule.paused_at is None else schedule.paused_at
    paused = msgspec.structs.replace(schedule, paused_at=since)
    return Outcome(State.RECURRING, Reason.PAUSED, schedule=paused)


def resume(task: Task, command: c.Resume, now: int, random: Random) -> Outcome:
    """Fire again."""
    schedule = resumed(task.id, _schedule_of(task, command), now)
    return _fires_on(task, command, schedule, Reason.RESUMED)


def revise(task: Task, command: c.Revise, now: int, random: Random) -> Outcome:
    """Change its times, or the task that it submits."""
    wanted = _rewritten(task, command, command.schedule)
    schedule = revised(task.id, _schedule_of(task, command), wanted, now)
    return _fires_on(task, command, schedule, task.status.reason)


def run_now(task: Task, command: c.RunNow, now: int) -> Outcome:
    """Fire once by hand; its times stay as they are."""
    fired = borne_now(task.id, _schedule_of(task, command), now)
    reason = task.status.reason
    return Outcome(State.RECURRING, reason, births=fired.births, schedule=fired.schedule)


def rerun(task: Task, command: c.Rerun, now: int) -> Outcome:
    """Fire again after its end, changed if the command says so."""
    was = _schedule_of(task, command)
    wanted = was if command.schedule is None else _rewritten(task, command, command.schedule)
    return _fires_on(task, command, restarted(task.id, was, wanted, now), Reason.RERUN)


def _rewritten(task: Task, command: c.Revise | c.Rerun, wanted: Schedule) -> Schedule:
    """The schedule with the requested changes, unless another caller has changed the same parts."""
    schedule, parts = _schedule_of(task, command), command.parts
    if parts is None:
        return wanted
    changed = changed_meanwhile(schedule, parts)
    if changed:
        raise InvalidTransition(
            task.id,
            command.event,
            task.state,
            f"Somebody else has changed its {changed} meanwhile: look at it, and edit it again.",
        )
    return with_parts(schedule, wanted, parts)


def _schedule_of(task: Task, command: c.Command) -> Schedule:
    """The schedule in a record that is one."""
    if task.status.schedule is None:
        raise InvalidTransition(task.id, command.event, task.state, "It is no schedule.")
    return task.status.schedule


def _fires_on(task: Task, command: c.Command, schedule: Schedule, reason: Reason | None) -> Outcome:
    """Go on firing, if the schedule has a time left."""
    if schedule.next_due is None:
        raise InvalidTransition(
            task.id,
            command.event,
            task.state,
            "None of its times is left: give it others, a later end or a higher count.",
        )
    return Outcome(State.RECURRING, reason, schedule=schedule)
