"""What every test can rely on: the choice of stores, and how hard Hypothesis tries."""

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Iterator

import pytest
from coroutines import plainly, played
from hypothesis import settings
from servers import IN_VIRTUAL_TIME, Servers

STORES = ("memory", "sqlite", "redis", "postgres", "nats")
HTTP = "http"
"""A store behind a service, for tests that know their store by its URL alone."""

_LONG = ("slow", "crash")
"""Marks of tests that take long."""

# A job in the background ignores SIGINT, and so would every program that a test starts and ends by
# it, for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A shared machine may be slow: a deadline per example would fail for reasons of its own.
# CI prints the blob that replays a failing example elsewhere.
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, print_blob=True)
# For a night: ANDON_HYPOTHESIS=thorough make test TESTS=tests/properties
settings.register_profile("thorough", deadline=None, print_blob=True, max_examples=3_000)
settings.load_profile(
    os.environ.get("ANDON_HYPOTHESIS") or ("ci" if os.environ.get("CI") else "dev")
)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return how many tests run at once if nobody says: most of them wait more than they compute,
    so twice as many as there are processors end in half the time."""
    return 2 * (os.cpu_count() or 1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--store",
        action="append",
        choices=(*STORES, HTTP),
        help="run store tests on this store only; may be repeated (default: every store)",
    )
    parser.addoption(
        "--pictures",
        metavar="FOLDER",
        help="keep the pictures that the browser tests of the board take (docs/board: its page's)",
    )


def selected_stores(config: pytest.Config) -> tuple[str, ...]:
    """Return the stores that store-parametrised tests run on, in the order of STORES."""
    chosen: list[str] = config.getoption("--store") or list(STORES)
    return tuple(store for store in STORES if store in chosen)


def shared_stores(config: pytest.Config) -> tuple[str, ...]:
    """Return the selected stores that several processes can be on."""
    return tuple(store for store in selected_stores(config) if store != "memory")


def stores_by_url(config: pytest.Config) -> tuple[str, ...]:
    """Return the selected stores that several processes can be on, a service among them."""
    chosen: list[str] = config.getoption("--store") or [HTTP]
    return (*shared_stores(config), *(one for one in chosen if one == HTTP))


def virtual_stores(config: pytest.Config) -> tuple[str, ...]:
    """Return the selected stores that can be run in virtual time."""
    return tuple(store for store in selected_stores(config) if store in IN_VIRTUAL_TIME)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is collected lives until the end. Python need not look through it again and again for
    what could be freed while it grows, which takes as long as the collecting itself."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long begins first, in the order it was shuffled into, so that no process is left
    with it when all others have finished."""
    items.sort(key=lambda item: all(item.get_closest_marker(mark) is None for mark in _LONG))


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test. A folder that must do more for its own says so with a hook that it has
    tried first."""
    return played(pyfuncitem, plainly)


_LEVELS = pytest.StashKey[dict[str, int]]()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    item.stash[_LEVELS] = _levels()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """A test that changes what is logged and leaves it so fails itself. Tests after it would, in an
    order that does not come again."""
    result = yield
    before, after = item.stash[_LEVELS], _levels()
    for name in before.keys() | after.keys():
        logging.getLogger(name or None).setLevel(before.get(name, logging.NOTSET))
    assert after == before, "the test left the levels of loggers changed"
    return result


def _levels() -> dict[str, int]:
    """The level of the root logger, named "", and of each of Andon's that has one of its own."""
    ours = {
        name: logger.level
        for name, logger in logging.root.manager.loggerDict.items()
        if name.partition(".")[0] == "andon" and isinstance(logger, logging.Logger) and logger.level
    }
    return {"": logging.root.level, **ours}


@pytest.fixture
def logs_as_before() -> Iterator[None]:
    """For a test that runs in this process a command that sets up its logs."""
    before = _levels()
    yield
    for name in _levels():
        logging.getLogger(name or None).setLevel(before.get(name, logging.NOTSET))


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """The loop of a coroutine test, for fixtures that open on it what the test uses."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """The store servers of this test process."""
    servers = Servers(tmp_path_factory.mktemp("servers"))
    yield servers
    servers.close()
