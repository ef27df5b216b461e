"""What belongs to one round of the demo, by name: its tasks, its queue, its files.

All of it follows from three words, so the demo, its tasks and its ledger find the same things
without exchanging them, also after a crash.
"""

from pathlib import Path

import msgspec


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """The names of one round. A round has several flows: the first is of all files, each
    later one of those that have changed; they are numbered from 1."""

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

    def flow(self, number: int) -> str:
        """A flow; its analyses are `FLOW:1`, `FLOW:2` and so on."""
        return f"{self.prefix}-flow{number}"

    def scan(self, number: int) -> str:
        """The first task of a flow."""
        return f"{self.flow(number)}:0"

    def analysis(self, number: int, place: int) -> str:
        """The task that analyses the file at this place, from 0, of the flow's list."""
        return f"{self.flow(number)}:{place + 1}"

    def report_of(self, number: int, files: int) -> str:
        """The last task of a flow, of which so many files are analysed."""
        return f"{self.flow(number)}:{files + 1}"

    def listing(self, number: int) -> Path:
        """The list of files that a flow began with."""
        return Path(self.home, f"files-{self.prefix}-{number}.json")

    def findings(self, number: int) -> Path:
        """What is known of all files after a flow."""
        return Path(self.home, f"found-{self.prefix}-{number}.json")

    @property
    def report(self) -> Path:
        """The report, which each flow writes anew."""
        return Path(self.home, "report.md")
