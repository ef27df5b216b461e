"""`andon audit`: what was done by hand, and by whom."""

import click

from andon.cli.layout import Column
from andon.cli.session import Session, common

_COLUMNS = (
    Column("when", keeps=True),
    Column("actor", named=True),
    Column("act", keeps=True),
    Column("subject", keeps=True),
    Column("tasks", right=True, keeps=True),
    Column("what", wraps=True),
)


@click.command("audit")
@click.option("--actor", metavar="NAME", help="Only what this one did.")
@click.option("--limit", type=click.IntRange(1, 500), default=100, show_default=True)
@common
async def audit(session: Session, *, actor: str | None, limit: int) -> None:
    """List what was done by hand, the newest first, and by whom.

    Acts on tasks (cancel, retry, rerun, delete, ...) with the first task and their number, and
    changes of queues, retry policies and tokens. The newest 500 are kept. The events of a task say
    who moved it: andon events --actor NAME. This command line acts as USER@HOST, or as ANDON_ACTOR
    says; behind a service that asks for tokens, as its token.
    """
    async with session.engine() as engine:
        now = engine.now()
        found = await engine.acts(actor, limit)
    out = session.out
    if out.json:
        out.document(found)
        return
    out.table(
        _COLUMNS,
        [
            [
                out.when(one.until, now),
                one.actor or "-",
                one.act,
                one.subject,
                one.count if one.count > 1 else "",
                one.detail,
            ]
            for one in found
        ],
        empty="Nothing was done by hand yet.",
    )
