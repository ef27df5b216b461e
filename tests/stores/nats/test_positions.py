"""What is read by place, and by two structs, has its fields in one order."""

from msgspec.structs import fields

from andon.model.task import TaskEvent
from andon.stores.nats import daily_history


def names_in(struct: type) -> list[tuple[str, bool]]:
    return [(field.name, field.required) for field in fields(struct)]


def test_a_move_that_is_counted_has_the_first_fields_of_an_event() -> None:
    counted = [name for name, _ in names_in(daily_history._Move)]
    assert counted == [name for name, _ in names_in(TaskEvent)][: len(counted)]
