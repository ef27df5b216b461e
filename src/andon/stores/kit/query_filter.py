"""Whether a record is one that a query asks for: what filters the axis that a store walks."""

from andon.lifecycle.apply import is_dead_letter
from andon.model.task import Task
from andon.stores.base import Query


def matches(query: Query, task: Task) -> bool:
    """Whether the record satisfies every filter of the query."""
    definition, status = task.definition, task.status
    return (
        (not query.states or status.state in query.states)
        and (query.queue is None or definition.queue == query.queue)
        and (query.id_prefix is None or definition.id.startswith(query.id_prefix))
        and (query.name is None or definition.name == query.name)
        and (query.worker is None or status.worker == query.worker)
        and (query.tag is None or query.tag in definition.tags)
        and (query.key is None or definition.key == query.key)
        and (query.group is None or definition.group == query.group)
        and (not query.dead_letters or is_dead_letter(task, status))
    )
