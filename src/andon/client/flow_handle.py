"""Handles on submitted flows: progress, results, tree, cancel and rerun."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from andon.client.bridge import blocking, iterating
from andon.client.handle import TaskHandle
from andon.client.views import TaskView
from andon.contract.limits import in_batches
from andon.engine.bulk import Tally
from andon.engine.flows import (
    FlowSummary,
    cancel_flow,
    list_flows,
    read_flow,
    rerun_flow,
)
from andon.lifecycle.flows import FlowMember, FlowNode, FlowProgress
from andon.model.groups import GroupRecord
from andon.model.words import State
from andon.worker.calls import ANY_CALL
from andon.worker.follow_ups import HasId

if TYPE_CHECKING:
    from andon.client.store_access import StoreAccess
    from andon.model.task import Task
    from andon.worker.calls import Call


class FlowHandle:
    """A flow, wherever it runs; any other group of tasks, too.

    Every method asks the store and may raise `StoreUnavailable`, and `FlowNotFound` if there is no
    task of it.

    Example:
        with app.flow("billing") as flow:
            flow.chord(flow.map(remind, ["ann", "bob"]), flow.add(report))
        handle = await flow.submit()
        async for task, result in handle.results():
            print(task.name, task.state, result)
        for node in await handle.tree():
            print(node.name, node.count, node.states)
    """

    def __init__(self, app: "StoreAccess", flow_id: str) -> None:
        self.app = app
        self.id = flow_id  #: of the flow: the group of its tasks

    def __repr__(self) -> str:
        return f"<FlowHandle {self.id}>"

    @property
    def sync(self) -> "SyncFlowHandle":
        """The same handle for code that is not async.

        Example:
            handle = app.sync.flows.handle("no-such-flow")
            print(handle.id)
        """
        return SyncFlowHandle(self)

    async def progress(self) -> FlowProgress:
        """How far it is. Reads the flow's tasks, ten thousand at the most, and nothing else.

        Example:
            with app.flow("billing") as flow:
                flow.map(remind, ["ann", "bob"])
            handle = await flow.submit()
            progress = await handle.progress()
            print(f"{progress.percent} %: {progress.ended} of {progress.total}", progress.states)
        """
        return (await read_flow(await self.app.engine(), self.id, bare=True)).progress

    async def tree(self) -> list[FlowNode]:
        """What it consists of: a node for all tasks that are alike, each after those it waits
        for. So its size goes by what the flow looks like, not by how many tasks it has.

        Example:
            with app.flow("billing") as flow:
                flow.chord(flow.map(remind, ["ann", "bob"]), flow.add(report))
            first, last = await (await flow.submit()).tree()
            assert (first.name, first.count, last.after) == ("remind", 2, (0,))
        """
        return (await read_flow(await self.app.engine(), self.id)).tree

    async def result(self, timeout: float | None = None) -> Any:
        """What the last task returned; waits until it has ended, `timeout` seconds at most. Of a
        flow with several tasks that no other waits for, a list, in the order of their creation.

        Raises as `TaskHandle.result` does, for the first of them that did not complete.

        Example:
            with app.flow("billing") as flow:
                flow.add(remind, flow.add(charge, 7, 990).result)
            handle = await flow.submit()
            assert await handle.result(timeout=60) == "order 7 paid reminded"
        """
        flow = await read_flow(await self.app.engine(), self.id, bare=True)
        waited_for = {p for member in flow.members.values() for p in member.dependencies}
        lasts = [member for member in flow.members.values() if member.id not in waited_for]
        async with asyncio.timeout(timeout):
            found = [await self._handle(member).result() for member in lasts]
        return found[0] if len(found) == 1 else found

    async def results(
        self, tasks: Iterable[HasId | str] | None = None
    ) -> AsyncIterator[tuple[TaskView, Any]]:
        """Each task with its result, as they end; those that have ended already come first. Without
        `tasks` all of the flow, else these (a group of it, for example). The result is None if the
        task did not complete; its `state` and `error` say why.

        Example:
            with app.flow("billing") as flow:
                bills = flow.map(remind, ["ann", "bob"])
                flow.chord(bills, flow.add(report))
            handle = await flow.submit()
            async for task, result in handle.results(bills):
                assert result.endswith(" reminded")
        """
        engine = await self.app.engine()
        if tasks is None:
            ids: Sequence[str] = list((await read_flow(engine, self.id, bare=True)).members)
        else:
            ids = [task if isinstance(task, str) else task.id for task in tasks]
        ended: asyncio.Queue[Task | Exception] = asyncio.Queue()

        async def follow(task_id: str) -> None:
            try:
                ended.put_nowait(await engine.wait_end(task_id))
            except Exception as error:
                ended.put_nowait(error)

        left, waiting = 0, set[asyncio.Task[None]]()
        try:
            for batch in in_batches(ids):
                waiting.update(asyncio.ensure_future(follow(task_id)) for task_id in batch)
                left += len(batch)
                await asyncio.sleep(0)
            for _ in range(left):
                found = await ended.get()
                if isinstance(found, Exception):
                    raise found
                decode = self._codec(found.definition.name, found.definition.version)
                view = TaskView.of(found, decode.decode_result, now=engine.now())
                yield view, view.result if view.state is State.COMPLETED else None
        finally:
            for one in waiting:
                one.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def cancel(self, *, force: bool = False) -> Tally:
        """Cancel all that has not ended; how many that were. What runs is asked to stop, or with
        `force` cancelled at once.

        Example:
            with app.flow("billing") as flow:
                flow.map(remind.options(delay=3600), ["ann", "bob"])
            handle = await flow.submit()
            assert (await handle.cancel()).changed == 2
        """
        engine = await self.app.engine()
        return await cancel_flow(engine, await read_flow(engine, self.id, bare=True), force=force)

    async def rerun(self, *, failed_only: bool = True) -> Tally:
        """Run again what did not complete, and all that follows it; without `failed_only` all that
        has ended. Each task waits for those it depends on, as it did at first; what has completed
        before keeps its result. If this is cut short, repeat it.

        Example:
            with app.flow("billing") as flow:
                bad = flow.add(charge, 7, -1)
                flow.add(remind, bad.result)
            handle = await flow.submit()
            async for task, _ in handle.results():
                print(task.name, task.state, task.reason)
            assert (await handle.rerun()).changed == 2
        """
        engine = await self.app.engine()
        flow = await read_flow(engine, self.id)
        return await rerun_flow(engine, flow, failed_only=failed_only)

    async def record(self) -> GroupRecord:
        """The record of a group whose tasks were submitted with `group_owner`. Raises
        `GroupNotFound`.

        Example:
            await remind.options(group="build-7", group_owner="ci").submit("ann@example.org")
            record = await app.flows.handle("build-7").record()
            assert (record.owner, record.sealed_at) == ("ci", None)
        """
        return await (await self.app.engine()).group(self.id)

    async def seal(self) -> GroupRecord:
        """Let no task into the group any more, for good: a submit with `group_owner` is refused
        from now on (`GroupRefused`). One that was let in before may be stored until `open_until`.
        Repeating it changes nothing. Raises `GroupNotFound`.

        Example:
            await remind.options(group="build-7", group_owner="ci").submit("ann@example.org")
            record = await app.flows.handle("build-7").seal()
            assert record.sealed_at is not None
        """
        return await (await self.app.engine()).seal_group(self.id)

    def _handle(self, member: FlowMember) -> TaskHandle[Any]:
        return TaskHandle(self.app, member.id, self._codec(member.name, member.version))

    def _codec(self, name: str, version: int) -> "Call":
        kind = self.app.registry.route(name, version)
        return ANY_CALL if kind is None else kind.codec


class SyncFlowHandle:
    """A `FlowHandle` whose methods wait.

    Example:
        with app.sync.flow("billing") as flow:
            flow.map(remind, ["ann", "bob"])
        handle = flow.submit()
        assert len(handle.result(timeout=60)) == 2
        print(handle.progress().percent, handle.tree())
    """

    def __init__(self, handle: FlowHandle) -> None:
        self.inner = handle
        self.bridge = handle.app.bridge

    def __repr__(self) -> str:
        return f"<SyncFlowHandle {self.id}>"

    @property
    def id(self) -> str:
        """The flow's id."""
        return self.inner.id

    progress = blocking(FlowHandle.progress)
    tree = blocking(FlowHandle.tree)
    result = blocking(FlowHandle.result)
    results = iterating(FlowHandle.results)
    cancel = blocking(FlowHandle.cancel)
    rerun = blocking(FlowHandle.rerun)
    record = blocking(FlowHandle.record)
    seal = blocking(FlowHandle.seal)


class Flows:
    """The flows of an application's store. `app.flows`.

    Example:
        with app.flow("billing") as flow:
            flow.map(remind, ["ann", "bob"])
        submitted = await flow.submit()
        [found] = await app.flows.list()
        assert (found.id, found.name, found.members) == (submitted.id, "billing", 2)
    """

    def __init__(self, app: "StoreAccess") -> None:
        self._app = app

    def __repr__(self) -> str:
        return f"<Flows of {self._app!r}>"

    def handle(self, flow_id: str) -> FlowHandle:
        """A handle on a flow by its id.

        Example:
            handle = app.flows.handle("billing-7")
        """
        return FlowHandle(self._app, flow_id)

    async def list(self, *, limit: int = 20) -> "list[FlowSummary]":
        """Up to `limit` flows, the newest first, by their first tasks. It looks at the newest
        20,000 tasks of the store or so, and no further.

        Example:
            for flow in await app.flows.list(limit=5):
                print(flow.id, flow.name, flow.members)
        """
        return await list_flows(await self._app.engine(), limit=limit)
