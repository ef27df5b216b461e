"""Schemathesis holds the service against its own document: made-up requests, good and bad.

What it makes up for a minute or so here is little; ANDON_HYPOTHESIS=thorough gives it more.
"""

import json
import os
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from .conftest import make_app
from .kit import serving
from .test_openapi import PAGE

THOROUGH = os.environ.get("ANDON_HYPOTHESIS") == "thorough"
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


OPERATIONS = [
    (path, method)
    for path, methods in json.loads(PAGE.read_text())["paths"].items()
    for method in methods
    if not path.endswith("/stream")  # it has no end to wait for
]


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("contract")
    with serving(make_app(f"sqlite:///{folder}/tasks.db")) as running:
        yield schemathesis.openapi.from_url(f"{running.url}/openapi.json")


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_the_service_answers_as_its_document_says(schema: Any, path: str, method: str):
    @hypothesis.given(case=schema[path][method].as_strategy())
    @hypothesis.settings(
        max_examples=200 if THOROUGH else 10,
        deadline=None,
        database=None,
        suppress_health_check=[
            hypothesis.HealthCheck.too_slow,
            hypothesis.HealthCheck.filter_too_much,
            hypothesis.HealthCheck.data_too_large,
        ],
    )
    def hold(case: Any) -> None:
        for part in (case.query, case.body):  # nobody has a minute for each
            if isinstance(part, dict):
                part.pop("wait", None)
        case.call_and_validate(checks=CHECKS)

    hold()
