"""A service that is a Taskcluster queue too."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.service.kit import CHECKS, Running, serving

from andon import Andon
from andon.service.taskcluster.settings import TaskclusterSettings

from .kit import Queue
from .shaped import check_read

CHECKS.append(check_read)


@pytest.fixture
def face_settings() -> TaskclusterSettings:
    return TaskclusterSettings()


@pytest.fixture
def running(tmp_path: Path, face_settings: TaskclusterSettings) -> Iterator[Running]:
    app = Andon(f"sqlite:///{tmp_path}/tasks.db")
    with serving(app, taskcluster=face_settings) as running:
        yield running


@pytest.fixture
def http(running: Running) -> Iterator[httpx.Client]:
    with running.client() as client:
        yield client


@pytest.fixture
def queue(http: httpx.Client) -> Queue:
    return Queue(http)
