"""A stage for scenarios: a store, worker processes on it, and what an onlooker sees.

`Stage` lives as long as its module's tests, `Scene` as long as one test: it is an engine in the
test's own process, which runs no handler and fires no timer. Whatever happens to a task there was
done by a worker process.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from processes import PATIENCE, WorkerProcess
from servers import keeps_moves_in_the_record

from andon import Andon, TaskHandle
from andon.client.services import is_service, service_at
from andon.contract.store import Store
from andon.engine.base import Engine
from andon.lifecycle.profiles import profile
from andon.lifecycle.rendering import as_seen, history_as, state_name
from andon.model.task import RunCell, Task, TaskEvent
from andon.model.words import TERMINAL, Event, State
from andon.stores.registry import open_store

TICK = 0.01
NEW, GONE = "new", "gone"
"""Where a life begins and ends, in the arrows of a diagram."""

T = TypeVar("T")

_NAME_FIELD = {"native": "state", "jobbers": "status", "cbintel": "status", "choria": "State"}


class Gate:
    """Holds a handler until it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    async def begun(self) -> None:
        """Wait until the handler runs."""
        await until(Path(self.path + ".begun").exists)

    def begin_anew(self) -> None:
        """Forget that a handler ran here."""
        Path(self.path + ".begun").unlink(missing_ok=True)

    def open(self) -> None:
        Path(self.path).touch()

    @property
    def told(self) -> list[str]:
        """What handlers said."""
        with contextlib.suppress(FileNotFoundError):
            return Path(self.path + ".told").read_text().splitlines()
        return []

    async def heard(self, *words: str) -> None:
        """Wait until handlers have said exactly this."""
        await until(lambda: self.told == list(words))


async def until(holds: Callable[[], Any]) -> None:
    """Wait for a condition that nobody hints at, such as a file."""

    async def check() -> bool:
        return bool(holds())

    await until_true(check)


async def until_true(holds: Callable[[], Awaitable[bool]]) -> None:
    """The same for a condition that has to be asked for."""
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while not await holds():
        assert asyncio.get_running_loop().time() < deadline, "waited in vain"
        await asyncio.sleep(TICK)


class Stage:
    """An application, a store, and one worker process on the queue `default`."""

    def __init__(
        self, place: str, url: str, folder: Path, *, store_url: str, **settings: Any
    ) -> None:
        """`place` is the application as module:attribute; `settings` are `andon worker` options.
        `url` is the store's, or that of a service in front of it."""
        module, _, attribute = place.partition(":")
        self.place = place
        self.app: Andon = getattr(import_module(module), attribute)
        self.folder = folder
        self.url = url
        self.store_url = store_url
        self.numbers = itertools.count()
        self.worker: WorkerProcess | None = None
        self._settings = settings
        self._is_up = False

    def __enter__(self) -> Self:
        self.worker = self.new_worker("default", self._settings)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.worker is not None:
            self.worker.close()

    def new_worker(self, queue: str, settings: dict[str, Any]) -> WorkerProcess:
        """A worker process on one queue, which whoever asks must close."""
        settings = {"id": f"worker-{next(self.numbers)}", **settings}
        return WorkerProcess(self.place, self.url, self.folder, queue=queue, **settings)

    async def _up(self, scene: "Scene") -> None:
        """Wait for the worker once: the short times in the tests begin when it claims."""
        if self.worker is not None and not self._is_up:
            await scene.says(self.worker, "running")
            self._is_up = True

    @contextlib.asynccontextmanager
    async def scene(self) -> AsyncIterator["Scene"]:
        """The stage as seen from the test's process, on the running loop."""
        store = open_store(self.store_url)
        if is_service(self.url):
            engine: Engine = service_at(self.url)
            await store.open()
        else:
            engine = self.app.engine_on(store)
        await engine.open()
        scene = Scene(self, engine, store)
        put_back = self.app.connections.use(engine)
        try:
            await self._up(scene)
            yield scene
        finally:
            put_back()
            scene.close()
            await engine.close()
            await store.close()


class Scene:
    """What one test does and sees."""

    def __init__(self, stage: Stage, engine: Engine, store: Store) -> None:
        self.stage = stage
        self.engine = engine
        self.store = store  #: where everything is, past a service too
        self.profile = profile(stage.app.profile)
        self._workers: list[WorkerProcess] = []

    def close(self) -> None:
        for worker in self._workers:
            worker.close()

    # --- the set ---

    def new(self, what: str) -> str:
        """A name that no other test uses."""
        return f"{what}-{next(self.stage.numbers)}"

    def gate(self) -> Gate:
        return Gate(self.stage.folder / self.new("gate"))

    def worker(self, queue: str | None = None, **settings: Any) -> WorkerProcess:
        """Another worker process, on a queue of its own unless told which."""
        worker = self.stage.new_worker(queue or self.new("queue"), settings)
        self._workers.append(worker)
        return worker

    def background(self, waiting: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Let something go on beside the test."""
        return asyncio.ensure_future(waiting)

    # --- what is seen ---

    async def get(self, task: TaskHandle[Any] | str) -> Task:
        """The record."""
        [found] = await self.engine.get([_id(task)])
        assert found is not None, f"{_id(task)} is gone"
        return found

    async def record(self, task: TaskHandle[Any] | str) -> dict[str, Any]:
        """The record under the profile's own field names."""
        found = await self.get(task)
        history = await self.engine.history(found.id)
        return as_seen(self.profile, found, history.events)

    async def state(self, task: TaskHandle[Any] | str) -> str:
        """The state under the profile's own name."""
        return state_name(self.profile, await self.get(task))

    async def end(self, task: TaskHandle[Any] | str) -> Task:
        """The record once the task has ended."""
        return await self.engine.wait_end(_id(task), PATIENCE)

    async def when(self, task: TaskHandle[Any] | str, holds: Callable[[Task], Any]) -> Task:
        """The record once the condition holds; fails if the task ends before."""
        async with asyncio.timeout(PATIENCE):
            async for found in self.engine.watch(_id(task)):
                if holds(found):
                    return found
        raise AssertionError(f"{_id(task)} ended before that")

    async def in_time(
        self,
        submit: Callable[[float], Awaitable[TaskHandle[Any]]],
        holds: Callable[[Task], Any],
    ) -> TaskHandle[Any]:
        """A task that comes so far within the seconds that `submit` gives it.

        A busy machine is given more of them. What does not come so far however long it has is for
        the test to see.
        """
        handle = await submit(1.0)
        for seconds in (4.0, 12.0):
            async with asyncio.timeout(PATIENCE):
                async for found in self.engine.watch(handle.id):
                    if holds(found):
                        return handle
            handle = await submit(seconds)
        return handle

    async def renewed(self, task: TaskHandle[Any] | str, holds: Callable[[RunCell], Any]) -> None:
        """Wait until the run's cell says so: renewals and heartbeats are no moves, and not told."""

        async def check() -> bool:
            cell = (await self.get(task)).cell
            assert cell is not None, "the run has ended"
            return bool(holds(cell))

        await until_true(check)

    async def reaches(self, task: TaskHandle[Any] | str, state: State) -> Task:
        """The record once the task is in this state of Andon's own."""
        return await self.when(task, lambda found: found.state is state)

    async def sees(self, task: TaskHandle[Any] | str, *names: str) -> list[dict[str, Any]]:
        """The whole history in the profile's shape, once the event log shows exactly these names.

        Fails as soon as it shows others. What the record itself keeps is held against the log.
        Where a store keeps its moves inside the record, a damage may have taken the first of them.
        """
        task_id, shown = _id(task), list[str]()
        moves: list[TaskEvent] = []
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                async for event in self.engine.follow(""):
                    if event.task != task_id or event in moves:  # a log may repeat itself
                        continue
                    moves.append(event)
                    [found] = await self.engine.get([task_id])
                    shown = self._names(moves, found)
                    if keeps_moves_in_the_record(self.stage.store_url):
                        names = _left(moves, shown, names)
                    if shown == list(names):
                        await self._agrees(task_id, moves, names[-1])
                        return history_as(self.profile, moves, found)
                    if shown != list(names)[: len(shown)]:
                        break
        raise AssertionError(
            f"expected {' > '.join(names)}\n     saw {' > '.join(shown)}\n"
            f"   moves {', '.join(f'{m.event}({m.reason})' for m in moves)}"
        )

    def _names(self, moves: Sequence[TaskEvent], found: Task | None) -> list[str]:
        field = _NAME_FIELD.get(self.profile.name, "state")
        names = [entry[field] for entry in history_as(self.profile, moves, found)]
        return [*names, GONE] if moves[-1].event is Event.DELETE else names

    async def _agrees(self, task_id: str, moves: Sequence[TaskEvent], last: str) -> None:
        """The record's own history is what the log showed; its state is the last name shown."""
        [found] = await self.engine.get([task_id])
        if found is None:
            return
        kept = (await self.engine.history(task_id)).events
        if found.state is State.UNKNOWN:
            # A store may keep the newest moves inside the record: they are lost with it.
            moves = moves[len(moves) - len(kept) :]
            assert kept
        assert [_plain(move) for move in kept[: len(moves)]] == [_plain(move) for move in moves]
        if found.state in TERMINAL and len(kept) == len(moves):
            assert state_name(self.profile, found) == last

    async def says(self, worker: WorkerProcess, state: str) -> None:
        """Wait until the worker describes itself as running, quiet or stopping."""

        async def holds() -> bool:
            found = {found.id: found.state for found in await self.engine.workers()}
            return found.get(worker.id) == state

        await until_true(holds)

    async def moves(self, task: TaskHandle[Any] | str) -> list[str]:
        """The native events of the task so far, as the log has them."""
        return [event.event.value for event in await self.events(task)]

    async def events(self, task: TaskHandle[Any] | str) -> list[TaskEvent]:
        """The task's events so far, as the log has them."""
        found: list[TaskEvent] = []
        cursor = ""
        while True:
            page = await self.engine.events(cursor)
            own = (event for event in page.events if event.task == _id(task))
            found += [event for event in own if event not in found]
            cursor = page.cursor
            if not page.events:
                return found


Provoke = Callable[[Scene], Awaitable[TaskHandle[Any] | str]]


class Arrow:
    """A row of a table of arrows.

    `words` is the arrow, "source -> target: when"; `provoke` has a worker process take it and
    answers with the task; `names` are what the profile shows of that task's whole life.
    """

    def __init__(self, words: str, provoke: Provoke, *names: str) -> None:
        self.words = words
        self.provoke = provoke
        self.names = names

    @property
    def ends(self) -> tuple[str, str]:
        source, _, target = self.words.partition(":")[0].partition("->")
        return source.strip(), target.strip()

    @property
    def is_taken(self) -> bool:
        """Whether the names have the arrow in them."""
        life = [NEW, *self.names]
        return self.ends in itertools.pairwise(life)


def missing(diagram: Iterable[str], arrows: Iterable[Arrow]) -> list[str]:
    """Arrows of the diagram that no row of the table takes."""
    return sorted(set(diagram) - {arrow.words for arrow in arrows})


def each(arrows: Iterable[Arrow]) -> dict[str, Any]:
    """Arguments of `parametrize` for a table."""
    rows = list(arrows)
    return {"argnames": "arrow", "argvalues": rows, "ids": [f"{r.words}" for r in rows]}


def _id(task: TaskHandle[Any] | str) -> str:
    return task if isinstance(task, str) else task.id


def _left(moves: Sequence[TaskEvent], shown: list[str], names: tuple[str, ...]) -> tuple[str, ...]:
    """What a log can show of a life where the moves before a damage are lost with the record: the
    names from the move on that set it aside."""
    is_lost = moves[0].event is Event.SET_ASIDE and moves[0].revision > 1
    return names[names.index(shown[0]) :] if is_lost and shown[0] in names else names


def _plain(event: TaskEvent) -> tuple[Any, ...]:
    return event.revision, event.at, event.event, event.source, event.target, event.reason
