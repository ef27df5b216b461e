"""The one file that the demo changes itself, so that there is a change to be found.

It is in a folder of the demo's own, never in the one that is analysed. Hidden folders are not
walked, so its path is that of no file there.
"""

from pathlib import Path

from andon.demo.files import write_whole

PATH = ".scratch/changing.py"
"""Below the demo's home, and what it is called among the files of the folder."""

_FIRST = b'''"""Written by the demo, which adds a function after its first report."""


def first() -> str:
    """Was there at the first flow."""
    return "first"
'''

_ADDED = b'''

def second() -> str:
    """Was added after the first report."""
    return "second"
'''


def begin(home: Path) -> None:
    """Have the file as it is at first; one that is so already is not touched."""
    if not (home / PATH).exists() or has_changed(home):
        write_whole(home / PATH, _FIRST)


def change(home: Path) -> None:
    """Add a function to it."""
    write_whole(home / PATH, _FIRST + _ADDED)


def has_changed(home: Path) -> bool:
    """Whether it is not as it was at first. Raises `FileNotFoundError`."""
    return (home / PATH).read_bytes() != _FIRST
