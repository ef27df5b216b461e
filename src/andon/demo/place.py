"""The state of one demo: its folder, its store, and the number of its round.

A round is all that the demo does with a folder. Its ids and its queue carry the round, so that
`--fresh` begins another beside it and nothing is removed that a live worker still uses. All of it
is decided here, from the folder alone: the same command again finds the same tasks.
"""

import contextlib
import fcntl
import os
import sysconfig
from collections.abc import Generator
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from urllib.parse import quote

import msgspec

from andon.demo import scanning
from andon.demo.files import write_whole
from andon.demo.names import Names
from andon.model.errors import ConfigurationError
from andon.model.urls import split


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered between commands."""

    folder: str
    url: str
    number: int = 1
    cursor: str = ""  #: the event log's end when the round began


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """One folder's demo."""

    folder: Path  #: what is analysed
    home: Path  #: where the store, the list of files and the report are
    url: str
    round: Round

    @property
    def names(self) -> Names:
        """What the tasks and files of this round are called."""
        prefix = f"{_key(self.folder, self.url)}-{self.round.number}"
        return Names(folder=str(self.folder), home=str(self.home), prefix=prefix)


def source_folder(folder: str | os.PathLike[str] | None) -> Path:
    """The folder to analyse, absolute; the standard library when none is named.

    Raises `ConfigurationError` for what is no folder, has no Python file, or more than a flow may
    have tasks.
    """
    path = Path(folder or sysconfig.get_path("stdlib"))
    try:
        path = path.resolve(strict=True)
        if not path.is_dir():
            raise NotADirectoryError
        files = sum(1 for _ in islice(scanning.walk(path), scanning.MOST_FILES + 1))
        if not files:
            raise ConfigurationError(
                f"There is no Python file below {path}. Name a folder that has some."
            )
        if files > scanning.MOST_FILES:
            raise ConfigurationError(
                f"There are more than {scanning.MOST_FILES:,} Python files below {path}, and each "
                "is a task of one flow. Name a folder within it."
            )
    except FileNotFoundError:
        raise ConfigurationError(
            f"There is no folder {os.fspath(path)!r}. Name one that has Python files, or none: "
            "then it is Python's own standard library."
        ) from None
    except NotADirectoryError:
        raise ConfigurationError(
            f"{os.fspath(path)!r} is not a folder. Name the folder that it is in."
        ) from None
    return path


def home_of(folder: Path, out: str | os.PathLike[str] | None) -> Path:
    """The demo's own folder: `out`, else one below `.andon` in the current folder."""
    home = Path(out) if out is not None else Path(".andon") / f"demo-{_key(folder)}"
    home = home.absolute()
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"{str(home)!r} cannot be made ({error.strerror}). Name another folder with --out."
        ) from None
    return home


def store_in(home: Path) -> str:
    """The URL of the demo's own store."""
    return f"sqlite:///{quote(str(home / 'andon.db'))}"


def find(folder: Path, home: Path, url: str | None) -> Place:
    """The demo of this folder as it was left, or a new one; nothing is written.

    Raises `ConfigurationError` when `home` holds the demo of another folder, or the store is one
    that several processes cannot share.
    """
    kept = _read(home)
    if kept is not None and kept.folder != str(folder):
        raise ConfigurationError(
            f"{str(home)!r} holds the demo of {kept.folder}. Name another folder with --out."
        )
    chosen = url or store_in(home)
    if split(chosen).scheme == "memory":
        raise ConfigurationError(
            "The demo's workers are processes, and memory:// lives in one. Use sqlite:///file.db."
        )
    if kept is None or kept.url != chosen:
        kept = Round(folder=str(folder), url=chosen)
    return Place(folder=folder, home=home, url=chosen, round=kept)


def keep(place: Place) -> None:
    """Remember the round."""
    write_whole(place.home / "round.json", msgspec.json.encode(place.round))


def next_round(place: Place, cursor: str) -> Place:
    """The place with a new round, which begins at this end of the event log."""
    number = place.round.number + 1
    after = msgspec.structs.replace(place.round, number=number, cursor=cursor)
    return msgspec.structs.replace(place, round=after)


@contextlib.contextmanager
def held(home: Path) -> Generator[None]:
    """Be the only demo in this folder. The lock goes with the process, however it ends.

    Raises `ConfigurationError` when another demo has it.
    """
    with (home / "lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigurationError(
                f"Another demo is at work in {str(home)!r}. Wait for it, stop it, or name another "
                "folder with --out."
            ) from None
        yield


def _read(home: Path) -> Round | None:
    path = home / "round.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=Round)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigurationError(f"{str(path)!r} cannot be read: {error}. Remove it.") from None


def _key(folder: Path, url: str = "") -> str:
    # An earlier release's demo had other tasks, and its store may still be there: what this one is
    # called goes by a person of its own.
    told = os.fsencode(folder) + b"\0" + url.encode()
    return blake2b(told, digest_size=4, person=b"demo of flows").hexdigest()
