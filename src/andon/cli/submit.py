"""`andon submit`: one task from the command line, or many from a file."""

from typing import TYPE_CHECKING, Any

import click

from andon.cli.arguments import args_of, json_or_text, priority_of
from andon.cli.ids import sure_ids
from andon.cli.last import remember
from andon.cli.session import PROFILE_NAMES, Session, common, refuse_nowhere
from andon.cli.values import DURATION, WHEN, When, comma_separated
from andon.lifecycle.routing import route
from andon.model.errors import ConfigurationError, InvalidSubmission
from andon.model.words import DEFAULT_QUEUE

if TYPE_CHECKING:
    from andon.client.app import Andon
    from andon.engine.base import Engine, Submission


@click.command()
@click.argument("name", required=False)
@click.option("--args", "arguments", metavar="JSON", help="Arguments; - reads them from stdin.")
@click.option("--id", "task_id", metavar="ID", help="Repeating it with the same task is safe.")
@click.option(
    "--queue", metavar="NAME", help="That of its task type, if workers have published it; default."
)
@click.option("--priority", metavar="N", help="-4 to 5, or a name from lowest to highest.")
@click.option("--delay", type=DURATION, help="Start after: 30s, 5m, 1h30m.")
@click.option("--run-at", type=WHEN, help="Start at: ISO 8601, or +5m.")
@click.option("--deadline", type=WHEN, help="Expire if not done by: ISO 8601, or +1h.")
@click.option("--depends-on", multiple=True, metavar="ID", help="May be repeated.")
@click.option(
    "--requires",
    type=click.Choice(["all-completed", "all-resolved"]),
    help="How the dependencies must end.",
)
@click.option(
    "--needs",
    type=click.IntRange(1),
    metavar="N",
    help="How many of the dependencies must end so; all, if nothing is said.",
)
@click.option("--key", metavar="KEY", help="Concurrency key.")
@click.option("--unique-key", metavar="KEY", help="No other task holds it while this one does.")
@click.option(
    "--on-held",
    type=click.Choice(["refuse", "return", "supersede", "extend"]),
    help="If another holds that key: refuse, name it, take its place, or do so and start anew "
    "after --delay.",
)
@click.option("--supersede-active", is_flag=True, help="Ask a running holder to cancel, too.")
@click.option(
    "--max-delay", type=DURATION, help="With --on-held extend: start so long after the first."
)
@click.option("--group", metavar="GROUP")
@click.option(
    "--group-owner", metavar="OWNER", help="Keep a record of the group; see andon groups."
)
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="May be repeated.")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="May be repeated.")
@click.option("--option", "options", multiple=True, metavar="NAME=JSON", help="A policy option.")
@click.option("--retry", metavar="NAME", help="A named retry policy; see andon policies.")
@click.option("--version", type=int, default=0, metavar="N", help="Version of the task type.")
@click.option(
    "--profile",
    metavar="PROFILE",
    type=click.Choice(PROFILE_NAMES),
    help="Whose defaults apply; the profile of the application.",
)
@click.option("--app", "app_spec", metavar="APP", help="Check name and arguments against its code.")
@click.option(
    "--sign",
    "key_file",
    metavar="KEYFILE",
    help="Sign with this private key (or ANDON_SIGNING_KEY).",
)
@click.option("--wait", is_flag=True, help="Until it has ended; exit code 1 if not completed.")
@click.option("--timeout", type=DURATION, help="With --wait: give up after so long.")
@click.option("--jsonl", metavar="FILE", help="Many: one JSON object per line; - is stdin.")
@common
async def submit(
    session: Session,
    *,
    name: str | None,
    arguments: str | None,
    task_id: str | None,
    run_at: When | None,
    deadline: When | None,
    priority: str | None,
    depends_on: tuple[str, ...],
    tags: tuple[str, ...],
    headers: tuple[str, ...],
    options: tuple[str, ...],
    version: int,
    profile: str | None,
    app_spec: str | None,
    key_file: str | None,
    wait: bool,
    timeout: float | None,
    jsonl: str | None,
    **plain: Any,
) -> None:
    """Submit a task, or a file of them.

    Prints the task's id. With --jsonl each line of FILE is an object with `name` (unless given as
    NAME), `args`, and any of the options below with underscores; nothing is submitted if a line
    cannot be read.
    """
    if run_at is not None and plain["delay"] is not None:
        raise click.UsageError("Give --delay or --run-at, not both.")
    if not wait and timeout is not None:
        raise click.UsageError("--timeout needs --wait.")
    if jsonl is not None and (arguments is not None or task_id is not None or wait):
        raise click.UsageError("--jsonl goes with neither --args, --id nor --wait.")
    given: dict[str, Any] = {
        **plain,
        **_when("run_at", "delay", run_at),
        **_when("deadline", "deadline_in", deadline),
        "id": task_id,
        "priority": None if priority is None else priority_of(priority),
        "depends_on": comma_separated(depends_on) or None,
        "tags": comma_separated(tags) or None,
        "headers": pairs_of(headers, "--header") or None,
    }
    if not given["supersede_active"]:
        del given["supersede_active"]
    given = {option: value for option, value in given.items() if value is not None}
    given |= {n: json_or_text(value) for n, value in pairs_of(options, "--option").items()}
    check_names(given)
    app = application_of(session, app_spec, profile)
    _sign_with(app, key_file)
    try:
        if jsonl is not None:
            from andon.cli.jsonl import submit_file

            await submit_file(session, app, jsonl, name, {"version": version, **given})
            return
        if name is None:
            raise click.UsageError("Which task? Give its NAME, or --jsonl FILE.")
        args = None if arguments is None else args_of(arguments)
        if app_spec is not None:
            check_known(app, name, version)
        if "depends_on" in given:
            parents = await sure_ids(session, await app.engine(), given["depends_on"])
            given["depends_on"] = tuple(parents)
        draft = app.draft(name, args, version=version, **given)
        handle = await app.submit_draft(draft)
        remember(app.url, handle.id)
        from andon.engine.type_queues import with_queues

        engine = await app.engine()
        [submission] = await with_queues(engine, [draft.submission])
        if app_spec is None:
            await note_unknown(session, engine, submission, draft.submission.queue)
        if wait:
            from andon.cli.wait import wait_for

            await wait_for(session, engine, [handle.id], timeout=timeout, submission=submission)
        else:
            await _told(session, app, handle.id, created=handle.created)
    finally:
        await app.close()


def _when(absolute: str, relative: str, when: When | None) -> dict[str, Any]:
    if when is None:
        return {}
    return {relative: when.after} if when.at is None else {absolute: when.at}


def pairs_of(texts: tuple[str, ...], option: str) -> dict[str, str]:
    """`NAME=VALUE` by their names. Another text is a usage error."""
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{option} takes NAME=VALUE, not {text!r}.")
        pairs[name] = value
    return pairs


def check_names(options: dict[str, Any]) -> None:
    """Raise `InvalidSubmission` for what is no option of a submission."""
    from andon.client.options import check_submit_names

    try:
        check_submit_names(options)
    except TypeError as error:
        raise InvalidSubmission(str(error)) from error


def application_of(session: Session, spec: str | None, profile: str | None) -> "Andon":
    """The application to submit with: the one named, else one without any code."""
    if spec is not None:
        from andon.cli.apps import load_app

        app = load_app(spec, url=session.given_url)
        refuse_nowhere(app.url, creates=True)
        return app
    from andon.client.app import Andon

    refuse_nowhere(session.url, creates=True)
    return Andon(session.url, profile=profile or "native")


def _sign_with(app: "Andon", key_file: str | None) -> None:
    """Sign the tasks that this command submits. A key that cannot be used is refused first."""
    if key_file is not None:
        from andon.client.signing import Signing

        app.signing = Signing(key_file)
    if app.signing is not None:
        app.signing.check()


def check_known(app: "Andon", name: str, version: int) -> None:
    """Raise `ConfigurationError` for a task that the application has no code for."""
    if app.registry.route(name, version) is not None:
        return
    versions = [str(kind.version) for kind in app.registry if kind.name == name]
    if versions:
        raise ConfigurationError(
            f"The application has no version {version} of {name!r}; it has {', '.join(versions)}."
        )
    known = ", ".join(sorted({kind.name for kind in app.registry})) or "none"
    raise ConfigurationError(f"The application has no task {name!r}. Its tasks: {known}.")


async def note_unknown(
    session: Session, engine: "Engine", submission: "Submission", named: str | None
) -> None:
    """Print a remark when no worker has published the type of a task, and in which queue it waits.
    `named` is the queue that was asked for, if any was. If no worker has published anything yet, as
    before the first one starts, it is printed only on a terminal."""
    types = {(kind.name, kind.version) for kind in await engine.types()}
    name, version = submission.name, submission.version
    if route(types, name, version) is not None:
        return
    if not types and (named is not None or not session.out.terminal):
        return
    which = f"a task type {name!r}"
    if version:
        which = f"version {version} of {name!r}"
    elif not types:
        which = "any task type"
    queue = submission.queue or DEFAULT_QUEUE
    elsewhere = "" if named is not None else " If its type has another queue, name it with --queue."
    session.out.note(
        f"No worker has published {which} so far; {name!r} waits in queue {queue!r} for one that "
        f"does.{elsewhere}"
    )


async def _told(session: Session, app: "Andon", task_id: str, *, created: bool) -> None:
    out = session.out
    if out.json or out.terminal:
        from andon.cli.shown import state_word
        from andon.lifecycle.rendering import document

        [task] = await (await app.engine()).get([task_id])
        if out.json:
            shown = {"id": task_id} if task is None else document(session.profile, task)
            out.document({**shown, "created": created})
            return
        state = "gone" if task is None else state_word(session.profile, task)
        out.words([task_id, state, "" if created else "was submitted before"])
    else:
        out.line(task_id)
