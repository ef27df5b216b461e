"""Acts by keys: each says first how many tasks it touches, and is done under a name."""

import pytest
from service.kit import serving
from tests.dashboard.kit import make_app

from andon import Andon
from andon.contract.requests import ClaimRequest
from andon.engine.base import Submission
from andon.model.errors import TaskFailed
from andon.service.trust.registry import Registry

from .kit import Seen, charges, ended, looking, mails


async def states(app: Andon, *ids: str) -> list[str]:
    engine = await app.engine()
    return ["gone" if task is None else task.state.value for task in await engine.get(ids)]


async def at_task(seen: Seen, task_id: str) -> None:
    await seen.press("g")
    await seen.write(task_id)
    await seen.until("Arguments")


@pytest.mark.parametrize(
    ("key", "delay", "asked", "state"),
    [
        ("c", 60, "Cancel 1 task?", "cancelled"),
        ("r", 60, "Run now 1 task?", "pending"),
        ("a", None, "Archive 1 task?", "failed"),
    ],
)
async def test_an_act_on_one_task(
    url: str, key: str, delay: float | None, asked: str, state: str
) -> None:
    async with make_app(url) as app:
        engine = await app.engine()
        await engine.submit(mails(1, delay=delay))
        async with looking(url) as seen:
            await at_task(seen, "m0")
            await seen.press(key)
            await seen.until(asked)
            await seen.press("n")
            await seen.until("Arguments", gone=asked)
            assert await states(app, "m0") != [state]
            await seen.press(key)
            await seen.until(asked)
            await seen.press("y")
            await seen.until("Task m0 ")
        assert await states(app, "m0") == [state]
        [task] = await engine.get(["m0"])
        assert task is not None
        assert task.status.events[-1].actor == "ann"


async def test_a_deleted_task_is_left(url: str) -> None:
    async with make_app(url) as app:
        await (await app.engine()).submit(mails(1))
        await (await app.engine()).cancel(["m0"])
        async with looking(url) as seen:
            await seen.press("2")
            await seen.until("m0")
            await seen.press("enter")
            await seen.until("Arguments")
            await seen.press("d")
            await seen.until("Delete 1 task?")
            await seen.press("y")
            await seen.until("No task is like that")
        assert await states(app, "m0") == ["gone"]


async def test_a_task_that_does_not_stop_is_cancelled_by_force(url: str) -> None:
    async with make_app(url) as app:
        engine = await app.engine()
        await engine.submit(mails(1))
        await engine.claim(
            ClaimRequest(worker="w", token="t", queues=("mail",), limit=1, lease_ms=600_000)
        )
        async with looking(url) as seen:
            await at_task(seen, "m0")
            await seen.press("c")
            await seen.until("Cancel 1 task?")
            await seen.press("y")
            await seen.until("asked to stop if it runs")
            await seen.until(lambda: seen.top.screen.view.can == ["cancel-by-force"])  # type: ignore[attr-defined]
            await seen.press("c")
            await seen.until("Cancel by force 1 task?")
            await seen.press("y")
            await seen.until("its run changes nothing any more")
        assert await states(app, "m0") == ["cancelled"]


async def test_what_a_state_does_not_allow_is_said_before_anything_is_asked(url: str) -> None:
    async with make_app(url) as app:
        await (await app.engine()).submit(mails(1))
        async with looking(url) as seen:
            await at_task(seen, "m0")
            await seen.press("d")
            await seen.until("A task that is pending cannot be: delete")


async def test_an_act_on_those_chosen_leaves_one_bad_task_alone(url: str) -> None:
    async with make_app(url) as app:
        engine = await app.engine()
        await engine.submit(mails(4))
        async with looking(url) as seen:
            await seen.press("2")
            await seen.until("m3")
            await seen.press("x", "x", "x")
            await seen.until("3 chosen")
            await engine.cancel(["m2"])
            await seen.press("a")
            assert "m2" in await seen.until("Archive 3 tasks?")
            await seen.press("n")
            await seen.until("3 chosen", gone="Archive 3 tasks?")
            await seen.press("a")
            await seen.until("Archive 3 tasks?")
            await seen.press("y")
            await seen.until("Archive: ✓ done")
            text = await seen.until("2 changed")
            assert "1 refused" in text
            await seen.press("escape")
            await seen.until("Archive: 2 tasks changed, 1 refused.", gone="chosen")
        assert await states(app, "m0", "m1", "m2", "m3") == [
            "pending", "failed", "cancelled", "failed",
        ]  # fmt: skip


async def test_an_act_on_all_that_match_says_how_many_and_does_no_more(url: str) -> None:
    async with make_app(url) as app:
        engine = await app.engine()
        await engine.submit([*mails(120), *charges(1, 2)])
        async with looking(url) as seen:
            await seen.press("2", "slash")
            await seen.write("pending queue=mail")
            await seen.until("queue mail  120")
            await seen.press("C")
            text = await seen.until("Cancel 120 tasks?")
            assert "pending, queue mail" in text
            assert set(await states(app, "m0", "m119")) == {"pending"}
            await seen.press("y")
            await seen.until("Cancel: ✓ done")
            await seen.press("escape")
            await seen.until("Cancel: 120 tasks changed, 0 refused.")
        assert await states(app, "m0", "m119", "c1") == ["cancelled", "cancelled", "pending"]


async def test_counting_that_has_not_ended_says_at_least(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("andon.dashboard.bulk.COUNT_S", -1.0)
    monkeypatch.setattr("andon.dashboard.bulk.MAX_BATCH", 40)
    async with make_app(url) as app:
        await (await app.engine()).submit(mails(100))
        async with looking(url) as seen:
            await seen.press("2", "slash")
            await seen.write("name=shop.remind")
            await seen.until("name shop.remind")
            await seen.press("C")
            await seen.until("Cancel at least 40 tasks?")
            await seen.press("g")
            await seen.until("Cancel at least 80 tasks?")
            await seen.press("g")
            await seen.until("Cancel 100 tasks?")
            await seen.press("y")
            await seen.until("Cancel: ✓ done")


async def test_dead_letters_of_one_cause_run_again(url: str) -> None:
    app = make_app(url)
    async with app:
        engine = await app.engine()
        await engine.submit(charges(-1, -2, -3))
        await engine.submit(
            [Submission(id="x", name="shop.charge", queue="billing", args=b'{"no": 1}')]
        )
        await ended(app, "c-1", "c-2", "c-3", "x")
        async with looking(url) as seen:
            await seen.press("3")
            await seen.until("Order # not found")
            await seen.press("enter")
            text = await seen.until("c-2")
            assert "x " not in text.splitlines()[4]
            await seen.press("escape")
            await seen.until("how many")
            await seen.press("r")
            await seen.until("Run again 3 tasks?")
            await seen.press("y")
            await seen.until("Run again: ✓ done")
        assert await states(app, "c-1", "c-2", "c-3", "x") == [
            "pending", "pending", "pending", "failed",
        ]  # fmt: skip


async def test_a_queue_is_paused_and_goes_on(url: str) -> None:
    async with make_app(url) as app:
        engine = await app.engine()
        await engine.submit(mails(3))
        async with looking(url) as seen:
            await seen.until("mail")
            await seen.press("p")
            assert "3 pending tasks" in await seen.until("Pause queue mail?")
            await seen.press("y")
            await seen.until("‖ paused")
            assert [queue.paused for queue in await engine.queues()] == [True]
            await seen.press("p")
            await seen.until("Let queue mail go on?")
            await seen.press("y")
            await seen.until("Queue mail goes on.", gone="‖ paused")
            assert [queue.paused for queue in await engine.queues()] == [False]
        acts = await engine.acts("ann")
        assert [one.act for one in acts] == ["configure-queue"] * len(acts)


async def test_a_schedule_is_paused_resumed_and_run(url: str) -> None:
    app = Andon(url)

    @app.task(name="shop.tidy", cron="0 0 1 1 *")
    async def tidy() -> None: ...

    async with app:
        async with app.working():
            pass
        async with looking(url) as seen:
            await seen.press("6")
            await seen.until("0 0 1 1 *")
            await seen.press("p")
            await seen.until("Pause schedule")
            await seen.press("y")
            await seen.until("‖ paused")
            await seen.press("p")
            await seen.until("go on?")
            await seen.press("y")
            await seen.until("goes on.", gone="‖ paused")
            await seen.press("r")
            await seen.until("It bears 1 task now")
            await seen.press("y")
            await seen.until("has borne one task now")
            await seen.press("l")
            await seen.until("Arguments")


async def test_what_failed_of_a_flow_runs_again_and_the_rest_is_cancelled(url: str) -> None:
    app = Andon(url)

    @app.task(name="shop.part", max_retries=0)
    async def part(n: int) -> int:
        raise ValueError("no")

    async with app:
        with app.flow("billing") as flow:
            flow.map(part, [1, 2])
        handle = await flow.submit()
        async with app.working():
            with pytest.raises(TaskFailed):
                await handle.result(timeout=60)
        async with looking(url) as seen:
            await seen.press("7")
            await seen.until("billing")
            await seen.press("enter")
            await seen.until("2 not completed")
            await seen.press("r")
            await seen.until("Run 2 tasks again")
            await seen.press("y")
            await seen.until("2 of 2 tasks started again.")
            await seen.press("c")
            await seen.until("Cancel 2 tasks of the flow?")
            await seen.press("y")
            await seen.until("2 of 2 tasks cancelled, or asked to stop.")


async def test_what_a_token_does_not_allow_is_refused_and_said(url: str) -> None:
    async with make_app(url) as app:
        engine = await app.engine()
        await engine.submit(mails(2))
        registry = Registry(engine.store)  # type: ignore[attr-defined]
        token, _ = await registry.create("ann", ["tasks:read:*", "queues:read:*"])
    with serving(make_app(url), require_token=True) as running:
        async with looking(running.url, token=token) as seen:
            await seen.until("mail")
            await seen.press("p")
            await seen.until("Pause queue mail?")
            await seen.press("y")
            await seen.until("queues:manage:mail")
            await seen.press("5")
            await seen.until("workers:read")
            await seen.press("2")
            await seen.until("m1")
            await seen.press("c")
            await seen.until("Cancel 1 task?")
            await seen.press("y")
            await seen.until("tasks:cancel:*")


async def test_quitting_asks_while_an_act_on_many_is_under_way(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_app(url) as app:
        await (await app.engine()).submit(mails(2))
        async with looking(url) as seen:
            await seen.until("mail")
            monkeypatch.setattr("andon.dashboard.bulk.Bulk.is_busy", True)
            await seen.press("q")
            await seen.until("Stop it and quit?")
            await seen.press("n")
            await seen.until("mail", gone="Stop it")
            monkeypatch.setattr("andon.dashboard.bulk.Bulk.is_busy", False)
            await seen.press("q")
            assert seen.top.return_code == 0


# --- what is written ---


async def test_a_task_gets_another_start_priority_and_arguments(url: str) -> None:
    async with make_app(url) as app:
        engine = await app.engine()
        await engine.submit(mails(1, delay=3600))
        async with looking(url) as seen:
            await at_task(seen, "m0")
            await seen.press("s")
            await seen.until("When is 1 task to start?")
            await seen.write("tomorrow")
            await seen.until("is no time")
            await seen.write("+2h")
            await seen.until("has another start")
            await seen.press("i")
            await seen.until("Which priority for 1 task?")
            await seen.write("highest")
            await seen.until("Task m0 has priority 3.")
            await seen.press("e")
            await seen.until("Other arguments for 1 task?")
            await seen.until('["ann"]')
            await seen.write("17")
            await seen.until("⚠ Arguments are a JSON object")
            await seen.press("e")
            await seen.until("Other arguments for 1 task?")
            await seen.write('["bob"]')
            await seen.until("predecessor")
        [task] = await engine.get(["m0"])
        assert task is not None
        assert task.state == "cancelled"
        assert task.status.priority == 3
        [after] = await engine.get([task.status.successor])
        assert after is not None
        assert after.definition.args == b'["bob"]'
        assert after.definition.predecessor == "m0"


async def test_a_change_that_a_state_does_not_take_is_said(url: str) -> None:
    async with make_app(url) as app:
        await (await app.engine()).submit(mails(1))
        await (await app.engine()).cancel(["m0"])
        async with looking(url) as seen:
            await at_task(seen, "m0")
            await seen.press("e")
            await seen.until("A task that is cancelled takes no other arguments.")


async def test_limits_of_a_queue_are_changed_and_taken_away(url: str) -> None:
    async with make_app(url) as app:
        engine = await app.engine()
        await engine.submit(mails(1))
        await engine.configure_queue("mail", {"max_size": 9})
        async with looking(url) as seen:
            await seen.until("at most 9 pending")
            await seen.press("e")
            await seen.until("Limits of queue mail")
            await seen.write("rate_limit=fast")
            await seen.until("is no rate")
            await seen.write("rate_limit=300/m max_size=")
            await seen.until("5/s", gone="at most 9")
        [queue] = await engine.queues()
        assert (queue.rate_limit, queue.max_size) == (5.0, None)
