"""`andon` itself: the table of its commands, and how errors become one sentence and an exit code.

Exit codes: 0 done, 1 failed, 2 used wrongly, 130 interrupted.
"""

import os
from typing import Any

import click

from andon.cli.errors import CommandFailed, sentence
from andon.cli.lazy import Entry, LazyGroup
from andon.cli.session import Session

_RUN, _TASKS, _FLEET, _STORE = "Run", "Tasks", "Queues and workers", "Store"

COMMANDS = {
    "dev": Entry("andon.cli.dev:dev", "Run an application and restart it when it changes.", _RUN),
    "worker": Entry("andon.cli.worker:worker", "Run an application's tasks.", _RUN),
    "serve": Entry(
        "andon.cli.serve:serve", "Serve an application's tasks over HTTP, and the board at /.", _RUN
    ),
    "demo": Entry("andon.cli.demo:demo", "Watch a real job go through Andon.", _RUN),
    "submit": Entry("andon.cli.submit:submit", "Submit a task, or a file of them.", _TASKS),
    "tasks": Entry("andon.cli.tasks:tasks", "List, show and act on tasks.", _TASKS),
    "flows": Entry("andon.cli.flows:flows", "List, show, cancel and rerun flows.", _TASKS),
    "groups": Entry("andon.cli.groups:groups", "Show and seal groups of tasks.", _TASKS),
    "wait": Entry("andon.cli.wait:wait", "Wait until tasks have ended.", _TASKS),
    "logs": Entry("andon.cli.runlogs:logs", "Print what the runs of a task have logged.", _TASKS),
    "artifacts": Entry(
        "andon.cli.artifacts:artifacts", "List and fetch what runs left behind.", _TASKS
    ),
    "events": Entry("andon.cli.events:events", "Print the moves of tasks.", _TASKS),
    "schedules": Entry(
        "andon.cli.schedules:schedules", "List, make, pause and backfill schedules.", _TASKS
    ),
    "dlq": Entry("andon.cli.dlq:dlq", "Browse, resubmit and purge dead letters.", _TASKS),
    "queues": Entry("andon.cli.queues:queues", "List, make, pause and delete queues.", _FLEET),
    "policies": Entry(
        "andon.cli.policies:policies", "List, set and delete named retry policies.", _FLEET
    ),
    "workers": Entry(
        "andon.cli.workers:workers",
        "List workers, remove those that are gone, and quarantine those of other systems.",
        _FLEET,
    ),
    "alerts": Entry("andon.cli.alerts:alerts", "List, make, test and apply alert rules.", _FLEET),
    "top": Entry("andon.cli.top:top", "Watch and steer tasks, queues and workers live.", _FLEET),
    "audit": Entry(
        "andon.cli.audit:audit",
        "List what was done by hand, the newest first, and by whom.",
        _STORE,
    ),
    "storage": Entry("andon.cli.storage:storage", "Set up, describe and copy the store.", _STORE),
    "token": Entry(
        "andon.cli.token:token", "Make, list and revoke the tokens that a service asks for.", _STORE
    ),
    "keys": Entry("andon.cli.keys:keys", "Make and show the keys that sign tasks.", _STORE),
    "doctor": Entry("andon.cli.doctor:doctor", "Check what is promised and what is wrong.", _STORE),
    "bench": Entry("andon.cli.bench:bench", "Measure this store on this machine.", _STORE),
}


class Root(LazyGroup):
    """The group behind `andon`; the one place where errors are printed."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; an error becomes one sentence, or a traceback with --debug."""
        session = ctx.ensure_object(Session)
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except KeyboardInterrupt:
            raise click.exceptions.Exit(130) from None
        except Exception as error:
            if session.debug or os.environ.get("ANDON_DEBUG"):
                raise
            raise CommandFailed(sentence(error)) from error


@click.group(
    cls=Root,
    entries=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="andon", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show tracebacks (also: ANDON_DEBUG=1).")
@click.pass_context
def root(ctx: click.Context, debug: bool) -> None:
    """Andon, a durable task queue.

    Every command takes --url (or ANDON_URL; by default sqlite:///andon.db in the current folder),
    --json, and --as PROFILE to see tasks as jobbers, asynq, cbintel, choria or taskcluster would
    show them.
    """
    ctx.ensure_object(Session).debug = debug
