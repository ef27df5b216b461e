"""The state of the demo at one moment, for the board and the plain lines."""

from collections import Counter

import msgspec

from andon.demo.place import Place
from andon.demo.tally import Tally
from andon.model.fleet import WorkerInfo
from andon.model.words import TERMINAL, State


class View(msgspec.Struct, kw_only=True):
    """The demo as it stands. Changed by `watching`, read by the board and by the plain lines."""

    place: Place
    tally: Tally
    started: float  #: monotonic seconds
    flows: dict[int, tuple[str, ...]] = {}  #: the files of each, by its number
    paths: dict[str, str] = {}  #: task id to file
    workers: tuple[WorkerInfo, ...] = ()
    pids: tuple[int, ...] = ()  #: of the demo's own worker processes
    replaced: int = 0  #: workers that died and were replaced
    doing: str = ""  #: the progress message of a scan or a report
    resumed: int = 0  #: tasks that had ended before this command
    now: int = 0  #: the store's clock, ms

    def add_flow(self, number: int, files: tuple[str, ...]) -> None:
        """A flow was submitted."""
        names = self.place.names
        self.flows[number] = files
        self.paths.update((names.analysis(number, at), path) for at, path in enumerate(files))
        self.paths[names.scan(number)] = "scan"
        self.paths[self.report(number)] = "report"

    @property
    def newest(self) -> int:
        """The newest flow; 0 before the first."""
        return max(self.flows, default=0)

    @property
    def fired(self) -> int:
        """How many occurrences the schedule has borne."""
        return self.counts(self.place.names.schedule).total()

    def report(self, number: int) -> str:
        """The id of a flow's last task."""
        return self.place.names.report_of(number, len(self.flows[number]))

    def state(self, task: str) -> State | None:
        """Where a task is."""
        return self.tally.states.get(task)

    def ended(self, number: int) -> int:
        """Tasks of a flow that have ended."""
        counts = self.counts(self.place.names.flow(number))
        return sum(counts[state] for state in TERMINAL)

    def total(self, number: int) -> int:
        """Tasks of a flow: its files, the scan and the report."""
        return len(self.flows[number]) + 2

    def counts(self, group: str) -> Counter[State]:
        """Tasks by state of a flow or a schedule."""
        return self.tally.groups.get(group) or Counter()
