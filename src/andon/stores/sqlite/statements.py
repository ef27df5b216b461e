"""SQL by name: each file in `sql/` holds statements headed `-- name: x`, read once at import. They
may name constants (`stores.kit.templates`); the scripts of the schema are as they were written."""

from importlib.resources import files

from andon.stores.kit import templates


def _read(name: str) -> str:
    return files("andon.stores.sqlite").joinpath("sql", name).read_text(encoding="utf-8")


class Statements:
    """The statements of one file, as attributes."""

    def __init__(self, file: str) -> None:
        text = templates.sql(_read(f"{file}.sql"), f"sqlite/sql/{file}.sql")
        self.__dict__.update(
            {
                block.partition("\n")[0].strip(): block.partition("\n")[2].strip()
                for block in text.split("-- name: ")[1:]
            }
        )

    def __getattr__(self, name: str) -> str:
        raise AttributeError(f"no statement is named {name!r}")


LIFE = Statements("life")
LANES = Statements("lanes")
EDGES = Statements("edges")
READING = Statements("reading")
CONFIG = Statements("config")
DAILY = Statements("daily")


def indexes() -> str:
    """The script that makes what is missing of the later indexes."""
    return _read("indexes.sql")


def schema(version: int) -> str:
    """The script that takes the schema from `version` - 1 to `version`."""
    return _read(f"schema_{version:04d}.sql")
