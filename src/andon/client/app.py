"""The application: its task types, and the store that they are submitted to."""

import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Unpack, cast

from andon.client.ids import IdMaker, new_id
from andon.client.lifespan import WorkerLifespan
from andon.client.middleware import Measuring, Middleware, checked_middleware
from andon.client.options import TaskOptions
from andon.client.queues import Queue
from andon.client.running import Running, WorkerSettings
from andon.client.services import CertificateFiles
from andon.client.signing import PathLike, signing_with
from andon.client.sync import SyncApp
from andon.model.errors import ConfigurationError
from andon.model.urls import shown

if TYPE_CHECKING:
    from andon.dashboard.access import Who
    from andon.dashboard.board import Board
    from andon.signing import SigningKey
    from andon.worker.worker import Lifespan

__all__ = ["DEFAULT_URL", "Andon", "WorkerSettings"]

DEFAULT_URL = "sqlite:///andon.db"
"""The default store: a file in the current folder."""


class Andon(Running):
    """An application: task types, their defaults, and where their tasks live.

    `url` names the store; without one the environment variable ANDON_URL does, else it is
    `sqlite:///andon.db`. A URL that begins with http:// or https:// is that of a service (`andon
    serve`); `token`, or the environment variable ANDON_TOKEN, is what it asks for. To one that asks
    for a certificate it shows `client_certificate`: a PEM file with its key, or a pair of files;
    else those that ANDON_CLIENT_CERTIFICATE and ANDON_CLIENT_KEY name. `profile` sets the defaults
    under which tasks run. `queue` is where tasks go that name none; left as it is, one that is
    submitted by a name without code here goes to the queue that workers have published of its type.
    `queues` are settings of queues that a starting worker applies (see `andon.client.queues`).
    `name` and `release` are recorded with the schedules it declares: an older release never
    overwrites the declaration of a newer one. By default they are where the application is imported
    from, and when the newest module with one of its handlers was modified. `artifacts` is the URL
    of the place for files and logs of runs, if it is not to be the store's own (see
    `andon.artifacts.place`). `middleware` wraps submits and runs, the outermost first (see
    `Middleware`). `ids` makes the ids of tasks that are given none. `signing_key`, the file of a
    private key or a `andon.signing.SigningKey`, signs what is submitted; without it the file that
    the environment variable ANDON_SIGNING_KEY names does, if any. `lifespan` is a function without
    arguments that gives an async context manager, which each worker is inside of while it works.
    All other keywords are defaults for every task type of this application (see `TaskOptions`),
    weaker than its own.

    Nothing is connected before the first use; that use opens, and the end of the event loop closes.
    `async with app:` does both at a chosen point.

    Example:
        from andon import Andon, Queue

        app = Andon("sqlite:///tasks.db", queues=[Queue("mail", rate_limit="5/s")], max_retries=5)

        @app.task(queue="mail")
        async def greet(name: str) -> str:
            return f"Hello, {name}"

        async with app:
            handle = await greet.submit("Ann")
            async with app.working():
                assert await handle.result(timeout=60) == "Hello, Ann"
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        client_certificate: CertificateFiles | None = None,
        profile: str = "native",
        name: str | None = None,
        release: str | None = None,
        queue: str = "default",
        queues: Iterable[Queue] = (),
        artifacts: str | None = None,
        signing_key: "SigningKey | PathLike | None" = None,
        middleware: Sequence[object] = (),
        lifespan: "Lifespan | None" = None,
        ids: IdMaker = new_id,
        **defaults: Unpack[TaskOptions],
    ) -> None:
        super().__init__(queue=queue, defaults=defaults)
        self.url = url or os.environ.get("ANDON_URL") or DEFAULT_URL
        """Of the store or service, as given or found."""
        self.name = name  #: whose schedules its declared ones are; None: as it is imported
        self.release = release  #: of its code; None: as its modules were modified
        self._token = token
        self._client_certificate = client_certificate
        self.profile = profile  #: name of the profile that sets the defaults
        self.artifacts = artifacts  #: URL of the place for artifacts; None: the store's own
        self.signing = signing_with(signing_key)  #: signs submitted tasks; None: nothing does
        self.declared_queues = list(queues)
        self.middleware = checked_middleware(middleware)  #: as given
        self.lifespan = WorkerLifespan(lifespan)  #: around the work of each worker, with hooks
        self.new_id = ids  #: makes the ids of tasks that are given none
        self._on_submit = [
            cast("Middleware", hook).on_submit
            for hook in self.middleware
            if hasattr(hook, "on_submit")
        ]
        self._instruments = [
            cast("Measuring", hook).instruments
            for hook in self.middleware
            if hasattr(hook, "instruments")
        ]
        self.connections = self._connections()

    def __repr__(self) -> str:
        return f"<Andon {shown(self.url)} with {len(self.registry)} task types>"

    def board(
        self, *, who: "Who | None" = None, at: str | None = None, hide: Iterable[str] = ()
    ) -> "Board":
        """The board of this application's tasks, as an ASGI application to mount in another: one of
        FastAPI, Starlette, Litestar or Django, for example. Needs `pip install 'andon[board]'`.

        `who` takes a request's headers (names in lower case) and returns the user: a
        `andon.dashboard.access.Visitor` with what they may see and do, or None for a user who may
        not see the board; it may be async. Without it the board answers only requests of this
        machine, by one of its names. `at` is the path that it is mounted at, where the framework
        does not say it. `hide` are regular expressions for names of arguments whose values are not
        shown, besides those whose names say that they are secret. Raises `ConfigurationError` where
        a package is missing.

        Example:
            board = app.board(hide=["^iban$"])  # fastapi_app.mount("/board", board)
            assert callable(board)
        """
        try:
            from andon.dashboard.access import Asked
            from andon.dashboard.board import Board
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                f"The board needs {error.name}. Install it with: pip install 'andon[board]'."
            ) from error
        return Board(
            self.connections.engine,
            gate=None if who is None else Asked(who),
            at=at,
            hide=tuple(hide),
            location=shown(self.url),
        )

    @cached_property
    def sync(self) -> SyncApp:
        """The same application for code that is not async: scripts, Django.

        Example:
            handle = charge.sync.submit(7, 990)
            assert app.sync.get(handle.id).name == "charge"
        """
        return SyncApp(self)
