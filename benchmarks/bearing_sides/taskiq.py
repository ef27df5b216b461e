"""taskiq's scheduler, with its stream broker on Redis. It has no groups with a closing task."""

from taskiq import TaskiqScheduler
from taskiq.schedule_sources import LabelScheduleSource
from taskiq_redis import RedisStreamBroker

from bearing_sides import shape

broker = RedisStreamBroker(shape.URL, queue_name="side", idle_timeout=shape.SOON_S * 1000)
plan = TaskiqScheduler(broker, [LabelScheduleSource(broker)])


@broker.task(task_name="tick", schedule=[{"interval": 1}])
async def tick() -> None:
    shape.tick()


groups = None


def worker() -> list[str]:
    options = ["--workers", "1", "--log-level", "WARNING"]
    return [shape.program("taskiq"), "worker", "bearing_sides.taskiq:broker", *options]


def scheduler() -> list[str]:
    return [shape.program("taskiq"), "scheduler", "bearing_sides.taskiq:plan"]
