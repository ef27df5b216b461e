"""`andon` itself: what it lists, how fast, and how errors are told."""

import os
import subprocess
import sys

import click
import pytest

from andon.cli.lazy import LazyGroup
from andon.cli.root import COMMANDS, root

from .conftest import Cli


def all_groups() -> list[LazyGroup]:
    context = click.Context(root)
    below = [root.get_command(context, name) for name in COMMANDS]
    return [group for group in (root, *below) if isinstance(group, LazyGroup)]


def test_every_summary_in_a_table_is_what_the_command_says() -> None:
    context = click.Context(root)
    for group in all_groups():
        for name, entry in group.entries.items():
            command = group.get_command(context, name)
            assert command is not None
            assert command.name == name
            assert (command.help or "").splitlines()[0] == entry.summary


def test_every_command_has_help(cli: Cli) -> None:
    for name in COMMANDS:
        assert "--help" in cli(name, "--help").stdout


def test_every_command_takes_the_common_options() -> None:
    context = click.Context(root)

    def leaves(command: click.Command) -> list[click.Command]:
        if not isinstance(command, click.Group):
            return [command]
        names = command.list_commands(context)
        found = [command.get_command(context, name) for name in names]
        return [leaf for child in found if child is not None for leaf in leaves(child)]

    for leaf in leaves(root):
        names = {option for param in leaf.params for option in param.opts}
        assert {"--url", "--json", "--as"} <= names, leaf.name


def test_help_starts_within_250_ms_and_without_rich() -> None:
    code = (
        "import sys; from andon.cli.root import root\n"
        "try: root(['--help'], prog_name='andon')\n"
        "finally: sys.exit(bool({'rich', 'asyncio', 'sqlite3'} & set(sys.modules)))"
    )
    took: list[float] = []
    for _ in range(5):
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        took.append(usage.ru_utime + usage.ru_stime)
    assert min(took) < 0.25  # of processor time: other tests run beside this one


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_without_the_extra_it_says_what_to_install(missing: str) -> None:
    code = (
        f"import sys; sys.modules[{missing!r}] = None; from andon.cli.__main__ import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"andon: the command line needs {missing}. Install it with: pip install 'andon[cli]'"
    ]


def test_an_unknown_command_is_a_usage_error_that_names_the_nearest(cli: Cli) -> None:
    assert "Did you mean 'tasks'?" in cli("task", code=2).stderr
    assert "Did you mean 'cancel'?" in cli("tasks", "cancle", code=2).stderr


def test_a_store_that_nobody_has_made_is_not_made_by_looking(cli: Cli) -> None:
    for command in (("tasks", "list"), ("queues", "list"), ("doctor",), ("events",)):
        assert "There is no store at" in cli.refusal(*command)
    assert not list(cli.folder.iterdir())


def test_a_store_in_memory_is_refused_where_nobody_could_see_it(cli: Cli) -> None:
    told = cli.refusal("submit", "job", "--url", "memory://")
    assert "lives inside one process" in told


def test_a_store_of_a_kind_that_there_is_not_is_refused(cli: Cli) -> None:
    assert "There is no store for" in cli.refusal("tasks", "list", "--url", "mysql://localhost")
    assert "There is no store for" in cli.refusal("tasks", "list", "--url", "nonsense")


def test_what_nobody_expected_is_one_sentence_too(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(url: str) -> None:
        raise ZeroDivisionError("by\nzero")

    cli.submit()
    monkeypatch.setattr("andon.stores.registry.open_store", explode)
    assert "this should not have happened: ZeroDivisionError: by zero" in cli.refusal(
        "tasks", "list"
    )


def test_debug_lets_the_traceback_through(cli: Cli) -> None:
    code = (
        "import sys; from andon.cli.root import root; "
        f"root(['--debug', 'tasks', 'list', '--url', 'sqlite:///{cli.folder}/none.db'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "Traceback" in done.stderr
    assert done.returncode == 1
