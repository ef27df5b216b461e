"""Messages under way to one sink: in order within a lane (a task, or a group), and lanes beside one
another. A message that cannot be delivered now is due again after a pause of its own, and delays
only its own lane."""

import random
from collections import deque
from collections.abc import Iterable, Iterator

from andon.lifecycle.backoff import ExponentialBackoff
from andon.service.taskcluster.messages.exchanges import Message


class Trial:
    """The tries of a message that could not be delivered at once. Times are of a clock that only
    goes forward, s."""

    __slots__ = ("began", "due_at", "refusals", "tries")

    def __init__(self, now: float) -> None:
        self.began = now
        self.due_at = now
        self.tries = 0
        self.refusals = 0


class Lane:
    """Messages of one task or group, and the trial of the next one, if it has been tried."""

    def __init__(self) -> None:
        self.messages: deque[Message] = deque()
        self.trial: Trial | None = None

    def __bool__(self) -> bool:
        return bool(self.messages)

    @property
    def due_at(self) -> float:
        """When the next one may be tried; 0 if it was not tried yet."""
        return 0.0 if self.trial is None else self.trial.due_at

    def tried(self, now: float) -> Trial:
        """A try of the next one failed."""
        if self.trial is None:
            self.trial = Trial(now)
        self.trial.tries += 1
        return self.trial

    def done(self) -> None:
        """The next one is delivered, or skipped."""
        self.messages.popleft()
        self.trial = None


class Lanes:
    """All that is under way."""

    def __init__(self, messages: Iterable[Message], pauses: ExponentialBackoff) -> None:
        self._lanes: dict[str, Lane] = {}
        self._pauses = pauses
        self._rng = random.Random()
        self.add(messages)

    def add(self, messages: Iterable[Message]) -> None:
        """What comes after the messages that are here."""
        for message in messages:
            self._lanes.setdefault(message.lane, Lane()).messages.append(message)

    def __len__(self) -> int:
        """Lanes that are not done."""
        return sum(map(bool, self._lanes.values()))

    def due(self, now: float) -> Iterator[Lane]:
        """Lanes that may go on. Those whose next message failed come last, so that they delay no
        other."""
        self._lanes = {name: lane for name, lane in self._lanes.items() if lane}
        ready = (lane for lane in self._lanes.values() if lane.due_at <= now)
        return iter(sorted(ready, key=lambda lane: lane.due_at))

    def next_due(self) -> float:
        """When the first of them may go on; there is one."""
        return min(lane.due_at for lane in self._lanes.values() if lane)

    def put_off(self, trial: Trial, now: float, at_least: float = 0.0) -> None:
        """A message is due again after a pause that grows with its tries, s."""
        trial.due_at = now + max(self._pauses.pause(trial.tries, self._rng), at_least)
