"""Named retry policies: what a name stands for, wherever a policy's options take `retry`.

They belong to every queue, so reading takes `queues:read:*` and setting `queues:manage:*`.
"""

from typing import Any

from litestar import Router, delete, get, put
from litestar.params import FromPath, JSONBody

from andon.model.errors import ConfigurationError, InvalidSubmission
from andon.service.calls import Call
from andon.service.problems import invalid, not_found


@get("/", summary="List retry policies")
async def list_policies(request: Call) -> dict[str, dict[str, Any]]:
    """Every named retry policy, by its name."""
    request.need("queues:read:*")
    named = await request.service.engine.policies()
    return {name: {**options} for name, options in sorted(named.items())}


@get("/{name:str}", summary="Get a retry policy")
async def get_policy(request: Call, name: FromPath[str]) -> dict[str, Any]:
    """One of them: the options that it sets."""
    request.need("queues:read:*")
    named = await request.service.engine.policies()
    if name not in named:
        raise not_found(f"There is no retry policy {name[:128]!r}.")
    return {**named[name]}


@put("/{name:str}", summary="Set a retry policy")
async def put_policy(
    request: Call, name: FromPath[str], data: JSONBody[dict[str, Any]]
) -> dict[str, Any]:
    """Set the options it stands for, in place of those before: `max_retries`, `retry_delay`,
    `backoff`, `max_retry_delay`, `steps`, `retry_on`, `no_retry_on`, `retry_unlisted`,
    `retry_internal_errors`. Tasks that were submitted keep theirs."""
    request.need("queues:manage:*")
    try:
        return {**await request.service.engine.put_policy(name, data)}
    except InvalidSubmission as error:
        raise invalid(str(error), field=error.field) from error


@delete("/{name:str}", status_code=200, summary="Delete a retry policy")
async def delete_policy(request: Call, name: FromPath[str]) -> dict[str, str]:
    """Forget the name. Refused while a queue uses it."""
    request.need("queues:manage:*")
    try:
        deleted = await request.service.engine.delete_policy(name)
    except ConfigurationError as error:
        raise invalid(str(error), field="name") from error
    if not deleted:
        raise not_found(f"There is no retry policy {name[:128]!r}.")
    return {"deleted": name}


router = Router(
    "/api/v1/policies",
    route_handlers=[list_policies, get_policy, put_policy, delete_policy],
    tags=["policies"],
)
