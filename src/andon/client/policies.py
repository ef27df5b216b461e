"""Named retry policies from Python: `app.policies`."""

from typing import TYPE_CHECKING, Unpack, cast

from andon.model.policy import PolicyOptions

if TYPE_CHECKING:
    from andon.client.store_access import StoreAccess


class Policies:
    """The named retry policies of an application's store.

    A name is resolved when a task is submitted: existing tasks keep their policy.

    Example:
        await app.policies.set("gentle", max_retries=10, retry_delay=60.0, backoff="linear")
        handle = await charge.options(retry="gentle").submit(7, 990)
        assert (await handle.get()).policy.max_retries == 10

        print(await app.policies.list())
        await app.policies.delete("gentle")
        assert await app.policies.get("gentle") is None
    """

    def __init__(self, app: "StoreAccess") -> None:
        self._app = app

    def __repr__(self) -> str:
        return f"<Policies of {self._app!r}>"

    async def list(self) -> dict[str, PolicyOptions]:
        """Every policy, by its name."""
        return await (await self._app.engine()).policies()

    async def get(self, name: str) -> PolicyOptions | None:
        """What a name stands for; None if there is no such policy."""
        return (await self.list()).get(name)

    async def set(self, name: str, /, **options: Unpack[PolicyOptions]) -> PolicyOptions:
        """Set what a name stands for, in place of what it was.

        Raises `InvalidSubmission` for an option that is not about retrying, or a value that cannot
        be.
        """
        given = cast("PolicyOptions", {**options})
        return await (await self._app.engine()).put_policy(name, given)

    async def delete(self, name: str) -> bool:
        """Forget a name; False if there was none. Raises `ConfigurationError` for one that a queue
        uses."""
        return await (await self._app.engine()).delete_policy(name)
