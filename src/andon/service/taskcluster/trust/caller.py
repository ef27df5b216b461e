"""The caller of the face: a client id and scopes; with a task's credentials also its run."""

from functools import cached_property

import msgspec

from andon.service.taskcluster.trust.scopes import EVERYTHING, Expression, ScopeSet


class RunOf(msgspec.Struct, frozen=True):
    """The run that task credentials speak for, as their client id names it."""

    task_id: str
    run_id: int
    worker: str  #: `<workerGroup>/<workerId>`
    until: int  #: s UTC: the claim that they were issued for


class Caller:
    """A caller and its scopes. `client_id` is empty for a caller without credentials."""

    def __init__(
        self, client_id: str, scopes: tuple[str, ...], *, run: RunOf | None = None
    ) -> None:
        self.client_id = client_id
        self.scopes = scopes
        self.run = run  #: with the credentials of a task: its run

    def __repr__(self) -> str:
        return f"<Caller {self.client_id or 'without credentials'}>"

    @cached_property
    def _held(self) -> ScopeSet:
        return ScopeSet(self.scopes)

    def has(self, scope: str) -> bool:
        """Whether one of the caller's scopes satisfies this one."""
        return self._held.has(scope)

    def satisfies(self, expression: Expression) -> bool:
        """Whether the caller's scopes satisfy an expression."""
        return self._held.satisfies(expression)

    def missing(self, expression: Expression) -> Expression | None:
        """What of an expression the caller's scopes do not satisfy; None if they satisfy it."""
        return self._held.missing(expression)


OPEN = Caller("anybody-on-this-machine", (EVERYTHING,))
"""The caller of a service that only its own machine can reach: callers are not authenticated."""
