"""The session of a command: its store, and how it prints.

`common` adds the options that all commands share and runs async commands on a loop of their own.
"""

import functools
import inspect
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import click

from andon.model.errors import ConfigurationError
from andon.model.urls import shown

if TYPE_CHECKING:
    from andon.cli.output import Output
    from andon.engine.base import Engine
    from andon.engine.local import LocalEngine
    from andon.lifecycle.profiles import Profile

DEFAULT_URL = "sqlite:///andon.db"
PROFILE_NAMES = ("native", "jobbers", "asynq", "cbintel", "choria", "taskcluster")


class Session:
    """One call of the command line."""

    def __init__(self) -> None:
        self.given_url: str | None = None  #: by --url; the environment does not count
        self.json = False
        self.seen_as = "native"
        self.debug = False

    @property
    def named_url(self) -> str | None:
        """The store's URL, if the user has named one at all."""
        return self.given_url or os.environ.get("ANDON_URL")

    @property
    def url(self) -> str:
        """The store's URL."""
        return self.named_url or DEFAULT_URL

    @functools.cached_property
    def out(self) -> "Output":
        """Where results go."""
        from andon.cli.output import Output

        return Output(as_json=self.json)

    @functools.cached_property
    def profile(self) -> "Profile":
        """The profile under which tasks are shown."""
        from andon.lifecycle.profiles import profile

        return profile(self.seen_as)

    @asynccontextmanager
    async def engine(
        self, *, creates: bool = False, profile: str = "native", memory: bool = False
    ) -> "AsyncGenerator[Engine, None]":
        """An engine on the store, or behind the service, that the URL names.

        Only with `creates` may a store be made by this; only with `memory` may it be one that ends
        with this process.
        """
        from andon.cli.people import actor
        from andon.client.services import is_service, service_at
        from andon.engine.actor import acting_as

        if is_service(self.url):
            engine = service_at(self.url)
            await engine.open()
            try:
                with acting_as(actor()):
                    yield engine
            finally:
                await engine.close()
            return
        async with self.local_engine(creates=creates, profile=profile, memory=memory) as local:
            yield local

    @asynccontextmanager
    async def local_engine(
        self, *, creates: bool = False, profile: str = "native", memory: bool = False
    ) -> "AsyncGenerator[LocalEngine, None]":
        """An engine on the store itself, for operations that no service offers."""
        from andon.cli.people import actor
        from andon.client.services import is_service
        from andon.engine.actor import acting_as
        from andon.engine.local import LocalEngine
        from andon.engine.opening import open_store

        if is_service(self.url):
            raise ConfigurationError(
                f"{shown(self.url)} is a service, and this command works on the store itself. "
                "Run it where the store is, with the store's own --url."
            )
        refuse_nowhere(self.url, creates=creates, memory=memory)
        engine = LocalEngine(open_store(self.url), profile=profile)
        await engine.open()
        try:
            with acting_as(actor()):
                yield engine
        finally:
            await engine.close()


def refuse_nowhere(url: str, *, creates: bool, memory: bool = False) -> None:
    """Refuse a store that no other process could see, or (reading) that does not exist.

    Raises `ConfigurationError`.
    """
    scheme = url.partition(":")[0]
    if scheme == "memory" and not memory:
        raise ConfigurationError(
            "memory:// lives inside one process, and this command is another one. "
            "Name a file with --url, for example sqlite:///andon.db."
        )
    if not creates:
        from andon.engine.opening import file_of

        path = file_of(url)
        if path is not None and not path.exists():
            raise ConfigurationError(
                f"There is no store at {path}. Name another with --url or ANDON_URL, "
                "or make one with: andon storage init."
            )


Command = Callable[..., Any]


def common(function: Command) -> Command:
    """Add --url, --json, --as and --debug; hand the session over as the first argument."""

    @click.option("--url", metavar="URL", help="The store or service (or ANDON_URL).")
    @click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    @click.option(
        "--as",
        "seen_as",
        metavar="PROFILE",
        type=click.Choice(PROFILE_NAMES),
        help=f"Show names and fields as: {', '.join(PROFILE_NAMES[1:])}.",
    )
    @click.option("--debug", is_flag=True, hidden=True)
    @functools.wraps(function)
    def call(
        *, url: str | None, as_json: bool, seen_as: str | None, debug: bool, **given: Any
    ) -> None:
        session = click.get_current_context().ensure_object(Session)
        session.given_url = url
        session.json = as_json
        session.seen_as = seen_as or "native"
        session.debug = session.debug or debug
        outcome = function(session, **given)
        if inspect.iscoroutine(outcome):
            import asyncio

            asyncio.run(outcome)

    return call


def fail() -> NoReturn:
    """End with exit code 1; the error has been printed."""
    raise click.exceptions.Exit(1)
