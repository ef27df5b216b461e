"""`andon flows`: what a flow is, drawn; cancelled and run again as one."""

import pytest

from andon import Andon
from andon.contract.requests import ClaimRequest
from andon.engine.local import LocalEngine
from andon.lifecycle.commands import Fail
from andon.model.task import TaskError

from .conftest import Cli


@pytest.fixture
def flow_id(cli: Cli) -> str:
    """A flow of two pages, their total and what follows it; nothing has run."""
    cli.submit("other", "--id", "x", "--group", "plain")  # makes the store
    app = Andon(cli.store)

    @app.task(name="fetch", max_retries=0)
    def fetch(page: int) -> int:
        return page

    @app.task(name="total")
    def total(pages: list[int]) -> int:
        return sum(pages)

    with app.sync, app.sync.flow("pages", id="pages-1") as flow:
        pages = flow.map(fetch, [1, 2])
        first = flow.add(total, pages.results)
        flow.add(total, [first.result])
        flow.submit()
    return "pages-1"


async def fail_one(engine: LocalEngine) -> None:
    asked = ClaimRequest(worker="w", token="t", queues=("default",), limit=5, lease_ms=30_000)
    claimed = {task.id: task for task in await engine.claim(asked)}
    error = TaskError(message="no such \x1b[31mpage")
    await engine.report(claimed["pages-1:0"], Fail(error=error))
    await engine.settled()


def test_a_flow_is_listed_and_drawn_as_a_tree(cli: Cli, flow_id: str) -> None:
    [[listed, name, tasks, _]] = cli.lines("flows", "list")
    assert (listed, name, tasks) == (flow_id, "pages", "4")
    cli.behind(fail_one)
    shown = cli("flows", "show", flow_id).stdout.splitlines()
    assert shown[0].endswith("75 %  3 of 4, 3 not completed")
    assert shown[1].startswith("└─ fetch x 2")
    assert "pages-1:0 failed: no such" in shown[2]
    assert "\x1b" not in "".join(shown)
    assert shown[3].strip().startswith("└─ total x 2  2 unreachable")


def test_a_flow_is_json_mermaid_and_graphviz(cli: Cli, flow_id: str) -> None:
    found = cli.json("flows", "show", flow_id)
    assert (found["id"], found["name"], found["progress"]["total"]) == (flow_id, "pages", 4)
    nodes = [(node["name"], node["after"]) for node in found["nodes"]]
    assert nodes == [("fetch", []), ("total", [0])]
    mermaid = cli("flows", "show", flow_id, "--mermaid").stdout.splitlines()
    assert mermaid[0] == "flowchart TD"
    assert "    n0 --> n1" in mermaid
    dot = cli("flows", "show", flow_id, "--graphviz").stdout.splitlines()
    assert (dot[0], dot[-1]) == ("digraph flow {", "}")
    assert "    n0 -> n1;" in dot


def test_it_says_how_many_a_task_needs(cli: Cli) -> None:
    for parent in ("a", "b", "c"):
        cli.submit("page", "--id", parent, "--group", "g")
    cli.submit("join", "--id", "j", "--group", "g", "--depends-on", "a,b,c", "--needs", "2")
    shown = cli("flows", "show", "g").stdout.splitlines()
    assert shown[-1].endswith("join  blocked  2 of 3 needed")
    assert "2 of 3 needed" in cli("flows", "show", "g", "--mermaid").stdout
    assert cli.json("flows", "show", "g")["nodes"][1]["needs"] == [2, 3]
    assert "2 of 3" in cli("tasks", "show", "j").stdout


def test_a_flow_is_cancelled_and_run_again(cli: Cli, flow_id: str) -> None:
    assert "add --yes" in cli("flows", "cancel", flow_id, code=2).stderr
    assert cli.json("flows", "cancel", flow_id, "--yes")["changed"] == 4
    assert cli("flows", "rerun", flow_id, "--yes").stderr == "4 tasks started again.\n"
    assert cli.json("flows", "show", flow_id)["progress"]["states"] == {"blocked": 2, "pending": 2}


def test_any_group_is_shown_and_none_is_not_found(cli: Cli, flow_id: str) -> None:
    assert cli.json("flows", "show", "plain")["name"] is None
    assert "There is no flow 'nowhere'" in cli.refusal("flows", "show", "nowhere")
    assert "this is none" in cli.refusal("flows", "show", flow_id, "--watch")
