"""The tokens of the runs that one engine claimed. Pure.

Runs are known by their random id while they hold their task, and by task and number for what they
leave behind, of which the last comes a moment after their end.
"""

from collections import OrderedDict

from andon.model.task import Task

_MOST_ENDED = 10_000
"""Tokens of ended runs that are remembered: a second's worth of the fastest drain, twice."""

_Place = tuple[str, int]  # task id and number of the run


class RunTokens:
    """Tokens by run id, and by task and number."""

    def __init__(self) -> None:
        self._tokens: dict[str, str] = {}
        self._places: dict[str, _Place] = {}
        self._runs: dict[_Place, str] = {}
        self._ended: OrderedDict[_Place, tuple[str, str]] = OrderedDict()  # run and token

    def __contains__(self, run: str) -> bool:
        return run in self._tokens

    def __getitem__(self, run: str) -> str:
        return self._tokens[run]

    def get(self, run: str) -> str | None:
        """The token of a run that has not ended."""
        return self._tokens.get(run)

    def keep(self, task: Task, token: str) -> None:
        """The token of the run that has just been opened for a task."""
        run, place = task.status.run, (task.id, task.status.runs[-1].number)
        self._tokens[run] = token
        self._places[run] = place
        self._runs[place] = run

    def ended(self, run: str) -> None:
        """The run has ended, or is lost. Called in the thread that keeps leases, too."""
        token, place = self._tokens.get(run), self._places.pop(run, None)
        if token is None or place is None:
            return
        self._ended[place] = (run, token)
        if len(self._ended) > _MOST_ENDED:
            self._ended.popitem(last=False)
        self._runs.pop(place, None)
        self._tokens.pop(run, None)

    def at(self, task: str, number: int) -> str | None:
        """The token of a run by its number, of one that has ended lately too."""
        place = (task, number)
        token = self._tokens.get(self._runs.get(place, ""))
        return self._ended.get(place, (None, None))[1] if token is None else token

    def of(self, task: Task) -> str | None:
        """The token of the run that a record is of, of one that has ended lately too."""
        run = task.status.run
        token = self._tokens.get(run)
        if token is None and task.status.runs:
            ended, kept = self._ended.get((task.id, task.status.runs[-1].number), (None, None))
            token = kept if ended == run else None
        return token
