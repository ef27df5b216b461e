"""`andon queues create`, `purge` and `delete`."""

from .conftest import Cli


def names(cli: Cli) -> list[str]:
    return [row[0] for row in cli.lines("queues", "list")]


def test_a_queue_is_created_once(cli: Cli) -> None:
    cli("queues", "create", "mail", "--max-concurrent", "5", "--policy", "max_retries=2")
    queue = cli.json("queues", "show", "mail")
    assert (queue["max_concurrent"], queue["policy"]) == (5, {"max_retries": 2})
    told = cli.refusal("queues", "create", "mail", "--max-concurrent", "6")
    assert "andon queues configure mail" in told
    assert cli.json("queues", "show", "mail")["max_concurrent"] == 5


def test_a_purge_removes_what_waits_and_keeps_the_queue(cli: Cli) -> None:
    cli.submit("job", "--id", "a", "--queue", "mail")
    cli.submit("job", "--id", "b", "--queue", "mail", "--delay", "1h")
    cli.submit("job", "--id", "c")
    assert cli.lines("queues", "purge", "mail", "--yes") == [["mail", "2 tasks removed"]]
    assert cli.json("queues", "show", "mail")["counts"] == {}
    assert cli.json("queues", "show", "default")["counts"] == {"pending": 1}


def test_a_queue_with_live_tasks_is_deleted_by_force_only(cli: Cli) -> None:
    cli.submit("job", "--id", "a", "--queue", "mail")
    told = cli.refusal("queues", "delete", "mail", "--yes")
    assert "1 pending" in told
    assert "andon queues delete mail --force" in told
    assert names(cli) == ["mail"]
    said = cli.json("queues", "delete", "mail", "--force", "--yes")
    assert said == {"queue": "mail", "removed": 1, "refused": 0, "deleted": True}
    assert names(cli) == []


def test_nothing_is_removed_where_nobody_can_be_asked(cli: Cli) -> None:
    cli.submit("job", "--id", "a")
    for verb in (["purge", "default"], ["delete", "default", "--force"]):
        assert "add --yes" in cli("queues", *verb, code=2).stderr
    assert cli.json("queues", "show", "default")["counts"] == {"pending": 1}


def test_of_several_queues_all_must_be_there_before_any_is_deleted(cli: Cli) -> None:
    cli("queues", "create", "mail")
    assert "There is no queue 'mial'" in cli.refusal("queues", "delete", "mail", "mial", "--yes")
    assert names(cli) == ["mail"]
