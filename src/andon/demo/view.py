"""What there is to see at one moment, put together for whoever draws it."""

import msgspec

from andon.demo.place import Place
from andon.demo.tally import Tally
from andon.model.fleet import WorkerInfo


class View(msgspec.Struct, kw_only=True):
    """The demo as it stands. Changed by `run`, read by the board and by the plain lines."""

    place: Place
    tally: Tally
    started: float  #: monotonic seconds
    paths: dict[str, str] = {}  #: task id to file
    workers: tuple[WorkerInfo, ...] = ()
    pids: tuple[int, ...] = ()  #: of the demo's own worker processes
    replaced: int = 0  #: workers that died and were replaced
    doing: str = ""  #: what the scan or the report says of itself
    resumed: int = 0  #: tasks that had ended before this command
    now: int = 0  #: the store's clock, ms

    @property
    def total(self) -> int:
        """Tasks there will be: the files, the scan and the report."""
        return max(len(self.paths) + 2, self.tally.total)
