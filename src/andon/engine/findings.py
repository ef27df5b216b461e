"""The findings that the checks of the doctor return."""

from enum import StrEnum

import msgspec


class Level(StrEnum):
    """How a finding is meant."""

    OK = "ok"
    NOTE = "note"  #: worth knowing
    WRONG = "wrong"


class Finding(msgspec.Struct, frozen=True):
    """One thing found, and what to do about it."""

    level: Level
    about: str
    text: str
    todo: str = ""
