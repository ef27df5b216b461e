"""Connects an application to its store: the URL, an engine in each event loop, metrics."""

from collections.abc import Callable
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from andon.client.bridge import Bridge
from andon.client.connections import Connections
from andon.client.services import CertificateFiles, is_service, service_at
from andon.contract.instruments import Instruments
from andon.contract.measured_store import measured
from andon.contract.store import Store
from andon.engine.base import Engine
from andon.engine.measuring import measured_engine
from andon.engine.opening import open_store
from andon.lifecycle.constants import SLOW_POLL_S
from andon.model.urls import shown
from andon.worker.registry import Registry

if TYPE_CHECKING:
    from random import Random

    from andon.engine.local import LocalEngine


class StoreAccess:
    """The part of an application that reaches its store. The application sets what is declared."""

    url: str
    profile: str
    artifacts: str | None
    registry: Registry
    new_id: Callable[[], str]
    connections: Connections
    _token: str | None
    _client_certificate: CertificateFiles | None
    _instruments: list[Instruments]

    @cached_property
    def bridge(self) -> Bridge:
        """The bridge to the event loop for threads that have none."""
        return Bridge(lambda: self.connections)

    def profile_default(self, option: str, otherwise: Any) -> Any:
        from andon.lifecycle.profiles import profile

        return profile(self.profile).defaults.get(option, otherwise)

    def live_at(self, url: str) -> None:
        """Replace the store that the code names. Only before the first use."""
        self.url = url
        self.connections = self._connections()

    def _connections(self) -> Connections:
        return Connections(self._engine, shared=not self.url.startswith("memory:"))

    async def engine(self) -> "Engine":
        """The engine of the running loop, open: all that can be asked about tasks."""
        return await self.connections.engine()

    async def open(self) -> Self:
        """Connect now rather than at the first use.

        Example:
            from andon import Andon

            app = await Andon("memory://").open()
            await app.close()
        """
        await self.connections.engine()
        return self

    async def until_open(self, *, signals: bool = False) -> bool:
        """Connect, and wait for a store that is away; False if told to stop meanwhile by a signal.

        Raises whatever else keeps the store from being opened.

        Example:
            from andon import Andon

            app = Andon("memory://")
            assert await app.until_open()
            await app.close()
        """
        from andon.worker.wait_for_store import until_open

        return await until_open(self.connections.engine, shown(self.url), signals=signals)

    async def close(self) -> None:
        """Flush what was handed over and disconnect from the running loop. Idempotent.

        Example:
            from andon import Andon

            app = Andon("memory://")
            await app.open()
            await app.close()
        """
        await self.connections.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def _engine(self) -> Engine:
        if is_service(self.url):
            engine = service_at(self.url, self._token, self._client_certificate)
            return measured_engine(engine, self._instruments) if self._instruments else engine
        return self.engine_on(self.measured(open_store(self.url)))

    def measure(self, instruments: Instruments) -> None:
        """Measure the engines that are opened from now on with these."""
        self._instruments.append(instruments)

    def measured(self, store: Store) -> Store:
        """The store, measured with what this application counts with."""
        for instruments in self._instruments:
            store = measured(store, instruments)
        return store

    def engine_on(
        self, store: Store, *, random: "Random | None" = None, poll_s: float = SLOW_POLL_S
    ) -> "LocalEngine":
        """An engine over a store, not yet open, that knows this application's task types.

        `random` decides jitter only; `poll_s` is how often loops that wait for hints look without
        one.
        """
        from andon.engine.local import LocalEngine

        engine = LocalEngine(
            store,
            profile=self.profile,
            random=random,
            artifacts=self.artifacts,
            poll_s=poll_s,
        )
        engine.know_types([task_type.info for task_type in self.registry])
        return engine
