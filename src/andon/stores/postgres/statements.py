"""SQL by name: `sql/calls.sql` and `sql/reading.sql` hold statements headed `-- name: x`, and
`NNNN_subject.sql` the migrations. `{schema}` stands for the namespace, quoted."""

from importlib.resources import files

_SETTINGS = (
    "SET search_path = {schema}, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off "
    "SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = on SET jit = off "
    "SET plan_cache_mode = force_generic_plan"
)


class Statements:
    """The statements of one file for one schema, as attributes."""

    def __init__(self, file: str, schema: str) -> None:
        text = _read(f"{file}.sql").replace("{schema}", quoted(schema))
        self._by_name = {
            block.partition("\n")[0].strip(): block.partition("\n")[2].strip()
            for block in text.split("-- name: ")[1:]
        }

    def __getattr__(self, name: str) -> str:
        try:
            return self._by_name[name]
        except KeyError:
            raise AttributeError(f"no statement is named {name!r}") from None


def quoted(schema: str) -> str:
    """The schema's name as SQL; `location` lets through nothing that would need more."""
    return f'"{schema}"'


def migrations() -> dict[int, list[str]]:
    """The scripts of each schema version, in their order, with their placeholders."""
    found: dict[int, list[str]] = {}
    folder = files("andon.stores.postgres").joinpath("sql")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name[:4].isdigit())
    for name in sorted(names, key=_place):
        found.setdefault(int(name[:4]), []).append(_read(name))
    return found


def filled(script: str, schema: str) -> str:
    """A script for one schema."""
    return script.replace("{settings}", _SETTINGS).replace("{schema}", quoted(schema))


def _place(name: str) -> tuple[int, bool, str]:
    """Tables come before the functions that name them."""
    return int(name[:4]), "tables" not in name, name


def _read(name: str) -> str:
    return files("andon.stores.postgres").joinpath("sql", name).read_text(encoding="utf-8")
