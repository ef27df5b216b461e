"""Tables on a terminal of 80 columns: nothing is cut that would make one lie."""

import pytest
from rich.cells import cell_len

from andon.cli.layout import Column, ended, shortened, widths_of
from andon.cli.output import Output
from andon.lifecycle.commands import Terminate
from andon.model.fleet import WorkerInfo
from andon.model.task import TaskError

from .conftest import Cli

MADE = "019a0b1c2d3e4f5061728394a5b6c7d8"
NEXT = "019a0b1c2d3e4f5061728394a5b6c7d9"
NAME = "shop.payments.refund_a_customer"
QUEUE = "mail.transactional.newsletters.eu-central"


@pytest.fixture(autouse=True)
def narrow(cli: Cli, on_terminal: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """80 columns, and all that happened did so twelve minutes ago."""
    cli.columns = "80"
    monkeypatch.setattr(Output, "when", lambda *_: "12m 30s ago")
    monkeypatch.setattr("andon.cli.queues.span", lambda _: "12m 30s")


def told(cli: Cli, *args: str) -> str:
    """What is printed, as a text to compare with."""
    lines = cli(*args).stdout.splitlines()
    assert all(cell_len(line) <= 80 for line in lines)
    return "\n".join(["", *(line.rstrip() for line in lines if line.strip()), ""])


def fill(cli: Cli) -> None:
    """A failed, a waiting and a running task."""
    cli("submit", NAME, "--id", MADE, "--queue", QUEUE)
    message = "the bank has answered 503 three times, and then not at all"
    cli.end(Terminate(error=TaskError(message=message, code="ERROR")), queue=QUEUE)
    cli("submit", NAME, "--id", NEXT, "--queue", QUEUE, "--delay", "1h")
    cli("submit", "job", "--id", "order-8")
    cli.claim()


def test_tasks(cli: Cli) -> None:
    fill(cli)
    assert (
        told(cli, "tasks", "list")
        == """
id                 name               state      created      note
order-8            job                active     12m 30s ago  0% on w
019a0b1c…a5b6c7d9  shop.pay…customer  scheduled  12m 30s ago  runs 12m 30s ago
019a0b1c…a5b6c7d8  shop.pay…customer  failed     12m 30s ago  terminated: the b…
"""
    )


def test_dead_letters(cli: Cli) -> None:
    fill(cli)
    assert (
        told(cli, "dlq", "list")
        == """
id                 name               state   created      note
019a0b1c…a5b6c7d8  shop.pay…customer  failed  12m 30s ago  terminated: the bank…
"""
    )


def test_tasks_as_another_system_shows_them(cli: Cli) -> None:
    fill(cli)
    assert (
        told(cli, "tasks", "list", "--as", "jobbers")
        == """
id                 name               status     submitted_at  last_error
order-8            job                started    12m 30s ago
019a0b1c…a5b6c7d9  shop.pay…customer  scheduled
019a0b1c…a5b6c7d8  shop.pay…customer  failed     12m 30s ago   the bank has ans…
"""
    )
    assert (
        told(cli, "tasks", "list", "--as", "taskcluster")
        == """
taskId              taskQueueId                  state        priority  deadline
order-8             default                      running      medium
019a0b1c2…a5b6c7d9  mail.transact…rs.eu-central  unscheduled  medium
019a0b1c2…a5b6c7d8  mail.transact…rs.eu-central  failed       medium
"""
    )


def test_queues(cli: Cli) -> None:
    fill(cli)
    cli("submit", "job", "--id", "waiting")
    assert (
        told(cli, "queues", "list")
        == """
queue                 state    scheduled  pending  active  failed  dead   oldest
default               running          0        1       1       0     0  12m 30s
mail.trans…u-central  running          1        0       0       1     1
"""
    )


def test_a_rate_is_shown_as_it_was_written(cli: Cli) -> None:
    cli("queues", "configure", "mail", "--rate-limit", "5/h")
    assert "rate_limit: 5/h" in told(cli, "queues", "show", "mail")
    cli.columns = "120"
    assert "rate_limit=5/h" in cli("queues", "list").stdout


def test_workers(cli: Cli) -> None:
    cli("storage", "init")
    put_worker(cli, "build-7.example.net-4711-a1b2c3d4")
    put_worker(cli, "build-7.example.net-4711-a1b2c3d5")
    assert (
        told(cli, "workers", "list")
        == """
id                     pid  state    active  queues                  seen
build-7.…a1b2c3d4  4194304  running  64/100  mail.transactional.new  12m 30s ago
                                             sletters.eu-central,ma
                                             il
build-7.…a1b2c3d5  4194304  running  64/100  mail.transactional.new  12m 30s ago
                                             sletters.eu-central,ma
                                             il
"""
    )


def test_workers_that_would_look_the_same_are_blocks(cli: Cli) -> None:
    cli("storage", "init")
    put_worker(cli, "a-machine-of-the-build-farm-number-1.example.net")
    put_worker(cli, "a-machine-of-the-build-farm-number-2.example.net")
    assert (
        told(cli, "workers", "list")
        == """
    id: a-machine-of-the-build-farm-number-1.example.net
   pid: 4194304
 state: running
active: 64/100
queues: mail.transactional.newsletters.eu-central,mail
  seen: 12m 30s ago
    id: a-machine-of-the-build-farm-number-2.example.net
   pid: 4194304
 state: running
active: 64/100
queues: mail.transactional.newsletters.eu-central,mail
  seen: 12m 30s ago
"""
    )


def put_worker(cli: Cli, name: str) -> None:
    info = WorkerInfo(
        id=name, host="build-7", pid=4194304, queues=(QUEUE, "mail"), concurrency=100, active=64
    )
    cli.behind(lambda engine: engine.put_worker(info))


def test_tokens(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda _: "95f754b1")
    scopes = ("--scope", f"tasks:create:{QUEUE}", "--scope", "queues:claim:mail")
    cli("token", "create", "the-machine-that-resizes-images-in-eu-central", *scopes)
    assert (
        told(cli, "token", "list")
        == """
id        name               state  expires      scopes
95f754b1  the-mach…-central  valid  12m 30s ago  tasks:create:mail.transactional
                                                 .newsletters.eu-central
                                                 queues:claim:mail
"""
    )


# --- the rules, one by one ---


def test_a_name_is_shortened_in_its_middle() -> None:
    assert shortened(MADE, 17) == "019a0b1c…a5b6c7d8"
    assert shortened(MADE, 10) == "019a0…c7d8"
    assert shortened("order-8", 17) == "order-8"


def test_a_text_never_ends_in_half_a_number() -> None:
    assert ended("runs in 12345 days", 11, len) == "runs in …"
    assert ended("runs in 12345 days", 14, len) == "runs in 12345…"
    assert ended("12345", 3, len) == "…"
    assert ended("the bank has answered", 10, len) == "the bank…"
    assert ended("the bank", 8, len) == "the bank"
    assert ended("日本語の誤り", 7, cell_len) == "日本語…"


@pytest.mark.parametrize("width", range(20, 120, 3))
def test_whatever_the_width_numbers_are_whole_and_names_differ(width: int) -> None:
    columns = [Column("id", named=True), Column("n", right=True), Column("note")]
    names = [f"a-name-that-is-rather-long-{i}-and-goes-on-for-a-while" for i in range(12)]
    rows = [[name, str(10**i), "a note of some length"] for i, name in enumerate(names)]
    widths = widths_of(columns, rows, width, len)
    if widths is None:
        assert width < 80
        return
    assert sum(widths) + 4 <= width
    assert widths[1] == 12
    assert len({shortened(name, widths[0]) for name in names}) == 12
