"""The sync face: the same application, tasks and handles for scripts and Django.

Every method here is the async one of the same name, run on the application's background loop;
`bridge` says how. It may be called from any thread that runs no event loop of its own.
"""

from types import TracebackType
from typing import Any, Generic, ParamSpec, Self, TypeVar

from andon.client.app import Andon
from andon.client.bridge import Bridge, blocking, blocking_then, iterating
from andon.client.function import TaskFunction
from andon.client.handle import TaskHandle
from andon.client.policies import Policies
from andon.client.queues import Queues
from andon.client.tasks import Tasks

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Returned = TypeVar("Returned")


def _handle(handle: TaskHandle[R]) -> "SyncHandle[R]":
    return SyncHandle(handle)


class SyncHandle(Generic[R_co]):
    """A `TaskHandle` whose methods wait.

    Example:
        handle = charge.sync.submit(7, 990)
        assert handle.result(timeout=60) == "order 7 paid"
        for move in handle.history():
            print(move.at, move.event)
    """

    def __init__(self, handle: TaskHandle[R_co]) -> None:
        self.inner = handle
        self.bridge = handle.app.sync.bridge

    def __repr__(self) -> str:
        return f"<SyncHandle {self.id}>"

    @property
    def id(self) -> str:
        """The task's id."""
        return self.inner.id

    result = blocking(TaskHandle[R_co].result)
    status = blocking(TaskHandle[R_co].status)
    get = blocking(TaskHandle[R_co].get)
    watch = iterating(TaskHandle[R_co].watch)
    history = blocking(TaskHandle[R_co].history)
    logs = iterating(TaskHandle[R_co].logs)
    artifacts = blocking(TaskHandle[R_co].artifacts)
    read_artifact = blocking(TaskHandle[R_co].read_artifact)
    cancel = blocking(TaskHandle[R_co].cancel)
    retry = blocking(TaskHandle[R_co].retry)
    rerun = blocking(TaskHandle[R_co].rerun)
    schedule = blocking(TaskHandle[R_co].schedule)
    reschedule = blocking(TaskHandle[R_co].reschedule)
    reprioritise = blocking(TaskHandle[R_co].reprioritise)
    archive = blocking(TaskHandle[R_co].archive)
    edit = blocking_then(TaskHandle[R_co].edit, _handle)
    delete = blocking(TaskHandle[R_co].delete)


def _handles(handles: list[TaskHandle[R]]) -> list[SyncHandle[R]]:
    return [SyncHandle(handle) for handle in handles]


class SyncTaskFunction(Generic[P, R, Returned]):
    """A `TaskFunction` whose submits wait until the task is stored.

    Example:
        handle = charge.sync.submit(7, 990)
        later = remind.sync.submit_in(3600, "ann@example.org")
        print(handle.status(), later.status())
    """

    def __init__(self, function: TaskFunction[P, R, Returned]) -> None:
        self.inner = function
        self.bridge = function.app.sync.bridge

    def __repr__(self) -> str:
        return f"<Sync{repr(self.inner)[1:]}"

    submit = blocking_then(TaskFunction[P, R, Returned].submit, SyncHandle[R])
    submit_in = blocking_then(TaskFunction[P, R, Returned].submit_in, SyncHandle[R])
    submit_at = blocking_then(TaskFunction[P, R, Returned].submit_at, SyncHandle[R])
    submit_many = blocking_then(TaskFunction[P, R, Returned].submit_many, _handles)


class SyncQueues:
    """An application's queues, with methods that wait.

    Example:
        app.sync.queues.pause("mail")
        assert app.sync.queues.get("mail").paused
    """

    def __init__(self, app: Andon) -> None:
        self.inner = app.queues
        self.bridge = app.sync.bridge

    def __repr__(self) -> str:
        return f"<Sync{repr(self.inner)[1:]}"

    list = blocking(Queues.list)
    get = blocking(Queues.get)
    configure = blocking(Queues.configure)
    pause = blocking(Queues.pause)
    resume = blocking(Queues.resume)
    history = blocking(Queues.history)
    purge = blocking(Queues.purge)
    delete = blocking(Queues.delete)
    declare = blocking(Queues.declare)


class SyncPolicies:
    """An application's named retry policies, with methods that wait.

    Example:
        app.sync.policies.set("gentle", max_retries=10, retry_delay=60.0)
        assert app.sync.policies.get("gentle")["max_retries"] == 10
    """

    def __init__(self, app: Andon) -> None:
        self.inner = app.policies
        self.bridge = app.sync.bridge

    def __repr__(self) -> str:
        return f"<Sync{repr(self.inner)[1:]}"

    list = blocking(Policies.list)
    get = blocking(Policies.get)
    set = blocking(Policies.set)
    delete = blocking(Policies.delete)


class SyncTasks:
    """An application's tasks, with methods that wait.

    Example:
        handle = remind.sync.submit_in(3600, "ann@example.org")
        for acted in app.sync.tasks.cancel([handle]):
            print(acted.id, acted.error or acted.state)
    """

    def __init__(self, app: Andon) -> None:
        self.inner = app.tasks
        self.bridge = app.sync.bridge

    def __repr__(self) -> str:
        return f"<Sync{repr(self.inner)[1:]}"

    get = blocking(Tasks.get)
    list = blocking(Tasks.list)
    find = iterating(Tasks.find)
    cancel = blocking(Tasks.cancel)
    retry = blocking(Tasks.retry)
    rerun = blocking(Tasks.rerun)
    archive = blocking(Tasks.archive)
    edit = blocking_then(Tasks.edit, SyncHandle[Any])
    delete = blocking(Tasks.delete)


class SyncApp:
    """An `Andon` whose methods wait. One background thread serves all threads that call it.

    Example:
        from andon import Andon

        app = Andon("memory://")
        with app.sync as store:
            handle = store.submit("charge", {"order": 7, "cents": 990}, delay=60)
            assert store.handle(handle.id).status() == "scheduled"
            print(store.queues.list())
    """

    def __init__(self, app: Andon) -> None:
        self.inner = app
        self.bridge = Bridge(app)

    def __repr__(self) -> str:
        return f"<Sync{repr(self.inner)[1:]}"

    submit = blocking_then(Andon.submit, SyncHandle[Any])
    submit_draft = blocking_then(Andon.submit_draft, SyncHandle[Any])
    submit_many = blocking_then(Andon.submit_many, _handles)
    submit_stream = iterating(Andon.submit_stream)
    get = blocking(Andon.get)
    find = iterating(Andon.find)

    @property
    def queues(self) -> SyncQueues:
        """The queues of the store: configured, paused, listed."""
        return SyncQueues(self.inner)

    @property
    def policies(self) -> SyncPolicies:
        """The named retry policies of the store."""
        return SyncPolicies(self.inner)

    @property
    def tasks(self) -> SyncTasks:
        """The tasks of the store: found, listed, acted on."""
        return SyncTasks(self.inner)

    def handle(self, task_id: str) -> SyncHandle[Any]:
        """A handle on a task by its id.

        Example:
            handle = app.sync.handle("no-such-task")
        """
        return SyncHandle(self.inner.handle(task_id))

    def close(self) -> None:
        """Flush, disconnect and end the background thread; a later call starts anew.

        Example:
            app.sync.submit("charge", {"order": 7, "cents": 990})
            app.sync.close()
        """
        self.bridge.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
