"""The stored form of events, as older and newer releases read and write it."""

import msgspec
import pytest

from andon.model.task import TaskError, TaskEvent
from andon.model.words import Event, State
from andon.stores.kit.codec import decode_event, encode_event

FIELDS_BEFORE = tuple(TaskEvent.__struct_fields__[:12])

TaskEventBefore = msgspec.defstruct(
    "TaskEventBefore",
    [(name, msgspec.Raw) for name in FIELDS_BEFORE],
    array_like=True,
)
"""The event as releases before actors know it."""

PLAIN = TaskEvent(3, 5, Event.FAIL, State.ACTIVE, State.RETRY, None, 0, "w", "id", TaskError("no"))
BY_HAND = TaskEvent(4, 6, Event.CANCEL, State.RETRY, State.CANCELLED, write_id="x", actor="ann")


@pytest.mark.parametrize("event", [PLAIN, BY_HAND], ids=["plain", "by-hand"])
def test_an_event_is_read_as_it_was_written(event: TaskEvent) -> None:
    expected = msgspec.structs.replace(event, task="t")
    assert decode_event(encode_event(event, "t")) == expected


def test_an_event_without_an_actor_is_stored_as_ever() -> None:
    assert len(msgspec.msgpack.decode(encode_event(PLAIN, "t"))) == len(FIELDS_BEFORE)


def test_an_older_release_skips_the_actor() -> None:
    for written in (encode_event(BY_HAND, "t"), msgspec.msgpack.encode(BY_HAND)):
        read = msgspec.msgpack.decode(written, type=TaskEventBefore)
        packed: tuple[msgspec.Raw, ...] = msgspec.structs.astuple(read)
        assert msgspec.msgpack.decode(packed[2]) == "cancel"
        assert msgspec.msgpack.decode(packed[8]) == "x"


def test_an_event_of_an_older_release_has_no_actor() -> None:
    whole = msgspec.msgpack.decode(msgspec.msgpack.encode(PLAIN))
    before = msgspec.msgpack.encode(whole[: len(FIELDS_BEFORE)])
    assert decode_event(before) == PLAIN
