"""The topics to hint after a write, made from its effects, in one spelling for all stores; and the
kinds of topics, for hints that cannot name each topic.

Not included: the task's own topic, which stores send with all ids of a batch at once; and the topic
of a limit that has room again, which only the store can know.
"""

from collections.abc import Iterator

from andon.contract.topics import EVENTS_TOPIC, TIMER_TOPIC, control_topic, ready_topic
from andon.lifecycle.constants import NEAR_TIMER_MS
from andon.lifecycle.effects import Effects


def topics_of(effects: Effects, now: int) -> Iterator[str]:
    """What a write at `now` (ms UTC) hints."""
    yield EVENTS_TOPIC
    if effects.ready_in is not None:
        yield ready_topic(effects.queue)
    if effects.interrupts:
        yield control_topic(effects.interrupts)
    timer = effects.timer
    if timer is not None and timer - now < NEAR_TIMER_MS:
        yield TIMER_TOPIC


def kind_of(topic: str) -> str:
    """The kind of a topic: `ready` of `ready:emails`."""
    return topic.partition(":")[0]
