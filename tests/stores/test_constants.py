"""Numbers and lists that SQL, Lua and Python share stand in one module, and nowhere else."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import andon.stores
from andon.lifecycle import constants
from andon.lifecycle.constants import STATEMENT_CONSTANTS
from andon.model.words import LIVE, WAITS_FOR_TIME
from andon.stores.kit import templates

STORES = Path(andon.stores.__file__).parent

SHARED_MS = {
    constants.SUBMIT_WINDOW_MS,
    constants.NEAR_TIMER_MS,
    constants.DAY_MS,
    constants.CLAIM_KEPT_MS,
}
"""Those that mean nothing else anywhere."""

CHANGES_TO_TABLES = re.compile(r"^(\d{4}_.*|schema_\d{4}|indexes)\.sql$")
"""Scripts that stay as they were written, whatever becomes of the constants."""

LIVE_NAME = "|".join(state.value for state in LIVE)
TIMED_NAME = "|".join(state.value for state in WAITS_FOR_TIME)
LIST_OF_STATES = re.compile(
    rf"(?:'(?:{LIVE_NAME})',?\s*){{3}}|(?:\b(?:{LIVE_NAME}) = true,?\s*){{3}}"
    rf"|(?:'(?:{TIMED_NAME})'[,\s]*(?:or \w+ == )?){{2}}|(?:\b(?:{TIMED_NAME}) = true,?\s*){{2}}"
)


def texts() -> Iterator[tuple[str, str]]:
    """SQL and Lua without comments, by the path of each file."""
    for path in sorted([*STORES.rglob("*.sql"), *STORES.rglob("*.lua")]):
        if not CHANGES_TO_TABLES.match(path.name):
            text = path.read_text(encoding="utf-8")
            yield str(path.relative_to(STORES)), re.sub(r"--.*$", "", text, flags=re.MULTILINE)


def shared_numbers_in(text: str) -> list[str]:
    return [n for n in re.findall(r"\b\d+\b", text) if int(n) in SHARED_MS]


def test_sql_and_lua_name_shared_numbers() -> None:
    written = {file: found for file, text in texts() if (found := shared_numbers_in(text))}
    assert not written, "write {{the_name}} of the constant instead (andon.lifecycle.constants)"


def test_sql_and_lua_name_the_lists_of_states() -> None:
    written = {file: found for file, text in texts() if (found := LIST_OF_STATES.findall(text))}
    assert not written, "write {{live_states}} or {{waits_for_time}} instead"


def test_the_checks_of_texts_find_what_they_look_for() -> None:
    assert shared_numbers_in("WHERE s.at > t - 600000 OR s.at > now + 5000") == ["600000", "5000"]
    assert LIST_OF_STATES.search("state IN ('blocked', 'scheduled', 'retry')")
    assert LIST_OF_STATES.search("{pending = true, active = true, blocked = true}")
    assert LIST_OF_STATES.search("state IN ('scheduled', 'retry')")
    assert LIST_OF_STATES.search("if state == 'retry' or state == 'scheduled' then")
    assert not LIST_OF_STATES.search("moved(queue, 'active', 'pending')")


def test_python_of_stores_names_shared_numbers() -> None:
    written = [
        f"{path.relative_to(STORES)}:{node.lineno}: {node.value}"
        for path in sorted(STORES.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in SHARED_MS
    ]
    assert not written, "import it from andon.lifecycle.constants"


@pytest.mark.parametrize("language", [templates.sql, templates.lua])
def test_a_text_that_names_an_unknown_constant_is_refused_with_its_file(language) -> None:
    with pytest.raises(templates.UnknownConstant) as refused:
        language("a {{submit_window_ms}} b {{no_such_thing}}", "redis/lua/claim.lua")
    assert "redis/lua/claim.lua names {{no_such_thing}}" in str(refused.value)
    assert "submit_window_ms" in str(refused.value)


def test_a_constant_of_one_store_is_known_to_its_texts() -> None:
    assert templates.lua("n > {{few}}", "x.lua", {"few": 16}) == "n > 16"


def test_a_list_is_written_as_the_language_has_it() -> None:
    in_sql = templates.sql("state IN ({{live_states}})", "x.sql")
    in_lua = templates.lua("local LIVE = { {{live_states}} }", "x.lua")
    assert set(re.findall(r"'(\w+)'", in_sql)) == set(LIVE)
    assert set(re.findall(r"(\w+) = true", in_lua)) == set(LIVE)


@pytest.mark.parametrize("name", sorted(STATEMENT_CONSTANTS))
def test_each_constant_is_named_by_some_text(name: str) -> None:
    assert any(re.search(rf"\{{\{{(\w+ in )?{name}\}}\}}", text) for _, text in texts())


def test_lua_compares_with_each_of_a_list() -> None:
    text = templates.lua("if {{state in few}} then", "x.lua", {"few": ("a", "b")})
    assert text == "if (state == 'a' or state == 'b') then"


@pytest.mark.parametrize("name", ["no_such_thing", "day_ms"])
def test_lua_looks_in_lists_only(name: str) -> None:
    with pytest.raises(templates.UnknownConstant, match=r"redis/lua/claim\.lua .*" + name):
        templates.lua(f"if {{{{state in {name}}}}} then", "redis/lua/claim.lua")


LISTS = {"entry": ("state", "queue", "kind")}


def test_places_of_fields_come_from_their_list() -> None:
    text = "local {{fields.entry QUEUE, STATE}} x[{{entry_kind}}]"
    assert templates.lua(text, "x.lua", fields=LISTS) == "local QUEUE, STATE = 2, 1 x[3]"


@pytest.mark.parametrize("text", ["{{fields.entry QUEUE, COLOUR}}", "{{fields.cell STATE}}"])
def test_a_text_that_names_an_unknown_field_is_refused_with_its_file(text: str) -> None:
    with pytest.raises(templates.UnknownConstant, match=r"redis/lua/claim\.lua names"):
        templates.lua(f"local {text}", "redis/lua/claim.lua", fields=LISTS)
