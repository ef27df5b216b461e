"""The rules for a task whose dependency does not exist, or was refused (docs/rulings.md, R8, R34).
Pure.

A dependency exists if it is stored, submitted in the same call, or gone so lately that it is still
known how it ended.
"""

from andon.lifecycle.fan_out import fanned_out_by
from andon.model.errors import InvalidSubmission
from andon.model.policy import Policy
from andon.model.task import Definition, Task
from andon.model.words import OVER, State

_FIELD = "dependencies"


def refuses_missing(policy: Policy) -> bool:
    """Whether a submission with a dependency that does not exist is refused; else it is stored, and
    ends `unreachable`."""
    return policy.on_missing_parent == "refuse"


def gives_up(policy: Policy, *, missing: bool) -> bool:
    """Whether a blocked task ends `unreachable` when a dependency fails it: by its end, or because
    it does not exist (any more)."""
    if missing and policy.on_missing_parent == "unreachable":
        return True
    return policy.on_dependency_failure != "wait"


def missing_parent(task_id: str, parent: str) -> InvalidSubmission:
    """Why a submission is refused of which one dependency does not exist."""
    return InvalidSubmission(
        f"Task {task_id!r} depends on {parent!r}, which does not exist. Submit the dependency "
        "first; or submit with on_missing_parent='unreachable', which keeps the task as one that "
        "can never run.",
        field=_FIELD,
    )


def refused_parent(task_id: str, parent: str, why: str) -> InvalidSubmission:
    """Why a submission is refused of which one dependency was refused in the same call; `why` is
    the reason that this was refused for."""
    return InvalidSubmission(
        f"Task {task_id!r} depends on {parent!r}, which was refused in the same call: {why}",
        field=_FIELD,
    )


def waits_for_others(definition: Definition) -> bool:
    """Whether it has dependencies beside itself (naming itself means waiting for a release by
    hand)."""
    return any(parent != definition.id for parent in definition.dependencies)


def waits_anew(task: Task) -> bool:
    """Whether a task that had ended waits for its dependencies again. The earlier count of them
    does not apply: their states decide."""
    return task.state is State.BLOCKED and task.status.rerun_by_hand


def goes_by_states(task: Task) -> bool:
    """Whether the states of its dependencies decide if a blocked task is free, and not the count
    that a store keeps since its submit: it waits anew, or for more than it was submitted with."""
    return waits_anew(task) or (task.state is State.BLOCKED and bool(task.status.added))


def goes_by_count(task: Task) -> bool:
    """Whether a blocked task is free once the count that a store keeps of its dependencies says so,
    and nothing else has to be read: neither the states of others, nor which run of the task that
    bore it completed."""
    return (
        task.state is State.BLOCKED
        and not goes_by_states(task)
        and fanned_out_by(task.definition.headers) is None
    )


def waits_for(task: Task) -> tuple[str, ...]:
    """All that a task waits for: the dependencies that it was submitted with, and what was added to
    them since (`lifecycle.joins`)."""
    added = task.status.added
    if not added:
        return task.definition.dependencies
    more = (task_id for one in added for task_id in one.tasks)
    return tuple(dict.fromkeys((*task.definition.dependencies, *more)))


def stands(state: State | None, *, any_end: bool) -> bool:
    """Whether a dependency in this state is what its dependent waits for; None: it does not
    exist."""
    if state is None:
        return False
    return state in OVER if any_end else state is State.COMPLETED


def to_satisfy(definition: Definition) -> int:
    """How many of its dependencies must satisfy a task before it is free."""
    needs = definition.needs
    return len(definition.dependencies) if needs is None else needs


def spare(definition: Definition) -> int | None:
    """How many of its dependencies a task can do without; None: it needs them all, and none that
    fails it is counted."""
    needs = definition.needs
    return None if needs is None else len(definition.dependencies) - needs


def gives_up_after(definition: Definition, failing: int) -> bool:
    """Whether a task can never run any more if so many of its dependencies fail it."""
    return failing > (spare(definition) or 0)


def check_needs(definition: Definition) -> None:
    """Raise `InvalidSubmission` for a number of dependencies that cannot be needed."""
    needs, count = definition.needs, len(definition.dependencies)
    if needs is None:
        return
    if definition.id in definition.dependencies:
        raise InvalidSubmission(
            "needs does not go with a task that depends on itself: it waits for a hand.",
            field="needs",
        )
    if not 1 <= needs <= count:
        raise InvalidSubmission(
            f"needs is how many of the {count:,} dependencies must be satisfied, 1 to {count:,}, "
            f"not {needs}."
            if count
            else "needs is how many dependencies must be satisfied, and none is given.",
            field="needs",
        )


def once_each(parents: tuple[str, ...]) -> tuple[str, ...]:
    """The dependencies, each once, in their order: naming one twice means one."""
    return tuple(dict.fromkeys(parents)) if len(parents) > 1 else parents
