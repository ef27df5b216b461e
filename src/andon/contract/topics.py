"""The topics of hints, and the interface of a listener."""

from typing import Protocol, Self

TIMER_TOPIC = "timer"  #: hinted when a timer was set that is due within SLOW_POLL_S
EVENTS_TOPIC = "events"  #: hinted when events were written
CONFIG_TOPIC = "config"  #: hinted when queue or type configuration changed


class Listener(Protocol):
    """A subscription to topics. Hints may be lost: check, then wait, and poll slowly besides."""

    async def wait(self, timeout: float | None) -> bool:
        """Wait until hinted (True) or `timeout` seconds have passed (False)."""
        ...

    def notify(self) -> None:
        """Wake the listener as a hint does."""
        ...

    def close(self) -> None:
        """End the subscription."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


def ready_topic(queue: str) -> str:
    """Hinted when the queue got something to claim."""
    return f"ready:{queue}"


def control_topic(worker: str) -> str:
    """Hinted when a run of this worker was asked to cancel or has lost its lease."""
    return f"control:{worker}"


def task_topic(task_id: str) -> str:
    """Hinted when this task moved, but for a claim."""
    return f"task:{task_id}"


def run_topic(task_id: str) -> str:
    """Hinted when a run of this task began, by a claim, or reported progress: most waiters of a
    task wait for its end, and are not woken by that."""
    return f"run:{task_id}"
