"""Dramatiq on Redis: groups with a callback. It has no scheduler of its own."""

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import GroupCallbacks
from dramatiq.rate_limits.backends import RedisBackend

from bearing_sides import shape

broker = RedisBroker(url=shape.URL, heartbeat_timeout=shape.SOON_S * 1000)
broker.add_middleware(GroupCallbacks(RedisBackend(url=shape.URL)))
dramatiq.set_broker(broker)


@dramatiq.actor(actor_name="member", broker=broker)
def member(group: int, number: int) -> None:
    shape.member(group, number)


@dramatiq.actor(actor_name="closing", broker=broker)
def closing(group: int) -> None:
    shape.line("closing", group)


def groups(count: int) -> None:
    for number in range(count):
        messages = [member.message(number, one) for one in range(shape.MEMBERS)]
        group = dramatiq.group(messages)
        group.add_completion_callback(closing.message(number))
        group.run()


def worker() -> list[str]:
    options = ["--processes", "1", "--threads", str(shape.AT_ONCE)]
    return [shape.program("dramatiq"), "bearing_sides.dramatiq:broker", *options]


scheduler = None
