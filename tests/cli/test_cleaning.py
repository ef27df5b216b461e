"""What tasks say cannot act on the terminal of who reads it."""

import asyncio
import json
import logging

import msgspec
import pytest
from click.testing import CliRunner

from andon import Andon
from andon.cli.root import root
from andon.model.cleaning import clean, clean_below, clean_line, safe_json

from .conftest import Cli

TITLE = "\x1b]0;pwned\x07"
CLIPBOARD = "\x1b]52;c;cm0gLXJm\x1b\\"
LINK = "\x1b]8;;https://elsewhere.example\x1b\\here\x1b]8;;\x1b\\"
EIGHT_BITS = "\x9d0;pwned\x9c"
CURSOR = "\x1b[2J\x1b[H\x9b5A"
COLOUR = "\x1b[31mred\x1b[0m"
TURNED = "safe\u202etxt.exe\u2066\u2069\u200f"
ALL = f"a{TITLE}b{CLIPBOARD}c{LINK}d{EIGHT_BITS}e{CURSOR}f{COLOUR}g{TURNED}h"


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain text, as it is", "plain text, as it is"),
        ("Größe 3 µm, 日本語, 🙂", "Größe 3 µm, 日本語, 🙂"),
        (TITLE + "x", "x"),
        (CLIPBOARD + "x", "x"),
        (LINK, "here"),
        (EIGHT_BITS + "x", "x"),
        (CURSOR + "x", "x"),
        (COLOUR, "red"),
        (TURNED, "safetxt.exe"),
        ("\x1b]0;never ended", ""),
        ("\x1bPnever ended", ""),
        ("\x1bcreset", "reset"),
        ("\x1b", ""),
        ("a\rb\bc\x00d\x7fe\x85f\u2028g", "a b c d e f g"),
        ("half \ud800 a character", "half  a character"),
        (ALL, "abcheredefredgsafetxt.exeh"),
    ],
)
def test_a_line_has_nothing_for_a_terminal_to_act_on(text: str, seen: str):
    assert clean_line(text) == seen
    assert clean_line(text + "\n" + text) == f"{seen} {seen}" or "never ended" in text


def test_lines_stay_lines_and_a_string_that_never_ends_does_not_take_the_next():
    assert clean(f"one\n\x1b]0;two\nthree{COLOUR}") == "one\n\nthreered"


def test_no_line_of_a_text_can_pass_for_one_of_its_own():
    forged = "done\n2030-01-15T10:30:00.000Z run 3 error   forged\n"
    assert clean_below(forged) == "done\n    2030-01-15T10:30:00.000Z run 3 error   forged"


@pytest.mark.parametrize("text", [ALL, "plain", 'a\nb\t"c" \\ \x7f\x85', "日本\u2028語"])
def test_json_says_the_same_and_is_safe_to_look_at(text: str):
    safe = safe_json(msgspec.json.encode([text]))
    assert json.loads(safe) == [text]
    assert clean_line(safe) == safe


async def _hostile(url: str) -> None:
    app = Andon(url)

    @app.task(name="hostile", max_retries=0)
    async def hostile(text: str) -> str:
        logging.getLogger("hostile").warning("logged %s", text)
        raise ValueError(text)

    @app.task(name="answers")
    async def answers(text: str) -> str:
        return text

    await hostile.options(id="h", tags=[TURNED], key=f"k{COLOUR}").submit(ALL)
    await answers.options(id="r").submit(ALL)
    async with app.working():
        for task in ("h", "r"):
            await (await app.connections.engine()).wait_end(task, 10)
    await app.close()


COMMANDS: list[list[str]] = [
    ["tasks", "show", "h", "--traceback"],
    ["tasks", "show", "h", "--as", "choria"],
    ["tasks", "show", "r"],
    ["tasks", "list"],
    ["events"],
    ["events", "--as", "cbintel"],
    ["logs", "h"],
    ["dlq", "list"],
    ["wait", "h"],
    ["wait", "r"],
    ["doctor"],
]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"sqlite:///{tmp_path_factory.mktemp('hostile')}/tasks.db"
    asyncio.run(_hostile(url))
    return url


@pytest.mark.parametrize("more", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_whatever_a_command_prints_of_a_task_is_clean(
    hostile: str, command: list[str], more: list[str]
):
    done = CliRunner().invoke(root, [*command, *more, "--url", hostile])
    said = done.stdout + done.stderr
    for line in said.split("\n"):
        assert clean_line(line.replace("\t", "")) == line.replace("\t", "")
    assert said.strip(), "it printed something"


def test_what_is_printed_as_json_is_what_the_task_said(cli: Cli, hostile: str):
    done = cli("tasks", "show", "r", "--json", "--url", hostile)
    assert json.loads(done.stdout)["result"] == ALL
    assert json.loads(done.stdout)["args"] == {"text": ALL}
