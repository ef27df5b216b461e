"""What belongs to one round of the demo, by name: its tasks, its queue, its files.

All of it follows from three words, so the demo, its tasks and its ledger find the same things
without telling one another, also after a crash.
"""

from pathlib import Path

import msgspec


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """The names of one round. A round has several *runs* of the flow: the first is of all files,
    each later one of those that have changed; they are counted from 1."""

    folder: str  #: what is analysed
    home: str  #: where the lists of files, what was found and the report are
    prefix: str  #: what the ids of the round begin with

    @property
    def queue(self) -> str:
        """The queue of all its tasks."""
        return f"demo-{self.prefix}"

    @property
    def schedule(self) -> str:
        """The schedule that watches the folder; its occurrences have the name before their time."""
        return f"{self.prefix}-watch"

    def flow(self, run: int) -> str:
        """The flow of a run; its analyses are `FLOW:1`, `FLOW:2` and so on."""
        return f"{self.prefix}-run{run}"

    def scan(self, run: int) -> str:
        """The first task of that flow."""
        return f"{self.flow(run)}:0"

    def analysis(self, run: int, place: int) -> str:
        """The task that analyses the file at this place, from 0, of the run's list."""
        return f"{self.flow(run)}:{place + 1}"

    def report_of(self, run: int, files: int) -> str:
        """The last task of the flow, of which so many files are analysed."""
        return f"{self.flow(run)}:{files + 1}"

    def listing(self, run: int) -> Path:
        """The list of files that a run began with."""
        return Path(self.home, f"files-{self.prefix}-{run}.json")

    def findings(self, run: int) -> Path:
        """What is known of all files after a run."""
        return Path(self.home, f"found-{self.prefix}-{run}.json")

    @property
    def report(self) -> Path:
        """The report, which each run writes anew."""
        return Path(self.home, "report.md")
