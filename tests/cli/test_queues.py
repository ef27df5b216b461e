"""`andon queues create`, `purge` and `delete`."""

from tests.service.kit import with_minute

from andon.engine.local import LocalEngine
from andon.lifecycle.minutes import MINUTE_MS
from andon.model.minutes import MinuteBase, MinuteCounts, MinuteRow

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


def test_the_last_minutes_are_shown_by_minute_and_by_type(cli: Cli) -> None:
    async def plant(engine: LocalEngine) -> None:
        end = engine.now() // MINUTE_MS * MINUTE_MS
        bands = (0, 0, 3, *[0] * 9)
        row = MinuteRow(
            end // MINUTE_MS - 1,
            end - MINUTE_MS,
            end,
            end - MINUTE_MS,
            {"q": MinuteCounts(4, 3, 2, 1, 5, 6, 3, bands, bands), "r": MinuteCounts(1)},
            {"mail": MinuteCounts(finished=2, failed=1, sampled=3, wait=bands, run=bands)},
            whole=False,
        )
        await with_minute(engine, MinuteBase(end + 1_000, {}, {}, ""), row)

    cli.submit("job", "--queue", "q")
    cli.behind(plant)
    told = cli("queues", "history", "--minutes", "2")
    newest, older = (line.split("\t") for line in told.stdout.splitlines())
    assert newest[1:] == ["5", "3", "3", "1", "5", "6", "<= 100 ms", "<= 100 ms"]
    assert older[1] == "missing"
    assert "1 of these minutes are missing" in told.stderr
    told = cli("queues", "history", "--minutes", "2", "--by-type")
    [row] = (line.split("\t") for line in told.stdout.splitlines())
    assert (row[0], row[3], row[4], row[7]) == ("mail", "3", "1", "<= 100 ms")
    assert "of a sample" in told.stderr
    document = cli.json("queues", "history", "q", "--minutes", "2")
    assert [one["name"] for one in document["series"]] == ["q"]
    assert "--minutes" in cli("queues", "history", "--by-type", code=2).stderr
    assert "not both" in cli("queues", "history", "q", "--minutes", "2", "--by-type", code=2).stderr
