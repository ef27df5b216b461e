"""The typed errors of Andon. Each message says what happened, to which task, and what to do."""


class AndonError(Exception):
    """Base of every error that Andon raises on purpose.

    Example:
        from andon.errors import AndonError

        try:
            await app.handle("no-such-task").get()
        except AndonError as error:
            print(error)
    """


class InvalidSubmission(AndonError):
    """A submission that can never work; nothing was stored. `field` names the part at fault.

    Example:
        from andon.errors import InvalidSubmission

        try:
            await charge.options(priority=99).submit(7, 990)
        except InvalidSubmission as error:
            assert error.field == "priority"
        else:
            raise AssertionError("it was accepted")
    """

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.field = field  #: the part at fault; empty if it is the whole


class TaskNotFound(AndonError):
    """No task with this id (any more).

    Example:
        from andon.errors import TaskNotFound

        try:
            await app.handle("no-such-task").get()
        except TaskNotFound as error:
            assert error.task_id == "no-such-task"
        else:
            raise AssertionError("it was found")
    """

    def __init__(self, task_id: str, why: str = "") -> None:
        why = why or "It was never submitted, or its retention has passed."
        super().__init__(f"There is no task {task_id!r}. {why}")
        self.task_id = task_id  #: the id asked for


class FlowNotFound(TaskNotFound):
    """No task of this flow, or group (any more).

    Example:
        from andon.errors import FlowNotFound

        try:
            await app.flows.handle("no-such-flow").progress()
        except FlowNotFound as error:
            assert error.task_id == "no-such-flow"
        else:
            raise AssertionError("it was found")
    """

    def __init__(self, flow_id: str) -> None:
        AndonError.__init__(
            self,
            f"There is no flow {flow_id!r}. It was never submitted, or the retention of all its "
            "tasks has passed.",
        )
        self.task_id = flow_id  #: the id asked for


class TaskConflict(AndonError):
    """The id is taken by a task with another definition (docs/rulings.md, R26).

    Example:
        from andon.errors import TaskConflict

        await charge.options(id="order-7").submit(7, 990)
        try:
            await charge.options(id="order-7").submit(7, 995)
        except TaskConflict as error:
            assert error.task_id == "order-7"
        else:
            raise AssertionError("it was accepted")
    """

    def __init__(self, task_id: str) -> None:
        super().__init__(
            f"Task {task_id!r} exists with another definition. "
            "Submit under a new id, or repeat exactly what was submitted first."
        )
        self.task_id = task_id  #: the id that is taken


class FlowConflict(TaskConflict):
    """The id is taken by a flow of other tasks; nothing was submitted.

    Example:
        from andon.errors import FlowConflict

        for cents in (990, 995):
            flow = app.flow("billing", id="billing-7")
            flow.add(charge, 7, cents)
            try:
                await flow.submit()
            except FlowConflict as error:
                assert error.task_id == "billing-7"
    """

    def __init__(self, flow_id: str) -> None:
        AndonError.__init__(
            self,
            f"Flow {flow_id!r} exists with other tasks. Submit under a new id, or repeat exactly "
            "what was submitted first.",
        )
        self.task_id = flow_id  #: the id that is taken


class WorkerNotFound(AndonError):
    """No worker of this id has claimed from the queue lately, as far as claims are noted (HTTP
    404).

    Example:
        from andon.errors import WorkerNotFound

        try:
            await (await app.engine()).claiming_worker("mail", "no-such-worker")
        except WorkerNotFound as error:
            assert (error.queue, error.worker) == ("mail", "no-such-worker")
        else:
            raise AssertionError("it was found")
    """

    def __init__(self, queue: str, worker: str) -> None:
        super().__init__(
            f"Nothing is kept of a worker {worker!r} in queue {queue!r}. Workers that are known by "
            "their claims alone are kept, for a day after the last one."
        )
        self.queue = queue  #: the queue asked for
        self.worker = worker  #: the worker asked for


class GroupNotFound(TaskNotFound):
    """Nothing is kept of this group (any more).

    Example:
        from andon.errors import GroupNotFound

        try:
            await app.flows.handle("no-such-group").record()
        except GroupNotFound as error:
            assert error.task_id == "no-such-group"
        else:
            raise AssertionError("it was found")
    """

    def __init__(self, group: str) -> None:
        AndonError.__init__(
            self,
            f"Nothing is kept of group {group!r}. A record is kept from the first task on that is "
            "submitted with group_owner, and goes with the last.",
        )
        self.task_id = group  #: the group asked for


class GroupRefused(AndonError):
    """The group takes no such member: it is sealed, or has another owner (docs/rulings.md, R41).
    Nothing was stored.

    Example:
        from andon.errors import GroupRefused

        build = remind.options(group="build-7", group_owner="ci")
        await build.submit("ann@example.org")
        await app.flows.handle("build-7").seal()
        try:
            await build.submit("bob@example.org")
        except GroupRefused as error:
            assert (error.group, error.owner, error.sealed_at is None) == ("build-7", "ci", False)
        else:
            raise AssertionError("it was accepted")
    """

    def __init__(self, group: str, *, owner: str = "", sealed_at: int | None = None) -> None:
        super().__init__(
            f"Group {group!r} belongs to {owner!r}; submit to a group of your own."
            if sealed_at is None
            else f"Group {group!r} is sealed: it takes no more tasks. Submit to another group."
        )
        self.group = group  #: its name
        self.owner = owner  #: who owns it
        self.sealed_at = sealed_at  #: since when it is sealed, ms UTC; None: it is another's


class UniqueKeyHeld(AndonError):
    """Another task holds the unique key. `holder` is that task's id.

    Example:
        from andon.errors import UniqueKeyHeld

        first = await remind.options(unique=True, delay=3600).submit("ann")
        try:
            await remind.options(unique=True).submit("ann")
        except UniqueKeyHeld as error:
            assert error.holder == first.id
        else:
            raise AssertionError("it was accepted")
    """

    def __init__(self, key: str, holder: str) -> None:
        super().__init__(
            f"Unique key {key!r} is held by task {holder!r}. "
            "Wait until that task has left the states in which the key holds, or cancel it."
        )
        self.key = key  #: the unique key
        self.holder = holder  #: id of the task that holds it


class QueueFull(AndonError):
    """The queue has reached its `max_size` and its policy is to reject.

    Example:
        from andon.errors import QueueFull

        await app.queues.configure("mail", max_size=1, paused=True)
        await remind.submit("ann")
        try:
            await remind.submit("bob")
        except QueueFull as error:
            assert (error.queue, error.max_size) == ("mail", 1)
        else:
            raise AssertionError("it was accepted")
    """

    def __init__(self, queue: str, max_size: int) -> None:
        super().__init__(
            f"Queue {queue!r} is full ({max_size} tasks). "
            f"Try again later, or raise it: andon queues configure {queue} --max-size N."
        )
        self.queue = queue  #: its name
        self.max_size = max_size  #: its limit, tasks


class QueueNotEmpty(AndonError):
    """The queue cannot be deleted while tasks are in it (HTTP 409). Its settings are unchanged.

    Example:
        from andon.errors import QueueNotEmpty

        await remind.submit_in(3600, "ann@example.org")
        try:
            await app.queues.delete("mail")
        except QueueNotEmpty as error:
            assert error.queue == "mail"
        else:
            raise AssertionError("it was deleted")
    """

    def __init__(self, queue: str, counts: dict[str, int], hint: str = "") -> None:
        parts = ", ".join(f"{number:,} {state}" for state, number in counts.items())
        super().__init__(f"Queue {queue!r} has tasks ({parts}). {hint}".rstrip())
        self.queue = queue  #: its name


class InvalidTransition(AndonError):
    """The table of moves has no such move (HTTP 409). Nothing was changed.

    Example:
        from andon.errors import InvalidTransition

        handle = await charge.submit(7, 990)
        await handle.result(timeout=60)
        try:
            await handle.cancel()
        except InvalidTransition as error:
            assert (error.event, error.state) == ("cancel", "completed")
        else:
            raise AssertionError("it was cancelled")
    """

    def __init__(self, task_id: str, event: str, state: str, hint: str = "") -> None:
        message = f"Task {task_id!r} is {state}; {event} is not possible from there."
        super().__init__(f"{message} {hint}".rstrip())
        self.task_id = task_id  #: id of the task
        self.event = event  #: what was asked for
        self.state = state  #: where the task stands


class LeaseLost(AndonError):
    """The run no longer holds the task (HTTP 409). Whatever it reports changes nothing.

    Example:
        from andon import Context
        from andon.errors import LeaseLost

        @app.task
        async def draw(ctx: Context) -> None:
            try:
                await ctx.artifact("plan.svg", "<svg/>")
            except LeaseLost:
                print("another run has taken over; nothing of this one counts")
                raise

        await (await draw.submit()).result(timeout=60)
    """

    def __init__(self, task_id: str, run: str) -> None:
        super().__init__(
            f"Run {run!r} no longer holds task {task_id!r}: it was resolved, or its lease ran out "
            "and another run took over. Stop working on it; nothing was changed."
        )
        self.task_id = task_id  #: id of the task
        self.run = run  #: id of the run


class PayloadTooLarge(InvalidSubmission):
    """Arguments or a result above the configured limit.

    Example:
        from andon.errors import PayloadTooLarge

        try:
            await app.submit("remind", {"to": "x" * 10_000_000})
        except PayloadTooLarge as error:
            print(error)
        else:
            raise AssertionError("it was accepted")
    """

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(
            f"The {what} takes {size:,} bytes, the limit is {limit:,}. "
            "Pass a reference to the data instead, or raise max_payload.",
            field=what,
        )


class NotWritable(AndonError):
    """The act on one task cannot be decided or written, now or later (HTTP 422); it alone was left
    out, and the task is unchanged. `why` says what is wrong."""

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
    """`handle.result()`: the task ended in a state other than `completed`.

    Example:
        from andon.errors import TaskFailed

        handle = await charge.submit(7, -1)
        try:
            await handle.result(timeout=60)
        except TaskFailed as error:
            assert (error.state, error.error) == ("failed", "nothing to charge")
        else:
            raise AssertionError("it completed")
    """

    def __init__(self, task_id: str, state: str, reason: str, error: str = "") -> None:
        tail = f": {error}" if error else "."
        super().__init__(f"Task {task_id!r} ended {state} ({reason}){tail}")
        self.task_id = task_id  #: id of the task
        self.state = state  #: how it ended
        self.reason = reason  #: why
        self.error = error  #: the error of its newest failed run; empty if none failed


class TaskCancelled(TaskFailed):
    """`handle.result()`: the task ended `cancelled`.

    Example:
        from andon.errors import TaskCancelled

        handle = await remind.submit_in(3600, "ann@example.org")
        await handle.cancel()
        try:
            await handle.result(timeout=60)
        except TaskCancelled as error:
            assert error.task_id == handle.id
        else:
            raise AssertionError("it completed")
    """


class SubmissionsRefused(AndonError):
    """Some of many submissions were refused; the others were accepted and live on.

    `errors` has the refusals by task id, `accepted` the ids of the rest.

    Example:
        from andon.errors import SubmissionsRefused

        good, bad = charge.draft(7, 990), charge.options(priority=99).draft(8, 990)
        try:
            await app.submit_many([good, bad])
        except SubmissionsRefused as error:
            assert error.accepted == (good.id,)
            print(error.errors[bad.id])
        else:
            raise AssertionError("both were accepted")
    """

    def __init__(self, errors: dict[str, AndonError], accepted: tuple[str, ...]) -> None:
        first, error = next(iter(errors.items()))
        super().__init__(
            f"{len(errors)} of {len(errors) + len(accepted)} submissions were refused, "
            f"first task {first!r}: {error}"
        )
        self.errors = errors  #: the refusals by task id
        self.accepted = accepted  #: ids of the others


class StoreError(AndonError):
    """The store cannot do what was asked; the message says what to do.

    Example:
        from pathlib import Path

        from andon import Andon
        from andon.errors import StoreError

        Path("notes.db").write_text("no database, whatever it is called")
        app = Andon("sqlite:///notes.db")
        try:
            await app.open()
        except StoreError as error:
            print(error)
        else:
            raise AssertionError("it was opened")
    """


class StoreUnavailable(StoreError):
    """The store did not answer, is locked or is full, for longer than it was given.

    Example:
        from andon.errors import StoreUnavailable

        try:
            handle = await charge.options(id="order-7").submit(7, 990)
        except StoreUnavailable:
            print("not known whether it is stored: repeat it under the same id")
    """


class StoreIncompatible(StoreError):
    """The store's schema or record version does not fit this release.

    Example:
        from andon.errors import StoreIncompatible

        try:
            await app.open()
        except StoreIncompatible as error:
            print(error)  # it says which of the two is to be upgraded
    """


class ConfigurationError(AndonError):
    """A setting, URL or option that cannot be used.

    Example:
        from andon import Andon
        from andon.errors import ConfigurationError

        try:
            await Andon("mysql://localhost/tasks").open()
        except ConfigurationError as error:
            print(error)
        else:
            raise AssertionError("it was opened")
    """


class UnknownCode(AndonError):
    """A claim named its code by a digest that the service does not know (any more; HTTP 409)."""

    def __init__(self, digest: str) -> None:
        super().__init__(
            f"What {digest!r} has code for is not known here. Claim again with `types`, the list "
            "of names and versions; then its digest will do."
        )
        self.digest = digest


class AccessError(AndonError):
    """The service does not let the caller do this; the message says what is missing.

    Example:
        from andon.errors import AccessError

        try:
            await charge.submit(7, 990)  # to a service: Andon("https://…", token="…")
        except AccessError as error:
            print(error)
    """


class AuthenticationFailed(AccessError):
    """No token was given, or one that is not valid (HTTP 401).

    Example:
        from andon.errors import AuthenticationFailed

        try:
            await charge.submit(7, 990)  # to a service: Andon("https://…", token="…")
        except AuthenticationFailed:
            print("give another token, as token= or in ANDON_TOKEN")
    """


class PermissionRefused(AccessError):
    """The token is valid and does not allow this (HTTP 403). `scope` is what is missing.

    Example:
        from andon.errors import PermissionRefused

        try:
            await charge.submit(7, 990)  # to a service: Andon("https://…", token="…")
        except PermissionRefused as error:
            print("the token lacks", error.scope)
    """

    def __init__(self, scope: str, message: str = "") -> None:
        super().__init__(
            message
            or f"The token does not allow {scope!r}. Use one that does, or make one: "
            f"andon token create NAME --scope {scope!r}."
        )
        self.scope = scope  #: what the token lacks
