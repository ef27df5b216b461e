"""SQL by name: `sql/calls.sql` and `sql/reading.sql` hold statements headed `-- name: x`, and
`NNNN_subject.sql` the changes that each version of the schema made to its tables, and
`indexes.sql` indexes that belong to no version. `functions/` has its functions, which every new
version makes anew. `{schema}` stands for the namespace, quoted, and `{{name}}` for a constant
(`stores.kit.templates`) in all but the changes to tables, which stay as they were written. In
functions also `{{change_fields}}` stands for the fields of a type (`composites`), and `{{x}}` for a
part that they share (`sql/shared.sql`)."""

import re
from importlib.resources import files

from andon.stores.kit import templates
from andon.stores.postgres import composites

_SETTINGS = (
    "SET search_path = {schema}, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off "
    "SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = on SET jit = off "
    "SET plan_cache_mode = force_generic_plan"
)


_PART = re.compile(r"\{(\w+)\}")
"""The place where a statement includes another of its file, by name."""


class Statements:
    """The statements of one file for one schema, as attributes."""

    def __init__(self, file: str, schema: str) -> None:
        text = templates.sql(_read(f"{file}.sql"), f"postgres/sql/{file}.sql")
        found = _by_name(text.replace("{schema}", quoted(schema)))
        self._by_name = {
            name: _PART.sub(lambda part: found[part[1]], statement)
            for name, statement in found.items()
        }

    def __getattr__(self, name: str) -> str:
        try:
            return self._by_name[name]
        except KeyError:
            raise AttributeError(f"no statement is named {name!r}") from None


def quoted(schema: str) -> str:
    """The schema's name as SQL; `location` refuses names that would need escaping."""
    return f'"{schema}"'


def migrations() -> dict[int, list[str]]:
    """The scripts of each schema version, in their order, with their placeholders."""
    found: dict[int, list[str]] = {}
    folder = files("andon.stores.postgres").joinpath("sql")
    for name in sorted(entry.name for entry in folder.iterdir() if entry.name[:4].isdigit()):
        found.setdefault(int(name[:4]), []).append(_read(name))
    return found


def indexes() -> str:
    """The script that makes what is missing of the later indexes."""
    return _read("indexes.sql")


def functions() -> list[str]:
    """The scripts that make the functions, with their placeholders."""
    folder = files("andon.stores.postgres").joinpath("sql", "functions")
    shared = _by_name(_read("shared.sql")) | {"change_fields": composites.CHANGE.definition}
    scripts: list[str] = []
    for name in sorted(entry.name for entry in folder.iterdir()):
        script = _read("functions", name)
        for part, text in shared.items():
            script = script.replace(f"{{{{{part}}}}}", text)
        scripts.append(templates.sql(script, f"postgres/sql/functions/{name}"))
    return scripts


def function_names(script: str) -> list[str]:
    """Names of the functions and procedures that a script makes."""
    return re.findall(r"^CREATE (?:FUNCTION|PROCEDURE) (\w+)\(", script, re.MULTILINE)


def filled(script: str, schema: str) -> str:
    """A script for one schema."""
    return script.replace("{settings}", _SETTINGS).replace("{schema}", quoted(schema))


_COMMENT = re.compile(r"^-- (?!name: ).*\n", re.MULTILINE)


def _by_name(text: str) -> dict[str, str]:
    """The blocks of a file, without the comments between them."""
    blocks = (block.partition("\n") for block in _COMMENT.sub("", text).split("-- name: ")[1:])
    return {name.strip(): block.strip() for name, _, block in blocks}


def _read(*path: str) -> str:
    return files("andon.stores.postgres").joinpath("sql", *path).read_text(encoding="utf-8")
