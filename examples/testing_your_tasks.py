"""Test tasks in virtual time: a day passes at once, and nothing sleeps. Run it with pytest."""

import logging

from andon import Andon, State
from andon.testing import running, virtual_time

app = Andon()


@app.task(name="mail", retry_delay=60, backoff="constant", max_retries=2)
async def mail(to: str) -> None:
    raise ConnectionError(f"no route to {to}")


@app.task(name="remind")
async def remind(to: str) -> None:
    await mail.submit(to)


@virtual_time
async def test_a_reminder_is_sent_a_day_later() -> None:
    async with running(app) as t:
        await remind.submit_in(86_400, "ann@example.org")
        await t.advance(hours=23)
        assert not await t.submitted("mail")
        await t.advance(hours=1)
        assert [task.args for task in await t.submitted("mail")] == [{"to": "ann@example.org"}]


@virtual_time
async def test_mail_is_tried_three_times_a_minute_apart() -> None:
    async with running(app) as t:
        task = await t.run_until(await mail.submit("ann@example.org"))
        assert task.state is State.FAILED
        assert task.error is not None
        assert task.error.message == "no route to ann@example.org"
        starts = [run.claimed_at for run in task.runs if run.claimed_at is not None]
        assert [round((start - starts[0]).total_seconds()) for start in starts] == [0, 60, 120]


if __name__ == "__main__":
    logging.disable()  # the failures that it would tell of are what is tested
    test_a_reminder_is_sent_a_day_later()
    test_mail_is_tried_three_times_a_minute_apart()
    print("Both hold.")
