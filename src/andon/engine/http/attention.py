"""Hints and watched tasks of one process, over few streams from the service.

The subjects change all the time, and those of a stream are fixed when it begins. So new subjects
get a stream of their own, which also takes over the subjects of smaller streams, and these end: n
subjects take at most log n streams and each moves at most log n times. A stream counts once the
service says that it is subscribed; its listeners are then hinted once, because what they read
before may have been too early. A stream that breaks is begun anew, with the same hint.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Iterable

from andon.contract.hints import HintListener, Hub
from andon.engine.ending import Closed
from andon.engine.http.errors import error_of, problem_of
from andon.engine.http.transport import Transport
from andon.engine.http.wire import Attention as Subjects
from andon.engine.http.wire import Frame, decode_frame, encode
from andon.lifecycle.backoff import ExponentialBackoff
from andon.lifecycle.births import is_over
from andon.model.errors import AccessError, AndonError
from andon.model.task import Task

_BACKOFF = ExponentialBackoff(0.1, 5.0)

_Subject = tuple[str, str]  # ("topic", its name) or ("task", its id)


class _Stream:
    """One stream: its subjects, and the task that reads it."""

    def __init__(self, subjects: set[_Subject]) -> None:
        self.subjects = subjects
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.reader: asyncio.Task[None] | None = None


class Attention:
    """Keeps the streams for all subjects that this process listens to."""

    def __init__(self, transport: Transport, rng: random.Random) -> None:
        self._transport = transport
        self._rng = rng
        self._hub = Hub()
        self._wanted: dict[_Subject, int] = {}
        self._watchers: dict[str, dict[asyncio.Queue[Frame | None], None]] = {}
        self._newest: dict[str, Frame] = {}
        self._streams: list[_Stream] = []
        self._changed = asyncio.Event()
        self._tending: asyncio.Task[None] | None = None
        self._failures = 0
        self._closed = False

    # --- what is listened for ---

    def listen(self, topics: Iterable[str]) -> HintListener:
        """Subscribe to hints, from soon on: the first hint says that it has begun."""
        subjects = [("topic", topic) for topic in topics]
        self._want(subjects)
        return self._hub.listen(
            [topic for _, topic in subjects], on_close=lambda: self._unwant(subjects)
        )

    async def watch(self, task_id: str) -> AsyncIterator[Task]:
        """The task now, and after each change, until it has ended."""
        if self._closed:
            raise Closed(f"task {task_id}")
        queue: asyncio.Queue[Frame | None] = asyncio.Queue()  # None: it is closed
        self._watchers.setdefault(task_id, {})[queue] = None
        subject = ("task", task_id)
        known = self._newest.get(task_id)
        if known is not None:  # another watcher has it already, so no stream would send it again
            queue.put_nowait(known)
        self._want([subject])
        last: Task | None = None
        try:
            while True:
                frame = await queue.get()
                if frame is None:
                    raise Closed(f"task {task_id}")
                if frame.record is not None and _differs(frame.record, last):
                    last = frame.record
                    yield last
                    if is_over(last.status):
                        return
                if frame.error is not None:
                    raise error_of(frame.error)
                if frame.done:
                    return
        finally:
            watchers = self._watchers[task_id]
            watchers.pop(queue, None)
            if not watchers:
                del self._watchers[task_id]
                self._newest.pop(task_id, None)
            self._unwant([subject])

    async def close(self) -> None:
        """End every stream; listeners stop waiting."""
        self._closed = True
        self._hub.close()
        for watchers in self._watchers.values():
            for queue in watchers:
                queue.put_nowait(None)
        tasks = [stream.reader for stream in self._streams if stream.reader is not None]
        if self._tending is not None:
            tasks.append(self._tending)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _want(self, subjects: Iterable[_Subject]) -> None:
        for subject in subjects:
            self._wanted[subject] = self._wanted.get(subject, 0) + 1
        self._changed.set()
        if self._tending is None and not self._closed:
            self._tending = asyncio.ensure_future(self._tend())

    def _unwant(self, subjects: Iterable[_Subject]) -> None:
        for subject in subjects:
            left = self._wanted.get(subject, 0) - 1
            if left > 0:
                self._wanted[subject] = left
            else:
                self._wanted.pop(subject, None)
                for stream in self._streams:  # wanted again, it has to be sent again
                    stream.subjects.discard(subject)
        self._changed.set()

    # --- the streams ---

    async def _tend(self) -> None:
        """Begin a stream for the subjects that have none, and end the streams that are not
        needed."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._failures:
                await asyncio.sleep(_BACKOFF.pause(self._failures, self._rng))
            for stream in [s for s in self._streams if not s.subjects]:
                await self._end(stream)
            covered = {subject for stream in self._streams for subject in stream.subjects}
            new = self._wanted.keys() - covered
            if new:
                await self._begin(set(new))

    async def _begin(self, subjects: set[_Subject]) -> None:
        absorbed: list[_Stream] = []
        for stream in sorted(self._streams, key=lambda s: len(s.subjects)):
            if len(stream.subjects) > len(subjects):
                break
            absorbed.append(stream)
            subjects |= stream.subjects
        stream = _Stream(subjects)
        stream.reader = asyncio.ensure_future(self._read(stream))
        self._streams.append(stream)
        await asyncio.wait({stream.ready, stream.reader}, return_when=asyncio.FIRST_COMPLETED)
        for old in absorbed:
            await self._end(old)

    async def _end(self, stream: _Stream) -> None:
        if stream in self._streams:
            self._streams.remove(stream)
        if stream.reader is not None:
            stream.reader.cancel()
            await asyncio.wait({stream.reader})

    async def _read(self, stream: _Stream) -> None:
        topics = [name for kind, name in stream.subjects if kind == "topic"]
        tasks = [name for kind, name in stream.subjects if kind == "task"]
        try:
            async with self._transport.stream("attend", encode(Subjects(topics, tasks))) as lines:
                async for line in lines:
                    frame = decode_frame(line)
                    if frame.ready:
                        self._failures = 0
                        if not stream.ready.done():
                            stream.ready.set_result(None)
                        self._hub.hint_all(topics)
                    self._take(frame)
        except AccessError as error:
            # Only another token changes that: watchers get the error, listeners poll slowly.
            self._refuse(tasks, error)
            await asyncio.Event().wait()
        except AndonError:
            pass
        # It broke, or the service ended it: begin anew, in a while.
        self._failures += 1
        with contextlib.suppress(ValueError):
            self._streams.remove(stream)
        self._changed.set()

    def _take(self, frame: Frame) -> None:
        if frame.topics:
            self._hub.hint_all(frame.topics)
        if frame.task:
            watchers = self._watchers.get(frame.task, {})
            if watchers and frame.record is not None:
                self._newest[frame.task] = frame
            for queue in watchers:
                queue.put_nowait(frame)

    def _refuse(self, tasks: Iterable[str], error: AndonError) -> None:
        for task_id in tasks:
            self._take(Frame(task=task_id, error=problem_of(error)))


def _differs(task: Task, last: Task | None) -> bool:
    return last is None or (task.status.revision != last.status.revision or task.cell != last.cell)
