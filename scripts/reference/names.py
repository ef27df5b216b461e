"""Which name is on which page of the reference, and which names are nobody's business."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "reference"
SETTING = FOLDER / "shop.py"
"""The application that the examples take place in."""


@dataclass(frozen=True)
class Page:
    """One page: names below `andon`, in the order in which they are listed."""

    slug: str
    title: str
    intro: str
    names: tuple[str, ...]


PAGES = (
    Page(
        "application",
        "The application",
        "Where task types are declared, and the way to the store. The [guide](../guide.md) shows "
        "how it is used.",
        (
            "Andon",
            "client.options.TaskOptions",
            "client.options.SubmitOptions",
        ),
    ),
    Page(
        "board",
        "The board",
        "Mounted in an application of yours, and who looks at it there. [The board](../board.md) "
        "shows its pages.",
        ("dashboard.board.Board", "dashboard.access.Visitor"),
    ),
    Page(
        "submitting",
        "Task types and submits",
        "What `@app.task` makes of a function, and what a submit answers.",
        ("TaskFunction", "Draft", "Submitted", "engine.base.Submission"),
    ),
    Page(
        "tasks",
        "Tasks that were submitted",
        "Handles on one task, and what may be asked about many.",
        (
            "TaskHandle",
            "TaskView",
            "client.views.RunView",
            "client.views.EventView",
            "client.tasks.Tasks",
            "client.tasks.TaskFilters",
            "engine.base.ActionResult",
            "model.task.TaskError",
            "acting_as",
            "artifacts.Artifact",
            "artifacts.LogLine",
        ),
    ),
    Page(
        "flows",
        "Flows",
        "Tasks that depend on one another, put together and looked at as one. "
        "[flows.md](../flows.md) tells it as a whole.",
        (
            "Flow",
            "client.flow_steps.Step",
            "client.flow_steps.Group",
            "client.flow_steps.Chain",
            "FlowHandle",
            "client.flow_handle.Flows",
            "engine.flows.FlowSummary",
            "model.groups.GroupRecord",
            "model.groups.GroupHappening",
            "lifecycle.flows.FlowProgress",
            "lifecycle.flows.FlowNode",
            "lifecycle.flows.FlowFailure",
            "engine.bulk.Tally",
        ),
    ),
    Page(
        "queues",
        "Queues",
        "Declared beside the tasks that use them, configured, paused and listed.",
        (
            "Queue",
            "client.queues.Queues",
            "client.queues.QueueSettings",
            "client.queues.QueueView",
            "model.fleet.QueueConfig",
            "model.fleet.QueueStats",
            "model.fleet.DayCounts",
        ),
    ),
    Page(
        "schedules",
        "Schedules",
        "Tasks at the times of a clock, declared beside their code or made by hand.",
        (
            "Schedule",
            "client.recurring.ScheduleOptions",
            "client.schedules.Schedules",
            "client.schedules.ScheduleView",
            "model.recurrence.Recurrence",
            "model.recurrence.ExplainedTime",
            "model.recurrence.Occurrence",
            "model.recurrence.Range",
            "engine.schedule_requests.ScheduleOutcome",
            "engine.schedule_requests.Backfilled",
        ),
    ),
    Page(
        "handlers",
        "Inside a handler",
        "What a handler can know of its run, and say while it runs.",
        (
            "Context",
            "current",
            "Retry",
            "Snooze",
            "Terminate",
            "worker.control.Stopped",
            "worker.dependency.Dependency",
            "worker.follow_ups.FollowUp",
            "worker.follow_ups.FansOut",
        ),
    ),
    Page(
        "workers",
        "Workers, middleware and lifespan",
        "What runs tasks, and what may be put around them: "
        "[middleware.md](../middleware.md) tells it as a whole.",
        (
            "worker.worker.Worker",
            "client.app.WorkerSettings",
            "worker.config.WorkerConfig",
            "client.middleware.Middleware",
            "worker.handler_runner.Middleware",
            "model.fleet.WorkerInfo",
        ),
    ),
    Page(
        "signing",
        "Signed tasks",
        "Keys of those who submit, and those that a worker trusts. [signing.md](../signing.md) "
        "tells how tasks are signed, and what is refused.",
        ("signing.SigningKey", "signing.TrustedKeys"),
    ),
    Page(
        "policies",
        "Policies and words",
        "The rules that a task carries with it, and the words for where it stands and why. What "
        "they do to a task is told in [lifecycle.md](../lifecycle.md).",
        (
            "model.policy.Policy",
            "model.policy.Retention",
            "client.policies.Policies",
            "Backoff",
            "State",
            "Reason",
            "model.words.Event",
        ),
    ),
    Page(
        "sync",
        "Code that is not async",
        "The same application for scripts and Django: `app.sync`.",
        (
            "client.sync.SyncApp",
            "client.sync.SyncTaskFunction",
            "client.sync.SyncHandle",
            "client.sync.SyncTasks",
            "client.sync.SyncSchedules",
            "client.sync.SyncFlow",
            "client.flow_handle.SyncFlowHandle",
            "client.sync.SyncFlows",
            "client.sync.SyncQueues",
            "client.sync.SyncPolicies",
        ),
    ),
    Page(
        "errors",
        "Errors",
        "All of them are in `andon.errors`. What to do about each is told in "
        "[troubleshooting.md](../troubleshooting.md#errors).",
        (
            "errors.AndonError",
            "errors.InvalidSubmission",
            "errors.PayloadTooLarge",
            "errors.FlowNotFound",
            "errors.TaskConflict",
            "errors.FlowConflict",
            "errors.GroupNotFound",
            "errors.GroupRefused",
            "errors.UniqueKeyHeld",
            "errors.QueueFull",
            "errors.QueueNotEmpty",
            "errors.WorkerNotFound",
            "errors.SubmissionsRefused",
            "errors.TaskNotFound",
            "errors.TaskFailed",
            "errors.TaskCancelled",
            "errors.InvalidTransition",
            "errors.LeaseLost",
            "errors.ArtifactConflict",
            "errors.ArtifactNotFound",
            "errors.ConfigurationError",
            "errors.StoreError",
            "errors.StoreUnavailable",
            "errors.StoreIncompatible",
            "errors.AccessError",
            "errors.AuthenticationFailed",
            "errors.PermissionRefused",
        ),
    ),
    Page(
        "testing",
        "Testing",
        "An application in memory and in virtual time. "
        "[examples/testing_your_tasks.py](../../examples/testing_your_tasks.py) is a test file to "
        "begin with.",
        (
            "testing.running",
            "testing.TestApp",
            "testing.virtual_time",
            "testing.run_virtual",
            "testing.VirtualLoop",
            "testing.StillRunning",
            "testing.NothingLeft",
            "testing.plugin.andon_app",
            "testing.plugin.andon_test",
        ),
    ),
    Page(
        "telemetry",
        "Telemetry",
        "Middleware for OpenTelemetry, see [observability.md](../observability.md).",
        ("telemetry.Tracing", "telemetry.Metrics"),
    ),
    Page(
        "types",
        "Types in signatures",
        "What the signatures on the other pages name.",
        (
            "client.options.Moment",
            "client.options.Errors",
            "client.options.BackoffFunction",
            "worker.follow_ups.HasId",
            "client.flow_steps.Part",
            "client.flow_steps.TakesOne",
            "client.ids.IdMaker",
            "model.policy.PolicyOptions",
            "contract.queries.Query",
            "worker.context.StopReason",
            "worker.files.Content",
            "worker.worker.Lifespan",
        ),
    ),
    Page(
        "jobs",
        "Jobs over HTTP",
        "A client for a service's jobs, see [http.md](../http.md).",
        (
            "client.jobs.JobsClient",
            "client.jobs.Job",
            "client.jobs.Entry",
            "client.jobs.JobRefused",
        ),
    ),
)

FIRST = {
    "client.app.Andon": "task command submit draft submit_many submit_stream flow flows queues "
    "tasks schedules workers handle get find",
}
"""What a page tells first of a class that is made of several; the rest follows in the order of the
source, that of base classes before its own."""

INNER = {
    "client.app.Andon": "as_sent bridge connections declared_queues declared_schedules engine "
    "engine_on follow_draft functions live_at measure measured new_id prepare profile_default "
    "records_invalid registry sending sent signing send_drafts submit_draft worker_config "
    "worker_middleware",
    "dashboard.board.Board": "__init__ is_here live",
    "client.function.TaskFunction": "__init__ app chosen_id draft_call draft_of type",
    "client.drafts.Draft": "codec connection follow returns_holder submission",
    "client.handle.TaskHandle": "app",
    "client.flows.Flow": "__init__ app fan_out",
    "client.sync.SyncFlow": "__init__ app fan_out",
    "client.flow_steps.Step": (
        "__init__ check codec draft firsts lasts need parents submission takes_any_end tie wait_for"
    ),
    "client.flow_steps.Group": "__init__ firsts lasts",
    "client.flow_steps.Chain": "__init__ firsts lasts",
    "client.flow_handle.FlowHandle": "__init__ app",
    "client.flow_handle.SyncFlowHandle": "__init__ bridge inner",
    "client.flow_handle.Flows": "__init__",
    "client.sync.SyncFlows": "__init__ bridge inner",
    "engine.bulk.Tally": "count",
    "client.queues.Queue": "changes digest",
    "client.sync.SyncApp": "__init__ bridge inner submit_draft",
    "client.function.SyncTaskFunction": "__init__ bridge inner",
    "client.handle.SyncHandle": "__init__ bridge inner",
    "client.sync.SyncTasks": "__init__ bridge inner",
    "client.sync.SyncSchedules": "__init__ bridge inner",
    "client.sync.SyncQueues": "__init__ bridge inner",
    "client.sync.SyncPolicies": "__init__ bridge inner",
    "client.ids.IdMaker": "forget",
    "client.queues.Queues": "__init__",
    "client.policies.Policies": "__init__",
    "client.tasks.Tasks": "__init__",
    "client.schedules.Schedules": "__init__",
    "client.schedules.ScheduleView": "of",
    "client.recurring.Schedule": "args kwargs overlap pause_after recurrence",
    "worker.worker.Worker": "__init__",
    "client.views.EventView": "of",
    "client.views.RunView": "of",
    "client.views.TaskView": "of",
    "worker.context.Context": "__init__ beat_at message percent task task_waits unmark",
    "worker.dependency.Dependency": "of",
    "signing.keys.SigningKey": "sign",
    "signing.checking.TrustedKeys": "refusal",
    "telemetry.metrics.Metrics": "instruments",
    "telemetry.tracing.Tracing": "around on_submit",
    "testing.app.TestApp": "__init__ engine",
    "testing.clock.VirtualLoop": "moved run_in_executor shutdown_default_executor thread_waits "
    "time wall_ms",
    "model.fleet.QueueConfig": "declared",
    "engine.base.Submission": "invalid",
}
"""Members that one part of Andon has for another, and no user asks for; `__init__` of what no user
makes."""

UNNAMED: frozenset[str] = frozenset()
"""Classes that a public signature names and that are no more than what they are called there."""
