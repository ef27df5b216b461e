"""Messages in a real broker: what its consumers get, with an unmodified client's bindings, and what
becomes of it when the broker dies."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aio_pika
import pytest
from ports import free_port
from tests.service.kit import Running, eventually, serving
from tests.taskcluster.environments import python_with, run_script
from tests.taskcluster.kit import Queue, own_queue, slugid
from tests.taskcluster.shaped import check_body

from andon import Andon
from andon.lifecycle.backoff import ExponentialBackoff
from andon.service.taskcluster.messages import delivery
from andon.service.taskcluster.messages.broker import Broker
from andon.service.taskcluster.messages.configuration import read_message_settings
from andon.service.taskcluster.messages.exchanges import ALL, Message
from andon.service.taskcluster.settings import TaskclusterSettings

from .listening import NAMES
from .rabbit import Rabbit
from .receiving import SECRET, Receiver

PROGRAMS = Path(__file__).parents[1] / "programs"
ONE_LIFE = ["task-defined", "task-pending", "task-running", "task-completed", "task-group-resolved"]
WAIT_S = 60.0


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rabbit]:
    rabbit = Rabbit(tmp_path_factory.mktemp("rabbit"))
    try:
        rabbit.start()
        yield rabbit
    finally:
        rabbit.close()


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try again soon: no test waits for a second."""
    defaults = delivery.Delivery.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "pauses", ExponentialBackoff(0.05, 0.2))


def face(folder: Path, text: str) -> TaskclusterSettings:
    path = folder / "messages.toml"
    path.write_text(text)
    return TaskclusterSettings(messages=read_message_settings(path))


def to(url: str) -> str:
    return f'[amqp.pulse]\nurl = "{url}"\ntimeout = 5\n'


def live(running: Running, **fields: Any) -> str:
    with running.client() as http:
        queue, of_its_own = Queue(http), own_queue()
        task_id = queue.create(fields.pop("task_id", ""), taskQueueId=of_its_own, **fields)
        assert queue.claim(queue=of_its_own)
        assert queue.report(task_id, 0, "completed").status_code == 200
    return task_id


class Consumer:
    """A queue of its own in the broker, and what came into it."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue
        self.taken: list[Any] = []

    async def until(self, count: int) -> list[Any]:
        """So many messages, once they are there."""
        async with asyncio.timeout(WAIT_S):
            while len(self.taken) < count:
                message = await self._queue.get(timeout=WAIT_S, fail=False)
                if message is None:
                    await asyncio.sleep(0.02)
                    continue
                await message.ack()
                check_body(message.exchange or "", message.body)
                self.taken.append(message)
        return self.taken


@asynccontextmanager
async def bound(
    rabbit: Rabbit, bindings: list[tuple[str, str]], name: str = ""
) -> AsyncIterator[Consumer]:
    """A queue bound so, once the exchanges are there: with a name it outlives its consumer."""
    connection = await aio_pika.connect(rabbit.url)
    async with connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(name or None, durable=bool(name), exclusive=not name)
        for exchange, pattern in bindings:
            declared = await channel.declare_exchange(
                NAMES + exchange, aio_pika.ExchangeType.TOPIC, durable=True
            )
            await queue.bind(declared, pattern)
        yield Consumer(queue)


EVERYTHING = [(exchange.value, "primary.#") for exchange in sorted(ALL)]


def named(messages: list[Any], task_id: str) -> list[str]:
    return [
        one.exchange.removeprefix(NAMES)
        for one in messages
        if task_id in one.routing_key.split(".")
    ]


async def test_consumers_get_what_happens_in_order_and_whole(tmp_path: Path, rabbit: Rabbit):
    app = Andon(f"sqlite:///{tmp_path}/tasks.db")
    async with bound(rabbit, EVERYTHING) as consumer:
        with serving(app, taskcluster=face(tmp_path, to(rabbit.url))) as running:
            ids = [await asyncio.to_thread(live, running, routes=["index.a"]) for _ in range(3)]
            messages = await consumer.until(15)
    assert [named(messages, task_id) for task_id in ids] == [ONE_LIFE] * 3
    first = messages[0]
    assert first.content_type == "application/json"
    assert first.delivery_mode is aio_pika.DeliveryMode.PERSISTENT
    assert first.headers["CC"] == ["route.index.a"]
    assert len({one.message_id for one in messages}) == 15
    assert json.loads(first.body)["status"]["taskId"] == ids[0]


async def test_bindings_of_the_clients_event_classes_and_routes_get_theirs(
    tmp_path: Path, rabbit: Rabbit
):
    task_id, group = slugid(), slugid()
    asked: Any = await asyncio.to_thread(
        run_script,
        [python_with("python"), PROGRAMS / "events.py"],
        {
            "taskDefined": {"taskId": task_id},
            "taskPending": {"taskId": task_id, "runId": "0"},
            "taskRunning": {"workerGroup": "us-east", "taskId": task_id},
            "taskCompleted": {"taskGroupId": group},
            "taskGroupResolved": {"taskGroupId": group},
        },
    )
    bindings = [
        (one["exchange"].removeprefix(NAMES), one["routingKeyPattern"]) for one in asked.values()
    ]
    app = Andon(f"sqlite:///{tmp_path}/tasks.db")
    async with (
        bound(rabbit, bindings) as consumer,
        bound(rabbit, [("task-completed", "route.index.*.latest")]) as by_route,
    ):
        with serving(app, taskcluster=face(tmp_path, to(rabbit.url))) as running:
            await asyncio.to_thread(live, running)
            await asyncio.to_thread(
                live, running, task_id=task_id, taskGroupId=group, routes=["index.a.latest", "x"]
            )
            messages = await consumer.until(5)
            [routed] = await by_route.until(1)
    assert [one.exchange.removeprefix(NAMES) for one in messages] == ONE_LIFE
    assert routed.routing_key.startswith(f"primary.{task_id}.")


@pytest.mark.slow
async def test_a_broker_that_is_killed_and_started_again_misses_nothing(
    tmp_path: Path, rabbit: Rabbit
):
    app = Andon(f"sqlite:///{tmp_path}/tasks.db")
    name = f"q{slugid()}"
    async with bound(rabbit, EVERYTHING, name):
        pass
    with serving(app, taskcluster=face(tmp_path, to(rabbit.url))) as running:
        ids = [await asyncio.to_thread(live, running) for _ in range(5)]
        rabbit.kill()
        ids += [await asyncio.to_thread(live, running) for _ in range(5)]
        await asyncio.to_thread(rabbit.start)
        ids += [await asyncio.to_thread(live, running)]
        async with bound(rabbit, [], name) as consumer:
            async with asyncio.timeout(WAIT_S):
                count = 5 * len(ids)
                while len({one.message_id for one in await consumer.until(count)}) < 5 * len(ids):
                    count += 1  # one of them came twice
    for task_id in ids:
        came = list(dict.fromkeys(named(consumer.taken, task_id)))
        assert came == ONE_LIFE, "in order, whatever came again"


def test_a_broker_that_is_not_there_holds_up_no_other_sink(tmp_path: Path):
    app = Andon(f"sqlite:///{tmp_path}/tasks.db")
    receiver = Receiver()
    (tmp_path / "secret").write_text(SECRET)
    text = to(f"amqp://guest:guest@127.0.0.1:{free_port()}/")
    text += f'[webhook.hook]\nurl = "{receiver.url}"\nsecret_file = "secret"\n'
    try:
        with serving(app, taskcluster=face(tmp_path, text)) as running:
            live(running)
            eventually(lambda: len(receiver.taken) == 5)
    finally:
        receiver.close()


async def test_one_message_that_cannot_be_published_is_passed_over(
    tmp_path: Path,
    rabbit: Rabbit,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    made_of = Broker._made_of  # pyright: ignore[reportPrivateUsage]

    def fails(self: Broker, message: Message) -> Any:
        if message.exchange == "task-running":
            raise ValueError("it does not fit")
        return made_of(self, message)

    monkeypatch.setattr(Broker, "_made_of", fails)
    app = Andon(f"sqlite:///{tmp_path}/tasks.db")
    async with bound(rabbit, EVERYTHING) as consumer:
        with serving(app, taskcluster=face(tmp_path, to(rabbit.url))) as running:
            task_id = await asyncio.to_thread(live, running)
            messages = await consumer.until(4)
    assert named(messages, task_id) == [one for one in ONE_LIFE if one != "task-running"]
    assert "A message for amqp.pulse is passed over (task-running primary." in caplog.text


async def test_an_exchange_that_is_of_another_kind_is_said_and_tried_again(
    tmp_path: Path, rabbit: Rabbit, caplog: pytest.LogCaptureFixture
):
    app = Andon(f"sqlite:///{tmp_path}/tasks.db")
    connection = await aio_pika.connect(rabbit.url)
    async with connection:
        channel = await connection.channel()
        name = NAMES + "task-defined"
        await channel.exchange_delete(name)
        wrong = await channel.declare_exchange(name, aio_pika.ExchangeType.FANOUT)
        async with bound(rabbit, [("task-pending", "primary.#")]) as consumer:
            with serving(app, taskcluster=face(tmp_path, to(rabbit.url))) as running:
                await asyncio.to_thread(live, running)
                await asyncio.to_thread(eventually, lambda: "PRECONDITION_FAILED" in caplog.text)
                await wrong.delete(if_unused=False)
                await consumer.until(1)
    assert "Messages for amqp.pulse cannot be delivered, and are tried again in" in caplog.text
