"""The empty string is never taken for "not given", at no door; None is (docs/rulings.md, R35)."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx
import pytest
from tests.service.kit import serving

from andon import Andon, Queue
from andon.contract.queries import Query
from andon.engine.base import Submission
from andon.engine.local import LocalEngine
from andon.lifecycle.describing import check_worker
from andon.model.errors import AndonError, ConfigurationError, InvalidSubmission
from andon.model.fleet import WorkerInfo
from andon.worker.config import WorkerConfig

from .conftest import Cli

# How each door of submitting calls a field, and the empty value there.
FIELDS: list[dict[str, Any]] = [
    {"engine": {"id": ""}, "python": {"id": ""}, "cli": ["--id", ""]},
    {"engine": {"name": ""}, "python": {"name": ""}, "cli": []},
    {"engine": {"queue": ""}, "python": {"queue": ""}, "cli": ["--queue", ""]},
    {"engine": {"key": ""}, "python": {"key": ""}, "cli": ["--key", ""]},
    {"engine": {"unique_key": ""}, "python": {"unique_key": ""}, "cli": ["--unique-key", ""]},
    {"engine": {"group": ""}, "python": {"group": ""}, "cli": ["--group", ""]},
    {"engine": {"tags": ("",)}, "python": {"tags": [""]}, "cli": ["--tag", ""]},
    {
        "engine": {"dependencies": ("",)},
        "python": {"depends_on": [""]},
        "cli": ["--depends-on", ""],
    },
]
FILTERS = ("state", "queue", "name", "key", "group", "tag", "worker")
LETTERS = ("state", "queue", "name", "tag")


@pytest.fixture
def http(cli: Cli) -> Iterator[httpx.Client]:
    """A service in front of the store."""
    with serving(Andon(cli.store)) as running, httpx.Client(base_url=running.url) as client:
        yield client


@pytest.fixture(autouse=True)
def one_task(cli: Cli) -> Iterator[None]:
    """A store with one task in it, which nothing that is refused may touch, or add to."""
    cli.submit("job", "--id", "bystander")
    yield
    assert [row[0] for row in cli.lines("tasks", "list")] == ["bystander"]
    assert cli.state("bystander") == "pending"
    assert [row[0] for row in cli.lines("queues", "list")] == ["default"]


def on_app(url: str, act: Callable[[Andon], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with Andon(url) as app:
            return await act(app)

    return asyncio.run(run())


def named(fields: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return fields.get("name", "job"), {n: v for n, v in fields.items() if n != "name"}


# --- submitting ---


def test_an_engine_refuses_it(cli: Cli) -> None:
    async def act(engine: LocalEngine) -> None:
        for number, field in enumerate(FIELDS):
            given: dict[str, Any] = {"id": f"t{number}", "name": "job", **field["engine"]}
            [outcome] = await engine.submit([Submission(**given)])
            assert isinstance(outcome.error, InvalidSubmission), field

    cli.behind(act)


@pytest.mark.parametrize("by", ["local", "service"])
def test_python_refuses_it(cli: Cli, by: str, request: pytest.FixtureRequest) -> None:
    url = cli.store if by == "local" else str(request.getfixturevalue("http").base_url)

    async def act(app: Andon) -> None:
        @app.task(name="job")
        async def job() -> None: ...

        for field in FIELDS:
            name, options = named(field["python"])
            with pytest.raises(InvalidSubmission):
                await app.submit(name, **options)
            if options:
                with pytest.raises(InvalidSubmission):
                    await job.options(**options).submit()

    on_app(url, act)


def test_the_sync_face_refuses_it(cli: Cli) -> None:
    app = Andon(cli.store)
    for field in FIELDS:
        name, options = named(field["python"])
        with pytest.raises(InvalidSubmission):
            app.sync.submit(name, **options)
    app.sync.close()


def test_http_refuses_it(http: httpx.Client) -> None:
    for field in FIELDS:
        body = {"name": "job", **field["python"]}
        answer = http.post("/api/v1/tasks", json=body)
        assert answer.status_code == 422, (field, answer.text)
        [entry] = http.post("/api/v1/bulk", json={"tasks": [body]}).json()["tasks"]
        assert entry["error"]["status"] == 422, (field, entry)


def test_the_command_line_refuses_it(cli: Cli) -> None:
    for field in FIELDS:
        name, options = named(field["python"])
        if field["cli"]:
            assert cli("submit", "job", *field["cli"], code=-1).exit_code in (1, 2), field
        line = json.dumps({"name": name, **options})
        refused = cli("submit", "--jsonl", "-", stdin=f"{line}\n", code=1)
        assert not refused.stdout.strip() or "error" in refused.stdout, field
    assert cli("submit", "", code=1).stderr


def query_of(fields: dict[str, Any]) -> Query:
    return Query(**fields)


# --- finding, and acting on what is found ---


def test_an_engine_finds_nothing_by_it(cli: Cli) -> None:
    async def act(engine: LocalEngine) -> None:
        for field in (*FILTERS[1:], "id_prefix"):
            with pytest.raises(ConfigurationError, match='is ""'):
                await engine.find(query_of({field: ""}))

    cli.behind(act)


def test_python_finds_nothing_by_it(cli: Cli) -> None:
    async def act(app: Andon) -> None:
        for field in FILTERS:
            with pytest.raises(ConfigurationError):
                await app.tasks.list(**{field: ""})  # type: ignore[arg-type]

    on_app(cli.store, act)


def test_http_finds_and_acts_on_nothing_by_it(http: httpx.Client) -> None:
    for field in FILTERS:
        answer = http.get("/api/v1/tasks", params={field: ""})
        assert answer.status_code in (400, 422), (field, answer.text)
        chosen = {"states": [""]} if field == "state" else {field: ""}
        answer = http.post("/api/v1/acts", json={"action": "cancel", "filter": chosen})
        assert answer.status_code in (400, 422), (field, answer.text)
    for field in LETTERS:
        answer = http.get("/api/v1/dead-letters", params={field: ""})
        assert answer.status_code in (400, 422), (field, answer.text)
    answer = http.post("/api/v1/acts", json={"action": "cancel", "ids": [""]})
    assert answer.json()["tasks"][0]["error"]


def test_the_command_line_finds_and_acts_on_nothing_by_it(cli: Cli) -> None:
    for field in FILTERS:
        for command in (["tasks", "list"], ["dlq", "list"], ["tasks", "cancel", "--yes"]):
            done = cli(*command, f"--{field}", "", code=-1)
            assert done.exit_code in (1, 2), (command, field)
            assert not done.stdout
    for command in (["tasks", "show"], ["logs"], ["wait"], ["queues", "show"], ["queues", "pause"]):
        assert cli(*command, "", code=1).stderr, command
    assert cli("tasks", "cancel", "", code=1).stdout.split("\t")[1] == "gone"
    assert cli("events", "--task", "", code=1).stderr
    assert cli("events", "--queue", "", code=1).stderr


# --- what workers and applications say of themselves ---


def test_no_type_queue_worker_or_token_is_called_so(cli: Cli) -> None:
    app = Andon(cli.store)

    def job() -> None: ...

    made: list[Callable[[], Any]] = [
        lambda: Andon(queue=""),
        lambda: app.task(name="")(job),
        lambda: app.task(queue="")(job),
        lambda: app.command("", ["true"]),
        lambda: Queue(""),
        lambda: WorkerConfig(id=""),
        lambda: WorkerConfig(queues=("",)),
    ]
    for make in made:
        with pytest.raises(AndonError):
            make()
    for queues in ({"id": ""}, {"queues": ("",)}):
        with pytest.raises(InvalidSubmission):
            check_worker(WorkerInfo(**{"id": "w", "host": "h", "pid": 1, **queues}))
    assert cli("token", "create", "", "--scope", "*", code=1).stderr
    path = cli.folder / "shop.py"
    path.write_text("from andon import Andon\napp = Andon()\n")
    assert "empty name" in cli("worker", str(path), "--queues", "", code=2).stderr
    assert "needs an id" in cli("worker", str(path), "--id", "", code=1).stderr


# --- None ---


def test_none_is_not_given(cli: Cli) -> None:
    async def act(app: Andon) -> None:
        @app.task(name="job", tags=["ours"])
        async def job() -> None: ...

        nothing: dict[str, Any] = dict.fromkeys(
            ("id", "queue", "key", "unique_key", "group", "tags", "depends_on")
        )
        for handle in (await app.submit("job", **nothing), await job.options(**nothing).submit()):
            task = await app.get(handle.id)
            assert task is not None
            assert task.queue == "default"
            assert tuple(task.tags) == ("ours",)
            await app.tasks.cancel([handle.id])
            await app.tasks.delete([handle.id])
        assert await app.tasks.list(**dict.fromkeys(FILTERS[1:])) != []  # type: ignore[arg-type]

    on_app(cli.store, act)
