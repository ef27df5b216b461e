"""The routes that `HttpEngine` calls: the engine's own methods, with whole records.

Not part of the documented interface: both ends are Andon's, and all other clients use
`/api/v1/tasks` and `/api/v1/runs`. The scopes are the same.
"""

from typing import Any

from litestar import Router

from andon.service.routes.engine import (
    alerts,
    claiming,
    control,
    fleet,
    reading,
    running,
    schedules,
)

_HANDLERS: list[Any] = [
    running.submit,
    running.claim,
    running.renew,
    running.report,
    running.dependencies,
    control.cancel,
    control.retry,
    control.end_runs,
    control.act,
    control.edit,
    control.acts,
    schedules.put_schedules,
    schedules.act_on_schedules,
    schedules.backfill_schedule,
    alerts.alerts,
    reading.get,
    reading.history,
    reading.find,
    reading.dependents,
    claiming.claiming_workers,
    claiming.claiming_worker,
    claiming.claimed_queues,
    claiming.quarantine_worker,
    reading.group,
    reading.seal_group,
    reading.letter_groups,
    reading.events,
    reading.events_end,
    reading.attend,
    fleet.stats,
    fleet.queue_history,
    fleet.minutes,
    fleet.queues,
    fleet.configure_queue,
    fleet.delete_queue,
    fleet.policies,
    fleet.put_policy,
    fleet.delete_policy,
    fleet.types,
    fleet.publish_types,
    fleet.keep_code,
    fleet.waits,
    fleet.workers,
    fleet.put_worker,
    fleet.remove_worker,
    fleet.partitions,
    fleet.info,
]

router = Router("/api/v1/engine", route_handlers=_HANDLERS, include_in_schema=False)
