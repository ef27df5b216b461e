"""The sync face: the same application, tasks and handles for scripts and Django.

Every method here is the async one of the same name, run on the application's background loop;
`bridge` says how. It may be called from any thread that runs no event loop of its own.
"""

from types import TracebackType
from typing import Any, Self

from andon.client.bridge import blocking, blocking_then, iterating
from andon.client.flow_handle import Flows, SyncFlowHandle
from andon.client.flows import Flow
from andon.client.function import SyncTaskFunction
from andon.client.handle import SyncHandle, sync_handles
from andon.client.policies import Policies
from andon.client.queues import Queues
from andon.client.reading import Reading
from andon.client.schedules import Schedules
from andon.client.tasks import Tasks

__all__ = [
    "SyncApp",
    "SyncFlow",
    "SyncFlowHandle",
    "SyncFlows",
    "SyncHandle",
    "SyncPolicies",
    "SyncQueues",
    "SyncTaskFunction",
    "SyncTasks",
]


class SyncQueues:
    """An application's queues, with methods that wait.

    Example:
        app.sync.queues.pause("mail")
        assert app.sync.queues.get("mail").paused
    """

    def __init__(self, app: Reading) -> None:
        self.inner = app.queues
        self.bridge = app.bridge

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

    def __init__(self, app: Reading) -> None:
        self.inner = app.policies
        self.bridge = app.bridge

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

    def __init__(self, app: Reading) -> None:
        self.inner = app.tasks
        self.bridge = app.bridge

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


class SyncSchedules:
    """An application's schedules, with methods that wait.

    Example:
        app.sync.schedules.add("weekly", report.draft(), cron="0 8 * * MON")
        assert app.sync.schedules.pause("weekly").paused
        app.sync.schedules.delete("weekly")
    """

    def __init__(self, app: Reading) -> None:
        self.inner = app.schedules
        self.bridge = app.bridge

    def __repr__(self) -> str:
        return f"<Sync{repr(self.inner)[1:]}"

    add = blocking(Schedules.add)
    edit = blocking(Schedules.edit)
    list = blocking(Schedules.list)
    get = blocking(Schedules.get)
    next = blocking(Schedules.next)
    pause = blocking(Schedules.pause)
    resume = blocking(Schedules.resume)
    run = blocking(Schedules.run)
    cancel = blocking(Schedules.cancel)
    rerun = blocking(Schedules.rerun)
    delete = blocking(Schedules.delete)
    backfill = blocking(Schedules.backfill)
    declare = blocking(Schedules.declare)
    prune = blocking(Schedules.prune)


class SyncFlows:
    """An application's flows, with methods that wait.

    Example:
        for flow in app.sync.flows.list(limit=5):
            print(app.sync.flows.handle(flow.id).progress())
    """

    def __init__(self, app: Reading) -> None:
        self.inner = app.flows
        self.bridge = app.bridge

    def __repr__(self) -> str:
        return f"<Sync{repr(self.inner)[1:]}"

    def handle(self, flow_id: str) -> SyncFlowHandle:
        """A handle on a flow by its id."""
        return SyncFlowHandle(self.inner.handle(flow_id))

    list = blocking(Flows.list)


class SyncFlow(Flow):
    """A `Flow` whose submit waits until its tasks are stored.

    Example:
        with app.sync.flow("billing") as flow:
            paid = flow.add(charge, 7, 990)
            flow.add(remind, paid.result)
        assert flow.submit().result(timeout=60) == "order 7 paid reminded"
    """

    def submit(self) -> SyncFlowHandle:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Submit all of it, in one call; see `Flow.submit`."""
        return SyncFlowHandle(self.app.bridge.run(super().submit()))

    def fan_out(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, bearer: str, run: str
    ) -> SyncFlowHandle:
        """Submit all of it for a run; see `Context.fan_out`."""
        return SyncFlowHandle(self.app.bridge.run(super().fan_out(bearer, run)))


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

    def __init__(self, app: Reading) -> None:
        self.inner = app
        self.bridge = app.bridge

    def __repr__(self) -> str:
        return f"<Sync{repr(self.inner)[1:]}"

    submit = blocking_then(Reading.submit, SyncHandle[Any])
    submit_draft = blocking_then(Reading.submit_draft, SyncHandle[Any])
    submit_many = blocking_then(Reading.submit_many, sync_handles)
    submit_stream = iterating(Reading.submit_stream)
    get = blocking(Reading.get)
    find = iterating(Reading.find)

    def flow(self, name: str, *, id: str | None = None) -> SyncFlow:
        """A flow to be put together, whose submit waits; see `Andon.flow`.

        Example:
            with app.sync.flow("billing") as flow:
                flow.add(charge, 7, 990)
            print(flow.submit().progress())
        """
        return SyncFlow(self.inner, name, id=id)

    @property
    def flows(self) -> SyncFlows:
        """The flows of the store: found, listed, cancelled, rerun."""
        return SyncFlows(self.inner)

    @property
    def queues(self) -> SyncQueues:
        """The queues of the store: configured, paused, listed."""
        return SyncQueues(self.inner)

    @property
    def policies(self) -> SyncPolicies:
        """The named retry policies of the store."""
        return SyncPolicies(self.inner)

    @property
    def schedules(self) -> SyncSchedules:
        """The schedules of the store: declared, made by hand, paused, listed."""
        return SyncSchedules(self.inner)

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
