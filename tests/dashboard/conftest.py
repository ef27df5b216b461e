"""A service with a board, and what looks at it: a client of HTTP, or a browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from service.kit import Running, serving

from andon import Andon

from .kit import Site, make_app


@pytest.fixture
def app(tmp_path: Path) -> Andon:
    return make_app(f"sqlite:///{tmp_path}/tasks.db")


@pytest.fixture
def service(app: Andon) -> Iterator[Running]:
    with serving(app) as running:
        yield running


@pytest.fixture
def site(service: Running) -> Iterator[Site]:
    site = Site(service)
    yield site
    site.close()
