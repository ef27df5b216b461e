"""Queues from Python: declared beside the tasks that use them, configured, paused and listed.

    app = Andon(queues=[Queue("mail", rate_limit="5/s", max_concurrent=5)])
    await app.queues.pause("mail")

A declaration is applied when a worker of the application starts, and only where the code says
something that it has not said before: what an operator changes by hand holds until then. So a
restart never resumes a queue that was paused by hand.
"""

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict, Unpack

import msgspec

from andon.client.options import check_names
from andon.engine.emptying import delete_queue, purge_queue
from andon.engine.fleet import known_queues, settings_of
from andon.lifecycle.admission import check_name
from andon.lifecycle.policies import check_options
from andon.model.errors import ConfigurationError, InvalidSubmission
from andon.model.fleet import DayCounts, QueueConfig, QueueStats
from andon.model.policy import PolicyOptions
from andon.model.rates import rate_of, rate_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from andon.client.store_access import StoreAccess
    from andon.engine.base import Engine


class QueueSettings(TypedDict, total=False):
    """What may be set of a queue; `None` takes a limit away. What is not given stays as it is.

    Example:
        from andon.client.queues import QueueSettings

        gentle = QueueSettings(max_concurrent=2, rate_limit="60/m")
        await app.queues.configure("mail", **gentle)
    """

    max_concurrent: int | None  #: runs at once in the whole fleet
    max_concurrent_per_key: int | None  #: runs at once of one concurrency key, in the fleet
    rate_limit: float | str | None  #: claims: 5 (a second), "300/m", "1000/h"
    rate_burst: int | None  #: claims in one go; default: one second's worth
    max_size: int | None  #: most pending tasks
    on_full: Literal["reject", "discard-old"]  #: what gives way in a full queue
    weight: int  #: share of claims among a worker's queues
    policy: PolicyOptions  #: defaults of its tasks' policy
    paused: NotRequired[bool]  #: whether nothing is claimed from it


_SETTINGS = frozenset(QueueSettings.__annotations__)


class Queue:
    """A queue declared in code, by its name and its settings.

    Raises `ConfigurationError` for a name or value that cannot be, `TypeError` for a setting that
    there is none of.

    Example:
        from andon import Andon, Queue

        app = Andon("memory://", queues=[Queue("mail", rate_limit="5/s", max_concurrent=5)])
        async with app:
            await app.queues.declare()
            assert (await app.queues.get("mail")).config.max_concurrent == 5
    """

    def __init__(self, name: str, **settings: Unpack[QueueSettings]) -> None:
        try:
            check_name(name, field="queue")
            check_options(settings.get("policy", {}))
        except InvalidSubmission as error:
            raise ConfigurationError(f"Queue {name!r}: {error}") from error
        self.name = name  #: of the queue
        self.changes = changes_of(name, settings)

    def __repr__(self) -> str:
        settings = dict(self.changes)
        if settings.get("rate_limit") is not None:
            settings["rate_limit"] = rate_text(settings["rate_limit"])
        shown = "".join(f", {name}={value!r}" for name, value in settings.items())
        return f"Queue({self.name!r}{shown})"

    @property
    def digest(self) -> str:
        """A digest of this declaration, by which a repeat of it is recognised."""
        said = msgspec.json.encode([self.name, self.changes], order="sorted")
        return blake2b(said, digest_size=8).hexdigest()


def changes_of(name: str, settings: QueueSettings) -> dict[str, Any]:
    """The settings as the engine takes them. Raises `TypeError` for an unknown one and
    `ConfigurationError` for a rate that is none."""
    check_names(settings, _SETTINGS, f"Queue {name!r}")
    changes: dict[str, Any] = {**settings}
    rate = changes.get("rate_limit")
    if rate is not None:
        try:
            changes["rate_limit"] = rate_of(rate)
        except ValueError as error:
            raise ConfigurationError(f"Queue {name!r}: {error}") from None
    return changes


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    """A queue as it stood when it was read: its settings and its counts.

    Example:
        await remind.submit_in(3600, "ann@example.org")
        for queue in await app.queues.list():
            print(queue.name, queue.paused, queue.pending, queue.stats.oldest_pending_at)
            print(queue.to_dict())
    """

    config: QueueConfig  #: its settings
    stats: QueueStats  #: its counts

    @property
    def name(self) -> str:
        """Its name."""
        return self.config.name

    @property
    def paused(self) -> bool:
        """Whether nothing is claimed from it."""
        return self.config.paused

    @property
    def pending(self) -> int:
        """Tasks that wait to be claimed, those held back by the limit per key among them."""
        return self.stats.counts.get("pending", 0)

    def to_dict(self) -> dict[str, Any]:
        """Settings and counts as plain JSON values, as `andon queues show --json` prints them."""
        return msgspec.to_builtins({**settings_of(self.config), **_counts(self.stats)})

    def __repr__(self) -> str:
        rate = self.config.rate_limit
        limit = "" if rate is None else f", {rate_text(rate)}"
        return f"<Queue {self.name}: {self.pending} pending{limit}{', paused' * self.paused}>"


def _counts(stats: QueueStats) -> dict[str, Any]:
    counts = msgspec.structs.asdict(stats)
    del counts["queue"]
    return counts


class Queues:
    """The queues of an application's store: `app.queues`.

    Example:
        await app.queues.configure("mail", rate_limit="300/m", max_size=10_000)
        await app.queues.pause("mail")
        assert (await app.queues.get("mail")).paused
        await app.queues.resume("mail")
    """

    def __init__(self, app: "StoreAccess", declared: "Sequence[Queue]") -> None:
        self._app = app
        self._declared = declared

    def __repr__(self) -> str:
        return f"<Queues of {self._app!r}>"

    async def list(self) -> "list[QueueView]":
        """Every queue with its settings and counts, by name.

        Example:
            for queue in await app.queues.list():
                print(queue.name, queue.pending)
        """
        engine = await self._app.engine()
        return [QueueView(config=c, stats=s) for c, s in await known_queues(engine)]

    async def get(self, name: str) -> QueueView | None:
        """One queue; None if it was never used nor configured.

        Example:
            assert await app.queues.get("never-used") is None
        """
        return next((queue for queue in await self.list() if queue.name == name), None)

    async def configure(self, name: str, **settings: Unpack[QueueSettings]) -> QueueConfig:
        """Change settings of a queue, and make it if there is none; what it is set to then.

        Running workers follow within seconds. Raises like `Queue`.

        Example:
            config = await app.queues.configure("mail", max_concurrent=5)
            assert config.max_concurrent == 5
        """
        engine = await self._app.engine()
        return await engine.configure_queue(name, changes_of(name, settings))

    async def pause(self, name: str) -> QueueConfig:
        """Claim nothing from the queue; submits, timers and what runs go on."""
        return await self.configure(name, paused=True)

    async def resume(self, name: str) -> QueueConfig:
        """Claim from the queue again."""
        return await self.configure(name, paused=False)

    async def history(self, name: str, *, days: int = 7) -> "tuple[DayCounts, ...]":
        """What was submitted, processed and failed in a queue on each of the last `days` UTC days,
        the newest (today) first, none left out.

        `processed` counts runs that ended, each retry for itself, `failed` those of them that
        failed. Counted as it happens and kept for 90 days; zeros for a queue that was never used.
        Raises `ConfigurationError` for a number of days that is not 1 to 90.

        Example:
            for day in await app.queues.history("mail", days=30):
                print(day.day, day.submitted, day.processed, day.failed)
        """
        engine = await self._app.engine()
        [found] = await engine.queue_history(name, days)
        return found.days

    async def purge(self, name: str, *, force: bool = False) -> int:
        """Cancel and remove the tasks that wait in a queue; how many were removed.

        With `force` also those that are running, and what tasks elsewhere still need. The queue,
        its settings and what has ended stay. Raises `ConfigurationError` for a queue that there is
        not.

        Example:
            await remind.submit_in(3600, "ann@example.org")
            assert await app.queues.purge("mail") == 1
        """
        return (await purge_queue(await self._app.engine(), name, force=force)).removed

    async def delete(self, name: str, *, force: bool = False) -> int:
        """Delete a queue, its settings and the records of what has ended in it; how many records.

        It exists again as soon as a task enters it or it is configured. Raises `QueueNotEmpty`
        while it has live tasks, which `force` cancels and removes, and `ConfigurationError` for a
        queue that there is not.

        Example:
            handle = await remind.submit("ann@example.org")
            await handle.result(timeout=60)
            assert await app.queues.delete("mail") == 1
        """
        return (await delete_queue(await self._app.engine(), name, force=force)).removed

    async def declare(self) -> "list[QueueConfig]":
        """Apply what the application declares, where it has not been applied yet; what was set.

        A starting worker does this by itself; a program that only submits may call it.

        Example:
            from andon import Andon, Queue

            app = Andon("memory://", queues=[Queue("mail", max_concurrent=5)])
            async with app:
                [config] = await app.queues.declare()
                assert await app.queues.declare() == []  # applied already
        """
        return await apply_declared(await self._app.engine(), self._declared)


async def apply_declared(engine: "Engine", queues: "Sequence[Queue]") -> "list[QueueConfig]":
    """Configure the queues whose declaration has changed since it was last applied."""
    known = {config.name: config for config in await engine.queues()} if queues else {}
    return [
        await engine.configure_queue(queue.name, {**queue.changes, "declared": queue.digest})
        for queue in queues
        if queue.name not in known or known[queue.name].declared != queue.digest
    ]
