"""What the pages show, and how keys lead from one to the other."""

import pytest
from tests.dashboard.kit import make_app

from andon import Andon
from andon.engine.base import Submission

from .kit import charges, ended, looking, mails


async def filled(app: Andon) -> None:
    """A task of most states, a schedule, a flow and a worker's end."""
    engine = await app.engine()
    await engine.submit([*charges(-1, -2, 3), *mails(4)])
    await ended(app, "c-1", "c-2", "c3", "m0", "m1", "m2", "m3")
    await engine.submit(
        [
            Submission(id="later", name="shop.remind", queue="mail", delay=3600),
            Submission(id="nobody", name="shop.nobody", queue="billing"),
            Submission(id="child", name="shop.remind", queue="mail", dependencies=("later",)),
        ]
    )


async def test_every_page_is_shown_on_every_store(any_url: str) -> None:
    app = make_app(any_url)
    async with app:
        await filled(app)
        async with looking(any_url) as seen:
            await seen.until("completed 5", gone="no queue yet")
            assert "◷ scheduled 1" in seen.text
            assert "✗ 2 dead letters" in seen.text
            assert "billing" in seen.text
            await seen.press("2")
            await seen.until("Tasks: all  10")
            assert "c-1" in seen.line("Order 1 not found")
            await seen.press("3")
            await seen.until("Order # not found in ledger")
            assert seen.line("Order #").split()[0] == "2"
            await seen.press("4")
            await seen.until("Queues  2")
            await seen.press("5")
            await seen.until("No worker is alive")
            await seen.press("6")
            await seen.until("There are none. Declare one")
            await seen.press("7")
            await seen.until("No flow was submitted")
            await seen.press("1")
            await seen.until("completed 5")


async def test_a_task_is_told_from_its_arguments_to_its_moves(url: str) -> None:
    app = make_app(url)
    async with app:
        await filled(app)
        async with looking(url, size=(100, 80)) as seen:
            await seen.press("g")
            await seen.write("c-1")
            text = await seen.until("Moves")
    assert "✗ failed" in text
    assert "Order 1 not found in ledger 'L1'" in text
    assert "in charge" in text
    assert "of Andon's own" in text
    assert '"order": -1' in text
    assert "tok-4242" not in text
    assert "1 value hidden" in text
    assert "#0 submitted → error" in text
    assert "claim   ▶ active" in text
    assert "Log" in text


async def test_what_a_task_waits_for_is_told_both_ways(url: str) -> None:
    app = make_app(url)
    async with app:
        await filled(app)
        async with looking(url, size=(100, 60)) as seen:
            await seen.press("g")
            await seen.write("child")
            assert "later" in await seen.until("Waits for")
            await seen.press("escape", "g")
            await seen.write("later")
            assert "child" in await seen.until("Waited for by")


async def test_filters_are_those_of_the_board(url: str) -> None:
    app = make_app(url)
    async with app:
        engine = await app.engine()
        await engine.submit(
            [
                Submission(
                    id="a1", name="shop.remind", queue="mail", key="k k", group="g", tags=("t",)
                ),
                Submission(id="b1", name="shop.charge", queue="billing", delay=60),
            ]
        )
        async with looking(url) as seen:
            await seen.press("2")
            await seen.until("b1")
            for asked in (
                "pending", "state=pending", "queue=mail", "name=shop.remind", "key='k k'",
                "group=g", "tag=t", "id=a", "state=pending queue=mail order=oldest",
            ):  # fmt: skip
                await seen.press("slash")
                await seen.write("scheduled")
                await seen.until("b1", gone="a1 ")
                await seen.press("slash")
                await seen.write(asked)
                assert "b1" not in await seen.until("a1 ", gone="b1"), asked


async def test_a_filter_that_cannot_be_is_said_and_nothing_changes(url: str) -> None:
    async with make_app(url) as app:
        await (await app.engine()).submit(mails(1))
        async with looking(url) as seen:
            await seen.press("2")
            await seen.until("m0")
            for asked, said in (
                ("state=nonsense", "There is no state"),
                ("colour=red", "There is no field 'colour'"),
                ("order=sideways", "ordered by"),
                ("key='open", "No closing quotation"),
            ):
                await seen.press("slash")
                await seen.write(asked)
                await seen.until(said)
                await seen.press("escape")
                await seen.until("Tasks: all")


async def test_pages_of_a_list_follow_one_another(url: str) -> None:
    async with make_app(url) as app:
        await (await app.engine()).submit(
            [Submission(id=f"t{n:03}", name="shop.remind", queue="mail") for n in range(70)]
        )
        async with looking(url, size=(80, 70)) as seen:
            await seen.press("2")
            await seen.until("t069", gone="t019 ")
            await seen.press("n")
            await seen.until("t000", gone="t069")
            await seen.press("p")
            await seen.until("t069", gone="t000")


async def test_a_queue_leads_to_its_tasks_and_back(url: str) -> None:
    async with make_app(url) as app:
        await (await app.engine()).submit([*charges(1), *mails(2)])
        async with looking(url) as seen:
            await seen.until("billing")
            await seen.press("down", "enter")
            await seen.until("Tasks: queue mail")
            assert "c1" not in seen.text
            await seen.press("enter")
            await seen.until("Arguments")
            await seen.press("escape", "escape")
            await seen.until("ready")


async def test_a_log_is_followed_as_it_grows(
    url: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    import asyncio
    import logging

    folder = tmp_path_factory.mktemp("kept")
    app = Andon(url, artifacts=f"file://{folder}")
    goes_on = asyncio.Event()

    @app.task(name="shop.print", max_retries=0)
    async def printed() -> None:
        for page in range(40):
            logging.getLogger("shop").warning("page %d printed", page)
        await goes_on.wait()
        logging.getLogger("shop").warning("all is printed")

    async with app:
        engine = await app.engine()
        await engine.submit([Submission(id="p", name="shop.print", queue="default")])
        async with app.working(), looking(url, artifacts=f"file://{folder}") as seen:
            await seen.press("g")
            await seen.write("p")
            await seen.until("Runs")
            await seen.press("l")
            await seen.until("page 39 printed")
            assert "page 0 printed" not in seen.text  # it is at the end
            goes_on.set()
            await seen.until("all is printed")


async def test_workers_and_what_they_run(url: str) -> None:
    import asyncio

    app = Andon(url)
    goes_on = asyncio.Event()

    @app.task(name="shop.hold")
    async def hold() -> None:
        await goes_on.wait()

    async with app:
        engine = await app.engine()
        await engine.submit([Submission(id="h", name="shop.hold", queue="default")])
        async with app.working(), looking(url) as seen:
            await seen.press("5")
            await seen.until("h shop.hold")
            assert "▶ running" in seen.text
            assert "can run" in seen.text
            await seen.press("enter")
            await seen.until("active, worker")
            assert "h " in seen.text
            goes_on.set()


async def test_a_schedule_has_its_next_times(url: str) -> None:
    app = Andon(url)

    @app.task(name="shop.tidy", cron="*/7 * * * *", tz="Europe/Berlin")
    async def tidy() -> None: ...

    async with app:
        async with app.working():
            pass
        async with looking(url) as seen:
            await seen.press("6")
            await seen.until("*/7 * * * *")
            await seen.press("enter")
            text = await seen.until("Next times")
            assert "+01:00" in text or "+02:00" in text


async def test_a_flow_is_a_tree(url: str) -> None:
    app = Andon(url)

    @app.task(name="shop.part")
    async def part(n: int) -> int:
        return n

    @app.task(name="shop.sum")
    async def total() -> None: ...

    async with app:
        with app.flow("billing") as flow:
            flow.chord(flow.map(part, [1, 2, 3]), flow.add(total))
        await flow.submit()
        async with looking(url) as seen:
            await seen.press("7")
            await seen.until("billing")
            await seen.press("enter")
            text = await seen.until("0 of 4 ended")
            assert "└─ shop.part x 3  ○ 3 pending" in text
            assert "   └─ shop.sum  ◫ blocked" in text


async def test_the_dialects_of_a_tasks_moves(url: str) -> None:
    async with make_app(url) as app:
        await (await app.engine()).submit(mails(1))
        async with looking(url, size=(100, 60)) as seen:
            await seen.press("g")
            await seen.write("m0")
            await seen.until("submit")
            for name in ("jobbers", "asynq", "cbintel", "choria", "taskcluster"):
                await seen.press("v")
                await seen.until(f"as {name} shows them")
            await seen.press("v")
            await seen.until("why, by whom")


async def test_a_task_is_shown_first_as_the_command_was_asked_to(url: str) -> None:
    async with make_app(url) as app:
        await (await app.engine()).submit(mails(1))
        async with looking(url, seen_as="asynq") as seen:
            await seen.press("g")
            await seen.write("m0")
            await seen.until("as asynq shows them")


async def test_search_finds_by_name_and_says_when_it_finds_nothing(url: str) -> None:
    async with make_app(url) as app:
        await (await app.engine()).submit(mails(2, tags=("vip",)))
        async with looking(url) as seen:
            await seen.until("mail")
            await seen.press("g")
            await seen.write("vip")
            await seen.until("Tasks: tag vip")
            await seen.press("g")
            await seen.write("nobody at all")
            await seen.until("No task was found")


async def test_search_leads_to_the_failures_of_a_name_that_nothing_else_has(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app(url)
    async with app:
        engine = await app.engine()
        await engine.submit(charges(-1))
        await ended(app, "c-1")
        await engine.submit(mails(9))
        monkeypatch.setattr("andon.stores.sqlite.reading.SCAN_BUDGET", 5)
        async with looking(url) as seen:
            await seen.press("g")
            await seen.write("shop.charge")
            await seen.until("Tasks: failed or")
            assert "c-1" in seen.text


async def test_every_key_is_told_by_the_help(url: str) -> None:
    async with make_app(url) as app:
        await (await app.engine()).submit(mails(1))
        async with looking(url, size=(80, 60)) as seen:
            await seen.press("2", "question_mark")
            text = await seen.until("Keys")
            for told in ("/ ", "Cancel all that match", "Dead letters", "Light or dark", "Quit"):
                assert told in text, told
            await seen.press("escape")
            await seen.until("m0", gone="Light or dark")


@pytest.mark.parametrize("light", [False, True])
async def test_it_is_light_or_dark_and_t_changes_it(url: str, light: bool) -> None:
    async with make_app(url) as app:
        await (await app.engine()).submit(mails(1))
        async with looking(url, light=light) as seen:
            await seen.until("mail")
            assert seen.top.current_theme.dark is not light
            await seen.press("t")
            assert seen.top.current_theme.dark is light
            assert "mail" in seen.text


async def test_a_terminal_of_another_size_is_filled(url: str) -> None:
    async with make_app(url) as app:
        await (await app.engine()).submit(mails(1))
        async with looking(url, size=(132, 50)) as seen:
            await seen.press("2")
            await seen.until("m0")
            await seen.pilot.resize_terminal(40, 12)
            await seen.until("m0")
            await seen.pilot.resize_terminal(80, 24)
            await seen.until("Filter")


async def test_what_is_typed_is_seen(url: str) -> None:
    async with make_app(url) as app:
        await (await app.engine()).submit([*mails(1), *charges(1)])
        async with looking(url) as seen:
            await seen.press("2", "slash")
            await seen.until("Which tasks?")
            await seen.press(*"queue", "equals_sign", *"mail")
            assert "▊" in (await seen.until("  queue=mail")).partition("  queue=mail")[0]
            await seen.press("enter")
            await seen.until("Tasks: queue mail", gone="c1 ")
