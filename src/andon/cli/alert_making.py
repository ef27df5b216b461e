"""`andon alerts add`, `edit`, `target` and `apply`."""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import click

from andon.cli.alerts import alerts_of, print_rule
from andon.cli.session import Session, common
from andon.cli.values import comma_separated
from andon.lifecycle.alerts.telling import target_document
from andon.model.errors import ConfigurationError

_MOST_READ = 1024 * 1024
_SECRETS = ("secret", "url")
"""Fields of a target that a file may leave to a file of its own or to the environment."""

WHEN = (
    "oldest-age",
    "dead-letters",
    "new-error",
    "missed-occurrence",
    "lost-worker",
    "error-rate",
)


def fields(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that a rule has."""
    options = [
        click.option("--queue", metavar="NAME", help="Of this queue, or of those that begin so*."),
        click.option("--schedule", metavar="NAME", help="Of this schedule, or of those*."),
        click.option("--worker", metavar="ID", help="Of this worker, or of those*."),
        click.option(
            "--above", metavar="LIMIT", help="A duration (10m), a number, or a share (5%)."
        ),
        click.option("--growth", metavar="N", help="More dead letters than this came --within."),
        click.option("--within", metavar="DURATION", help="How far to look back."),
        click.option("--min-runs", metavar="N", help="Say nothing of fewer runs (10)."),
        click.option("--late", metavar="DURATION", help="An occurrence this late is missed (1m)."),
        click.option("--for", "lasting", metavar="DURATION", help="It must hold for so long."),
        click.option("--repeat-every", metavar="DURATION", help="Tell it again while it holds."),
        click.option("--to", multiple=True, metavar="TARGET", help="Whom to tell; repeatable."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.command()
@click.argument("name")
@click.option("--when", required=True, type=click.Choice(WHEN), help="What it watches.")
@fields
@common
async def add(session: Session, *, name: str, **given: Any) -> None:
    """Make a rule.

    `andon alerts add stuck --when oldest-age --above 10m --to ops`. A name that is taken is
    refused. andon alerts list --now says what would be told.
    """
    async with session.engine(creates=True) as engine:
        shown = await alerts_of(engine).put_rule(name, _fields(given), "add")
        print_rule(session, shown, engine.now())


@click.command()
@click.argument("name")
@click.option("--when", type=click.Choice(WHEN), help="What it watches.")
@fields
@common
async def edit(session: Session, *, name: str, **given: Any) -> None:
    """Change what is given of a rule.

    The rest stays; `none` takes a setting away. A rule that watches something else begins anew; one
    that only tells others goes on as it stands.
    """
    async with session.engine() as engine:
        shown = await alerts_of(engine).put_rule(name, _fields(given), "edit")
        print_rule(session, shown, engine.now())


def _fields(given: Mapping[str, Any]) -> dict[str, Any]:
    read = {name: value for name, value in given.items() if value not in (None, ())}
    if "lasting" in read:
        read["for"] = read.pop("lasting")
    if "to" in read:
        targets = comma_separated(read.pop("to"))
        read["targets"] = "none" if targets == ("none",) else targets
    for name, value in read.items():
        if value == "":
            raise click.UsageError(
                f'--{name.replace("_", "-")} is an empty text (""); leave it out, or say none.'
            )
    return {name: "" if value == "none" else value for name, value in read.items()}


@click.command()
@click.argument("name")
@click.option("--webhook", metavar="URL", help="A signed request; @FILE has the URL.")
@click.option("--secret-file", metavar="FILE", help="What signs it, in a file; - is stdin.")
@click.option("--chat", metavar="URL", help="A message as chats take it; @FILE has the URL.")
@click.option("--text-field", metavar="FIELD", help="Of the message, with the text (text).")
@click.option("--command", "is_command", is_flag=True, help="A program; after -- it follows.")
@click.argument("argv", nargs=-1, metavar="[PROGRAM [ARGUMENT]...]")
@common
async def target(
    session: Session,
    *,
    name: str,
    webhook: str | None,
    secret_file: str | None,
    chat: str | None,
    text_field: str | None,
    is_command: bool,
    argv: tuple[str, ...],
) -> None:
    """Make or change a target.

    `andon alerts target ops --webhook https://ops.example/hook --secret-file secret.txt`,
    `andon alerts target chat --chat @url.txt`,
    `andon alerts target page --command -- /usr/local/bin/page --now`.

    What is not given of a target that is there stays. A command runs on the machine of the service,
    if that was started with --alert-commands, and gets the alert as JSON on its stdin.
    """
    kinds = [one for one in (webhook, chat, is_command or None) if one is not None]
    if len(kinds) > 1:
        raise click.UsageError("Give one of --webhook, --chat and --command.")
    if bool(argv) != is_command:
        raise click.UsageError("--command goes with a program after --, and the other way round.")
    url = webhook or chat
    given = {
        "how": "webhook" if webhook else "chat" if chat else "command" if is_command else None,
        "url": None if url is None else _at_file(url),
        "secret": None if secret_file is None else _read(secret_file),
        "text_field": text_field,
        "argv": list(argv) or None,
    }
    async with session.engine(creates=True) as engine:
        shown = await alerts_of(engine).put_target(name, given)
    if session.out.json:
        session.out.document(target_document(shown))
    else:
        session.out.words([shown.name, shown.how, shown.where])


@click.command()
@click.argument("file", metavar="FILE")
@click.option("--dry-run", is_flag=True, help="Only say what would change.")
@common
async def apply(session: Session, *, file: str, dry_run: bool) -> None:
    """Have rules and targets be what a file says.

    FILE is TOML, - is stdin: a table [rules.NAME] for each rule, [targets.NAME] for each target.
    What it does not name is removed. Secrets stand in files of their own (secret_file, url_file,
    from the folder of FILE) or in the environment (secret_env, url_env); those that it leaves out
    stay as they are.
    """
    document = _document(file)
    async with session.engine(creates=not dry_run) as engine:
        changes = await alerts_of(engine).apply(document, dry_run=dry_run)
    out = session.out
    if out.json:
        out.document({"changes": changes, "applied": not dry_run})
        return
    for change in changes:
        out.line(change)
    if not changes:
        out.note("Nothing changes.")
    elif dry_run:
        out.note("Nothing was written.")


def _document(file: str) -> dict[str, Any]:
    import tomllib

    folder = Path() if file == "-" else Path(file).parent
    try:
        document = tomllib.loads(_read(file))
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{file} is no TOML: {error}.") from None
    targets = document.get("targets")
    if isinstance(targets, dict):
        for name, of in cast("dict[str, Any]", targets).items():
            if isinstance(of, dict):
                _fill_in(name, cast("dict[str, Any]", of), folder)
    return document


def _fill_in(name: str, target: dict[str, Any], folder: Path) -> None:
    for field in _SECRETS:
        file, variable = target.pop(f"{field}_file", None), target.pop(f"{field}_env", None)
        if (field in target) + (file is not None) + (variable is not None) > 1:
            raise ConfigurationError(
                f"Alert target {name!r}: give one of {field}, {field}_file and {field}_env."
            )
        if file is not None:
            target[field] = _read(str(folder / str(file)))
        elif variable is not None:
            value = os.environ.get(str(variable))
            if not value:
                raise ConfigurationError(
                    f"Alert target {name!r}: the environment has no {variable}, which {field}_env "
                    "names."
                )
            target[field] = value


def _at_file(text: str) -> str:
    return _read(text[1:]) if text.startswith("@") else text


def _read(file: str) -> str:
    """The text of a file without blanks around it; `-` is stdin."""
    try:
        if file == "-":
            return sys.stdin.read(_MOST_READ).strip()
        with Path(file).open(encoding="utf-8") as opened:
            return opened.read(_MOST_READ).strip()
    except UnicodeDecodeError:
        raise ConfigurationError(f"{file} is no text in UTF-8.") from None
