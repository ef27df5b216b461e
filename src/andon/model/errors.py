"""The typed errors of Andon. Each message says what happened, to which task, and what to do."""


class AndonError(Exception):
    """Base of every error that Andon raises on purpose."""


class InvalidSubmission(AndonError):
    """A submission that can never work; nothing was stored. `field` names the part at fault."""

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class TaskNotFound(AndonError):
    """No task with this id (any more)."""

    def __init__(self, task_id: str, why: str = "") -> None:
        why = why or "It was never submitted, or its retention has passed."
        super().__init__(f"There is no task {task_id!r}. {why}")
        self.task_id = task_id


class TaskConflict(AndonError):
    """The id is taken by a task with another definition (R26)."""

    def __init__(self, task_id: str) -> None:
        super().__init__(
            f"Task {task_id!r} exists with another definition. "
            "Submit under a new id, or repeat exactly what was submitted first."
        )
        self.task_id = task_id


class UniqueKeyHeld(AndonError):
    """Another task holds the unique key. `holder` is that task's id."""

    def __init__(self, key: str, holder: str) -> None:
        super().__init__(
            f"Unique key {key!r} is held by task {holder!r}. "
            "Wait until that task has left the states in which the key holds, or cancel it."
        )
        self.key = key
        self.holder = holder


class QueueFull(AndonError):
    """The queue has reached its `max_size` and its policy is to reject."""

    def __init__(self, queue: str, max_size: int) -> None:
        super().__init__(
            f"Queue {queue!r} is full ({max_size} tasks). "
            f"Try again later, or raise it: andon queues configure {queue} --max-size N."
        )
        self.queue = queue
        self.max_size = max_size


class QueueNotEmpty(AndonError):
    """The queue cannot be deleted while tasks are in it (HTTP 409). Its settings are unchanged."""

    def __init__(self, queue: str, counts: dict[str, int], hint: str = "") -> None:
        parts = ", ".join(f"{number:,} {state}" for state, number in counts.items())
        super().__init__(f"Queue {queue!r} has tasks ({parts}). {hint}".rstrip())
        self.queue = queue


class InvalidTransition(AndonError):
    """The table of moves has no such move (HTTP 409). Nothing was changed."""

    def __init__(self, task_id: str, event: str, state: str, hint: str = "") -> None:
        message = f"Task {task_id!r} is {state}; {event} is not possible from there."
        super().__init__(f"{message} {hint}".rstrip())
        self.task_id = task_id
        self.event = event
        self.state = state


class LeaseLost(AndonError):
    """The run no longer holds the task (HTTP 409). Whatever it reports changes nothing."""

    def __init__(self, task_id: str, run: str) -> None:
        super().__init__(
            f"Run {run!r} no longer holds task {task_id!r}: it was resolved, or its lease ran out "
            "and another run took over. Stop working on it; nothing was changed."
        )
        self.task_id = task_id
        self.run = run


class PayloadTooLarge(InvalidSubmission):
    """Arguments or a result above the configured limit."""

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(
            f"The {what} takes {size:,} bytes, the limit is {limit:,}. "
            "Pass a reference to the data instead, or raise max_payload.",
            field=what,
        )


class NotWritable(AndonError):
    """What was asked of one task cannot be decided or written, now or later (HTTP 422); it alone
    was left out, and nothing of it was changed. `why` says what is wrong."""

    def __init__(self, task_id: str, what: str, why: str) -> None:
        super().__init__(
            f"The {what} of task {task_id!r} cannot be written: {why}. Repeating it does not help; "
            "send what can be stored (UTF-8 text, numbers within 64 bits, times before the year "
            "10000)."
        )
        self.task_id = task_id
        self.what = what
        self.why = why


class TaskFailed(AndonError):
    """`handle.result()`: the task ended in a state other than `completed`."""

    def __init__(self, task_id: str, state: str, reason: str, error: str = "") -> None:
        tail = f": {error}" if error else "."
        super().__init__(f"Task {task_id!r} ended {state} ({reason}){tail}")
        self.task_id = task_id
        self.state = state
        self.reason = reason
        self.error = error


class TaskCancelled(TaskFailed):
    """`handle.result()`: the task ended `cancelled`."""


class SubmissionsRefused(AndonError):
    """Some of many submissions were refused; the others were accepted and live on.

    `errors` has the refusals by task id, `accepted` the ids of the rest.
    """

    def __init__(self, errors: dict[str, AndonError], accepted: tuple[str, ...]) -> None:
        first, error = next(iter(errors.items()))
        super().__init__(
            f"{len(errors)} of {len(errors) + len(accepted)} submissions were refused, "
            f"first task {first!r}: {error}"
        )
        self.errors = errors
        self.accepted = accepted


class StoreError(AndonError):
    """The store cannot do what was asked; the message says what to do."""


class StoreUnavailable(StoreError):
    """The store did not answer, is locked or is full, for longer than it was given."""


class StoreIncompatible(StoreError):
    """The store's schema or record version does not fit this release."""


class ConfigurationError(AndonError):
    """A setting, URL or option that cannot be used."""


class UnknownCode(AndonError):
    """A claim named its code by a digest that the service does not know (any more; HTTP 409)."""

    def __init__(self, digest: str) -> None:
        super().__init__(
            f"What {digest!r} has code for is not known here. Claim again with `types`, the list "
            "of names and versions; then its digest will do."
        )
        self.digest = digest


class AccessError(AndonError):
    """The service does not let the caller do this; the message says what is missing."""


class AuthenticationFailed(AccessError):
    """No token was given, or one that is not valid (HTTP 401)."""


class PermissionRefused(AccessError):
    """The token is valid and does not allow this (HTTP 403). `scope` is what is missing."""

    def __init__(self, scope: str, message: str = "") -> None:
        super().__init__(
            message
            or f"The token does not allow {scope!r}. Use one that does, or make one: "
            f"andon token create NAME --scope {scope!r}."
        )
        self.scope = scope
