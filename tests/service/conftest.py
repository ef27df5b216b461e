"""An application and a service that serves it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from andon import Andon

from .kit import Running, serving


def make_app(url: str, **options: Any) -> Andon:
    app = Andon(url, **options)

    @app.task(name="add")
    async def add(a: int, b: int = 1) -> int:
        return a + b

    @app.task(name="fail", max_retries=0)
    async def fail() -> None:
        raise ValueError("as asked")

    return app


@pytest.fixture
def app(tmp_path: Path) -> Andon:
    return make_app(f"sqlite:///{tmp_path}/tasks.db")


@pytest.fixture
def service(app: Andon) -> Iterator[Running]:
    with serving(app) as running:
        yield running


@pytest.fixture
def http(service: Running) -> Iterator[httpx.Client]:
    with service.client() as client:
        yield client
