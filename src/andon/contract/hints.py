"""Hints within one process: topics, and listeners that wait for them.

A hint carries nothing and may be spurious. It wakes every listener of its topic rather than one:
only the listener knows whether it has room for what arrived, and a hint to a worker that cannot use
it would leave the task to the slow poll. Hints that come while a listener is busy are one hint, so
a thousand of them cost a listener one look.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Self

from andon.contract.topics import run_topic, task_topic

_OF_A_TASK, _OF_A_RUN = task_topic(""), run_topic("")


class HintListener:
    """A subscription; remembers hints that come between a check and the next wait."""

    def __init__(
        self, hub: "Hub", topics: Iterable[str], on_close: Callable[[], None] | None
    ) -> None:
        self._hub = hub
        self._topics = frozenset(topics)
        self._on_close = on_close
        self._hinted = False
        self._waiter: asyncio.Future[None] | None = None
        for topic in self._topics:
            hub.listeners.setdefault(topic, {})[self] = None

    def notify(self) -> None:
        """Receive a hint."""
        self._hinted = True
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, timeout: float | None) -> bool:
        assert self._waiter is None, "one listener has one waiter"
        if not self._hinted:
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            alarm = None if timeout is None else loop.call_later(timeout, self._wake)
            try:
                await self._waiter
            finally:
                self._waiter = None
                if alarm is not None:
                    alarm.cancel()
        hinted, self._hinted = self._hinted, False
        return hinted

    def close(self) -> None:
        for topic in self._topics:
            listeners = self._hub.listeners.get(topic)
            if listeners is not None:
                listeners.pop(self, None)
                if not listeners:
                    del self._hub.listeners[topic]
        if self._waiter is not None:
            self._wake()
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Hub:
    """All topics of one store, as seen in this process. Idle topics cost nothing."""

    def __init__(self) -> None:
        self.listeners: dict[str, dict[HintListener, None]] = {}

    def hint(self, *topics: str) -> None:
        """Wake the listeners of any of the topics."""
        for topic in topics:
            for listener in tuple(self.listeners.get(topic, ())):
                listener.notify()

    def hint_all(
        self, topics: Iterable[str], moved: Sequence[str] = (), begun: Sequence[str] = ()
    ) -> None:
        """Wake the listeners of any of the topics, of one of the tasks that moved, or of a run of
        one of those if it began or progressed."""
        hinted = set(topics)
        if moved:
            hinted.update(self._topics(_OF_A_TASK, moved))
        if begun:
            hinted.update(self._topics(_OF_A_RUN, begun))
        self.hint(*self.listeners.keys() & hinted)

    def _topics(self, kind: str, tasks: Sequence[str]) -> Iterable[str]:
        """Topics of a kind, made only if somebody listens to any of them."""
        if any(topic.startswith(kind) for topic in self.listeners):
            return [kind + task for task in tasks]
        return ()

    def listen(
        self, topics: Iterable[str], *, on_close: Callable[[], None] | None = None
    ) -> HintListener:
        """Subscribe from now on; `on_close` is called once, when the subscription ends."""
        return HintListener(self, topics, on_close)

    def close(self) -> None:
        """End every subscription; listeners stop waiting."""
        everyone = {one for listeners in self.listeners.values() for one in listeners}
        for listener in everyone:
            listener.close()
