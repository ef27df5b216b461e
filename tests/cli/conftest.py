"""The command line in this process, on a store in a file, and a hand that plays the worker."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from click.testing import CliRunner, Result
from tests.service.kit import serving

from andon import Andon
from andon.cli.root import root
from andon.contract.requests import ClaimRequest
from andon.engine.local import LocalEngine
from andon.lifecycle.commands import Command, Complete, Fail, Terminate
from andon.model.fleet import TypeInfo
from andon.model.task import Task, TaskError
from andon.stores.registry import open_store

T = TypeVar("T")


@pytest.fixture(autouse=True)
def _logs(logs_as_before: None) -> None:
    """Commands run in this process."""


class Cli:
    """Calls commands and looks behind them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = f"sqlite:///{folder / 'andon.db'}"
        self.url = self.store
        self.columns = "160"  #: of the terminal

    def __call__(self, *args: str, code: int = 0, stdin: str | None = None) -> Result:
        """Run a command; it must end with this exit code, if that is not negative."""
        url = self.store if args[0] in {"storage", "token"} else self.url
        env = {"ANDON_URL": url, "ANDON_DEBUG": None, "COLUMNS": self.columns}
        env["XDG_STATE_HOME"] = str(self.folder / "state")
        done = CliRunner().invoke(root, list(args), input=stdin, env=env, prog_name="andon")
        told = f"{done.stdout}\n{done.stderr}\n{done.exception!r}"
        assert code < 0 or done.exit_code == code, told
        assert "Traceback" not in told
        return done

    def lines(self, *args: str, **how: Any) -> list[list[str]]:
        """What it printed, as a program reads it."""
        return [line.split("\t") for line in self(*args, **how).stdout.splitlines()]

    def json(self, *args: str, **how: Any) -> Any:
        """The JSON document it printed."""
        return json.loads(self(*args, "--json", **how).stdout)

    def refusal(self, *args: str, code: int = 1, **how: Any) -> str:
        """The one sentence on stderr of a command that must fail, and print nothing else."""
        done = self(*args, code=code, **how)
        assert not done.stdout
        [told] = done.stderr.splitlines()
        assert told.startswith("andon: ")
        return told

    def submit(self, name: str = "job", *args: str) -> str:
        """Submit a task; its id."""
        return self("submit", name, *args).stdout.strip()

    def state(self, task_id: str) -> str:
        """The native state of a task."""
        return self.json("tasks", "show", task_id)["state"]

    def behind(self, act: Callable[[LocalEngine], Awaitable[T]]) -> T:
        """Do something with the engine itself."""

        async def run() -> T:
            engine = LocalEngine(open_store(self.store))
            await engine.open()
            try:
                return await act(engine)
            finally:
                await engine.close()

        return asyncio.run(run())

    def publish(self, *types: TypeInfo) -> None:
        """Publish task types as a worker does that was given the same URL. Behind the back of a
        service it would only know them a moment later."""

        async def run() -> None:
            async with Andon(self.url) as app:
                await (await app.engine()).publish_types(types)

        asyncio.run(run())

    def claim(self, count: int = 1, queue: str = "default") -> list[Task]:
        """Claim tasks, as worker `w`, and leave them running."""

        async def act(engine: LocalEngine) -> list[Task]:
            request = ClaimRequest(
                worker="w", token=f"t{engine.now()}", queues=(queue,), limit=count, lease_ms=60_000
            )
            return await engine.claim(request)

        return self.behind(act)

    def end(self, command: Command | None = None, count: int = 1, queue: str = "default") -> None:
        """Claim tasks and report that they ended: completed, unless `command` says otherwise."""
        for task in self.claim(count, queue):
            self.report(task, command)

    def report(self, task: Task, command: Command | None = None) -> None:
        """Report how a claimed task ended."""
        self.behind(lambda e: e.report(task, command or Complete(result=b'{"answer": 42}')))

    def fail(self, count: int = 1, message: str = "out of paper") -> None:
        """Claim tasks and give them up: they become dead letters."""
        self.end(Terminate(error=TaskError(message=message, code="ERROR")), count)

    def fail_once(self, message: str = "out of paper") -> None:
        """Claim a task and let it wait for its next try."""
        self.end(Fail(error=TaskError(message=message, code="ERROR")))

    def write(self, name: str, *lines: Any) -> str:
        """A file with a line for each value: text as it is, else as JSON."""
        path = self.folder / name
        texts = [x if isinstance(x, str) else msgspec.json.encode(x).decode() for x in lines]
        path.write_text("\n".join(texts) + "\n", encoding="utf-8")
        return str(path)


OVER_HTTP = {
    "test_tasks",
    "test_submit",
    "test_fleet",
    "test_artifacts",
    "test_ids",
    "test_schedules",
    "test_alerts",
}
"""Modules whose tests are taken over a service as well."""

ON_THE_STORE = {
    "test_a_command_stands_after_two_dashes",
    "test_a_test_that_nobody_delivers_says_who_does",
    "test_a_test_that_was_delivered_says_so",
    "test_list_now_says_what_would_be_told_and_tells_nothing",
    "test_bench_hands_over_to_the_library",
    "test_demo_hands_over_to_the_library",
    "test_init_says_how_the_store_is_set_up",
    "test_what_a_file_cannot_do_is_refused",
    "test_the_profile_decides_defaults",
    "test_retention_is_the_default_of_what_is_submitted",
}
"""Tests of what only the store is asked for, or of defaults that a service has its own of."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    module = str(getattr(metafunc.module, "__name__", "")).rpartition(".")[2]
    elsewhere = module in OVER_HTTP and metafunc.function.__name__ not in ON_THE_STORE
    if "cli" in metafunc.fixturenames and elsewhere:
        metafunc.parametrize("cli", ["local", "http"], indirect=True)


@pytest.fixture
def cli(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cli]:
    """The command line on a store, or over a service in front of one."""
    cli = Cli(tmp_path)
    if getattr(request, "param", "local") == "local":
        yield cli
        return
    with serving(Andon(cli.store)) as running:
        cli.url = running.url
        yield cli


@pytest.fixture
def on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let output believe that a person reads it."""
    from andon.cli.output import Output

    def init(self: Output, *, as_json: bool) -> None:
        self.json, self.terminal, self._console = as_json, not as_json, None

    monkeypatch.setattr(Output, "__init__", init)
