"""Roles: names for scopes, granted to callers that hold `assume:<role>`. Pure.

A role whose id ends in `*` is granted to callers that hold `assume:` and anything that begins with
the id. Every caller holds `assume:anonymous`, also without credentials.
"""

import re
from collections.abc import Iterable, Mapping

ASSUME = "assume:"
ANONYMOUS = "anonymous"

DEFAULT_ROLES: Mapping[str, tuple[str, ...]] = {
    ANONYMOUS: ("queue:get-artifact:public/*", "queue:list-artifacts:*"),
}
"""The roles of a store in which none were set."""

ROLE_ID = re.compile(r"[\x20-\x7e]{1,512}\Z")


def expanded(held: Iterable[str], roles: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Scopes with those of every role that they grant, also by way of other roles."""
    found = dict.fromkeys(held)
    left = list(found)
    waiting = dict(roles)
    while left and waiting:
        scope = left.pop()
        granted = [role for role in waiting if _grants(scope, role)]
        for role in granted:
            for one in waiting.pop(role):
                if one not in found:
                    found[one] = None
                    left.append(one)
    return tuple(found)


def _grants(scope: str, role: str) -> bool:
    """Whether a held scope grants a role."""
    if scope.endswith("*"):
        held, wanted = scope[:-1], ASSUME + role
        if wanted.startswith(held):
            return True
        return role.endswith("*") and held.startswith(wanted[:-1])
    if role.endswith("*"):
        return scope.startswith(ASSUME + role[:-1])
    return scope == ASSUME + role
