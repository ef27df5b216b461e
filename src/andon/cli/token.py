"""`andon token`: API tokens of a service, and their scopes.

Tokens live in the store, so they are made where the store is, also while no service runs.
"""

from typing import TYPE_CHECKING, Any

import click

from andon.cli import taskcluster_clients
from andon.cli.layout import Column
from andon.cli.output import Word
from andon.cli.session import Session, common
from andon.cli.values import WHEN, When
from andon.service.trust.registry import Registry

if TYPE_CHECKING:
    from andon.service.trust.apitokens import ApiToken

COLUMNS = (
    Column("id", keeps=True),
    Column("name", named=True),
    Column("state", keeps=True),
    Column("created", keeps=True, spare=True),
    Column("expires", keeps=True),
    Column("scopes", wraps=True),
)
_STYLES = {"valid": "green", "expired": "yellow", "revoked": "red"}


TASKCLUSTER = click.option(
    "--taskcluster", is_flag=True, help="A client of the Taskcluster face, not a token."
)


@click.group()
def token() -> None:
    """Make, list and revoke the tokens that a service asks for.

    A service that only its own machine can reach needs none. With --taskcluster it is the clients
    of the Taskcluster face, which sign their requests.
    """


for command in taskcluster_clients.COMMANDS:
    token.add_command(command)


def _shown(record: "ApiToken", now: int) -> dict[str, Any]:
    return {
        "id": record.id,
        "name": record.name,
        "state": record.state(now),
        "scopes": list(record.scopes),
        "created_at": record.created_at,
        "expires_at": record.expires_at,
        "revoked_at": record.revoked_at,
    }


@token.command()
@click.argument("name")
@click.option("--scope", "scopes", multiple=True, required=True, metavar="SCOPE", help="What for.")
@click.option("--expires", type=WHEN, help="When it ends: +30d, or ISO 8601; default: never.")
@TASKCLUSTER
@common
async def create(
    session: Session,
    *,
    name: str,
    scopes: tuple[str, ...],
    expires: When | None,
    taskcluster: bool,
) -> None:
    """Make a token, and print it: nobody can see it again.

    Scopes: tasks:create:QUEUE, tasks:read:QUEUE, tasks:cancel:QUEUE, tasks:change:QUEUE,
    queues:claim:QUEUE, queues:read:QUEUE, queues:manage:QUEUE, workers:read, metrics:read,
    types:publish, admin:storage, admin:tokens, admin:workers,
    admin:audit, admin:alerts. A star at the end stands for
    anything: 'tasks:*', '*'.

    With --taskcluster NAME is a client id, the scopes are those of the Taskcluster queue
    ('queue:*'), and clientId and accessToken are printed.
    """
    if taskcluster:
        await taskcluster_clients.create(session, name, scopes, expires)
        return
    async with session.local_engine(creates=True) as engine:
        now = engine.now()
        text, record = await Registry(engine.store).create(
            name, scopes, expires_at=None if expires is None else expires.on(now)
        )
    if session.out.json:
        session.out.document({"token": text, **_shown(record, now)})
        return
    session.out.line(text)
    session.out.note("Keep it now: only its hash is stored. Use it as ANDON_TOKEN.")


@token.command("list")
@TASKCLUSTER
@common
async def list_tokens(session: Session, *, taskcluster: bool) -> None:
    """List tokens; what they are themselves is not known here."""
    if taskcluster:
        await taskcluster_clients.list_all(session)
        return
    async with session.local_engine() as engine:
        now = engine.now()
        shown = [_shown(record, now) for record in await Registry(engine.store).tokens()]
    if session.out.json:
        session.out.document(shown)
        return
    out = session.out
    out.table(
        COLUMNS,
        [
            [
                one["id"],
                one["name"],
                Word(one["state"], _STYLES[one["state"]]),
                out.when(one["created_at"], now),
                out.when(one["expires_at"], now),
                " ".join(one["scopes"]),
            ]
            for one in shown
        ],
        empty="There are no tokens. Make one with: andon token create NAME --scope SCOPE.",
    )


@token.command()
@click.argument("which", metavar="ID")
@TASKCLUSTER
@common
async def revoke(session: Session, *, which: str, taskcluster: bool) -> None:
    """Revoke a token by its id, or its name. Services refuse it within a second."""
    if taskcluster:
        await taskcluster_clients.revoke(session, which)
        return
    async with session.local_engine() as engine:
        record = await Registry(engine.store).revoke(which)
        now = engine.now()
    if session.out.json:
        session.out.document(_shown(record, now))
    else:
        session.out.words([record.id, "revoked"])


@token.command("rotate")
@common
async def rotate(session: Session) -> None:
    """Sign run tokens with a new key; runs in hand keep theirs until the next rotation."""
    async with session.local_engine(creates=True) as engine:
        keys = await Registry(engine.store).rotate()
    if session.out.json:
        session.out.document({"keys": [key.id for key in keys.keys]})
    else:
        session.out.words([keys.keys[0].id, "signs from now on"])
