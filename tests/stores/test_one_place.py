"""What a store writes of a record when it is new, claimed or moved stands in one place of the
store, also where it has several ways to do so."""

import re
from pathlib import Path

import pytest

import andon.stores
from andon.stores.kit.templates import UnknownConstant
from andon.stores.redis import scripts

STORES = Path(andon.stores.__file__).parent
REDIS, POSTGRES = STORES / "redis" / "lua", STORES / "postgres" / "sql" / "functions"

SETS_ASIDE = {"records.lua", "commit.sql"}
"""They take a damaged record out of every index, which is none of the three."""

RESTORES = {"restore.sql"}


def holding(folder: Path, what: str) -> set[str]:
    """The files of a folder in which this stands."""
    return {path.name for path in folder.iterdir() if re.search(what, path.read_text("utf-8"))}


def test_on_redis_the_state_of_a_record_is_written_in_one_file() -> None:
    assert holding(REDIS, r"'HSET'[^\n]*'st',") - SETS_ASIDE == {"writing.lua"}


def test_on_postgres_columns_of_tasks_are_listed_in_one_file() -> None:
    assert not holding(POSTGRES, r"INSERT INTO (?:\{schema\}\.)?task \((?!\{\{)") - RESTORES
    assert not holding(POSTGRES, r"UPDATE (?:\{schema\}\.)?task (?:\w+ )?SET state =") - SETS_ASIDE


def test_a_call_in_a_script_of_what_does_not_exist_is_refused() -> None:
    parts = {"put_new": ("task", "  call('HSET', task)\n")}
    assert "local task = 'a'" in scripts._in_place("{{put_new('a')}}", parts)
    with pytest.raises(UnknownConstant, match="put_now"):
        scripts._in_place("{{put_now('a')}}", parts)
    assert scripts._in_place("{{few_lanes}}", parts) == "{{few_lanes}}"  # a constant
