"""`andon token …` for the Taskcluster face: its clients, and the roles that give scopes a name."""

from typing import TYPE_CHECKING, Any

import click

from andon.cli.layout import Column
from andon.cli.output import Word
from andon.cli.session import Session, common

if TYPE_CHECKING:
    from andon.cli.values import When
    from andon.service.taskcluster.trust.clients import Client

_COLUMNS = (
    Column("client id", named=True),
    Column("state", keeps=True),
    Column("created", keeps=True, spare=True),
    Column("expires", keeps=True),
    Column("scopes", wraps=True),
)
_ROLE_COLUMNS = (Column("role", named=True), Column("scopes", wraps=True))
_STYLES = {"valid": "green", "expired": "yellow", "disabled": "red"}


def _shown(client: "Client", now: int) -> dict[str, Any]:
    return {
        "clientId": client.client_id,
        "state": client.state(now),
        "scopes": list(client.scopes),
        "created_at": client.created_at,
        "expires_at": client.expires,
    }


async def create(
    session: Session, client_id: str, scopes: tuple[str, ...], expires: "When | None"
) -> None:
    """Make a client, and print what it signs with."""
    from andon.service.taskcluster.trust.registry import ClientRegistry

    async with session.local_engine(creates=True) as engine:
        now = engine.now()
        access_token, client = await ClientRegistry(engine.store).create(
            client_id, scopes, expires=None if expires is None else expires.on(now)
        )
    _print_key(session, access_token, _shown(client, now))


async def list_all(session: Session) -> None:
    """List clients; their access tokens are shown when they are made."""
    from andon.service.taskcluster.trust.registry import ClientRegistry

    async with session.local_engine() as engine:
        now = engine.now()
        trust = await ClientRegistry(engine.store).read()
    shown = [] if trust is None else [_shown(client, now) for client in trust.clients]
    if session.out.json:
        session.out.document(shown)
        return
    out = session.out
    out.table(
        _COLUMNS,
        [
            [
                one["clientId"],
                Word(one["state"], _STYLES[one["state"]]),
                out.when(one["created_at"], now),
                out.when(one["expires_at"], now),
                ", ".join(one["scopes"]),  # a scope may have spaces in it
            ]
            for one in shown
        ],
        empty=(
            "There are no clients. Make one with: andon token create NAME --taskcluster "
            "--scope SCOPE."
        ),
    )


async def revoke(session: Session, client_id: str) -> None:
    """Delete a client, and with it all that it has signed or issued."""
    from andon.service.taskcluster.trust.registry import ClientRegistry

    async with session.local_engine() as engine:
        now = engine.now()
        client = await ClientRegistry(engine.store).revoke(client_id)
    if session.out.json:
        session.out.document(_shown(client, now))
    else:
        session.out.words([client.client_id, "revoked"])


@click.command()
@click.argument("client_id", metavar="NAME")
@common
async def renew(session: Session, *, client_id: str) -> None:
    """Give a Taskcluster client another accessToken, and print it.

    The one before ends within a second, and all temporary credentials that were issued with it.
    """
    from andon.service.taskcluster.trust.registry import ClientRegistry

    async with session.local_engine() as engine:
        now = engine.now()
        access_token, client = await ClientRegistry(engine.store).renew(client_id)
    _print_key(session, access_token, _shown(client, now))


@click.command()
@click.argument("client_id", metavar="NAME")
@common
async def disable(session: Session, *, client_id: str) -> None:
    """Refuse a Taskcluster client, and whatever it issued, until it is enabled again."""
    await _switch(session, client_id, disabled=True)


@click.command()
@click.argument("client_id", metavar="NAME")
@common
async def enable(session: Session, *, client_id: str) -> None:
    """Accept a Taskcluster client again that was disabled."""
    await _switch(session, client_id, disabled=False)


@click.command()
@click.argument("name", metavar="ROLE")
@click.option("--scope", "scopes", multiple=True, metavar="SCOPE", help="What it grants.")
@click.option("--default", "is_reset", is_flag=True, help="As if it had never been set.")
@common
async def role(session: Session, *, name: str, scopes: tuple[str, ...], is_reset: bool) -> None:
    """Say what a role of the Taskcluster face grants, in place of what it granted before.

    Who holds assume:ROLE has its scopes; a ROLE that ends in a star is for everything that begins
    so. Everybody has the role anonymous, also without credentials. Without --scope a role grants
    nothing.
    """
    from andon.service.taskcluster.trust.registry import ClientRegistry

    if is_reset and scopes:
        raise click.UsageError("Give --scope or --default, not both.")
    async with session.local_engine(creates=True) as engine:
        trust = await ClientRegistry(engine.store).set_role(name, None if is_reset else scopes)
    granted = trust.all_roles.get(name, ())
    if session.out.json:
        session.out.document({"role": name, "scopes": list(granted)})
    else:
        session.out.words([name, "grants", ", ".join(granted) or "nothing"])


@click.command()
@common
async def roles(session: Session) -> None:
    """List the roles of the Taskcluster face, and what they grant."""
    from andon.service.taskcluster.trust.registry import ClientRegistry
    from andon.service.taskcluster.trust.roles import DEFAULT_ROLES

    async with session.local_engine() as engine:
        trust = await ClientRegistry(engine.store).read()
    granted = DEFAULT_ROLES if trust is None else trust.all_roles
    if session.out.json:
        session.out.document({name: list(scopes) for name, scopes in granted.items()})
        return
    session.out.table(
        _ROLE_COLUMNS,
        [[name, ", ".join(scopes) or "nothing"] for name, scopes in sorted(granted.items())],
        empty="There are no roles.",
    )


COMMANDS = (renew, disable, enable, role, roles)
"""The actions of `andon token` that only exist for clients."""


async def _switch(session: Session, client_id: str, *, disabled: bool) -> None:
    from andon.service.taskcluster.trust.registry import ClientRegistry

    async with session.local_engine() as engine:
        now = engine.now()
        client = await ClientRegistry(engine.store).switch(client_id, disabled=disabled)
    if session.out.json:
        session.out.document(_shown(client, now))
    else:
        session.out.words([client.client_id, client.state(now)])


def _print_key(session: Session, access_token: str, shown: dict[str, Any]) -> None:
    if session.out.json:
        session.out.document({"accessToken": access_token, **shown})
        return
    session.out.words(["clientId", shown["clientId"]])
    session.out.words(["accessToken", access_token])
    session.out.note(
        "Keep it now: it is not shown again. Clients read TASKCLUSTER_CLIENT_ID and "
        "TASKCLUSTER_ACCESS_TOKEN."
    )
