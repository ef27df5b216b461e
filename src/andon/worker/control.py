"""What a handler raises to say how its run ends: `Snooze`, `Retry`, `Terminate` and `Stopped`."""

from contextlib import suppress
from typing import cast

from andon.lifecycle.bounds import LONGEST_DELAY_MS

_LONGEST_S = LONGEST_DELAY_MS // 1000
_MOST_SHOWN = 80
_MOST_GROUPS = 100


class Snooze(Exception):
    """Raised by a handler: start this task again in `seconds`; costs no try.

    Raises `ValueError` for what is negative, no number, or more than a hundred years.

    Example:
        from andon import Snooze

        @app.task
        async def export(day: str) -> None:
            if day == "today":
                raise Snooze(3600)  # not over yet
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = checked_seconds(seconds, "A snooze")  #: until the task may start again
        super().__init__(f"again in {seconds} s")


class Retry(Exception):
    """Raised by a handler: this run failed, try again while the budget lasts.

    `delay` in seconds replaces the policy's delay; None keeps it. Raises `ValueError` for what is
    negative, no number, or more than a hundred years.

    Example:
        from andon import Retry

        @app.task
        async def fetch(url: str) -> None:
            raise Retry(delay=30, message="the server asked us to wait")
    """

    def __init__(self, delay: float | None = None, message: str = "") -> None:
        super().__init__(message or "The handler asked for a retry.")
        self.delay = None if delay is None else checked_seconds(delay, "The delay of a retry")
        """Seconds; None: as the policy says."""


class Terminate(Exception):
    """Raised by a handler: give this task up, whatever its budget.

    Example:
        from andon import Terminate

        @app.task
        async def deliver(address: str) -> None:
            if not address:
                raise Terminate("there is no address")
    """

    def __init__(self, message: str = "The handler gave the task up.") -> None:
        super().__init__(message)


class Stopped(BaseException):
    """Raised by `raise_if_cancelled` in a handler that was told to stop.

    Not an `Exception`, so that a handler's own `except Exception` does not swallow it.

    Example:
        from andon import Context
        from andon.worker.control import Stopped

        @app.task
        def crunch(ctx: Context, rows: int) -> None:
            try:
                for _ in range(rows):
                    ctx.raise_if_cancelled()
            except Stopped:
                print("tidying up")
                raise
    """


def control_in(error: BaseException) -> BaseException:
    """What a handler asked for by raising: the control exception (`Snooze`, `Retry`, `Terminate`,
    `Stopped`) that an exception group has in it and nothing else, in however many groups, as
    `asyncio.TaskGroup` raises it. Any other error is given back as it is."""
    inner = error
    for _ in range(_MOST_GROUPS):
        if not isinstance(inner, BaseExceptionGroup):
            break
        within = cast("BaseExceptionGroup[BaseException]", inner).exceptions
        if len(within) != 1:
            break
        inner = within[0]
    return inner if isinstance(inner, _CONTROL) else error


_CONTROL = (Snooze, Retry, Terminate, Stopped)


def checked_seconds(value: float, what: str) -> float:
    """The seconds that a handler asks its task to wait. Raises `ValueError` for what cannot be;
    `what` names it."""
    seconds = -1.0
    if not isinstance(value, str | bytes):  # what `float` reads numbers in
        with suppress(TypeError, ValueError, ArithmeticError):  # the last for huge integers
            seconds = float(value)
    if not 0 <= seconds <= _LONGEST_S:
        raise ValueError(
            f"{what} takes seconds, from 0 to {_LONGEST_S} (a hundred years), got {_shown(value)}."
        )
    return seconds


def _shown(value: object) -> str:
    try:
        return repr(value)[:_MOST_SHOWN]
    except Exception:  # integers of too many digits, and whatever objects do
        return f"a {type(value).__name__}"
