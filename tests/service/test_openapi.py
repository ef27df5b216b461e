"""The OpenAPI document: what the service serves is what the docs have, complete and true."""

import json
import os
from pathlib import Path
from typing import Any

import httpx
import pytest

from andon import Andon
from andon.service.app import make_app
from andon.service.service import Service

PAGE = Path(__file__).parents[2] / "docs" / "openapi.json"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    service = Service(Andon("memory://"))
    make_app(service)
    return json.loads(service.openapi)


def operations(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{method.upper()} {path}", operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def test_the_page_in_the_docs_is_fresh(document: dict[str, Any]):
    fresh = json.dumps(document, indent=1, sort_keys=True) + "\n"
    if os.environ.get("ANDON_WRITE_DOCS"):
        PAGE.write_text(fresh)
    assert PAGE.read_text() == fresh, (
        "refresh it: ANDON_WRITE_DOCS=1 pytest tests/service -k openapi"
    )


def test_the_service_serves_it(http: httpx.Client, document: dict[str, Any]):
    answer = http.get("/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == document
    assert document["openapi"].startswith("3.1")


def test_every_operation_says_what_it_does_and_how_it_fails(document: dict[str, Any]):
    seen: set[str] = set()
    for name, operation in operations(document):
        assert operation["summary"], name
        assert operation["description"], name
        assert operation["operationId"] not in seen, name
        seen.add(operation["operationId"])
        failures = [status for status in operation["responses"] if status >= "400"]
        assert {"500", "503", "422"} <= set(failures), name
        for parameter in operation.get("parameters", ()):
            assert parameter["in"] == "path" or parameter["description"], name


def test_every_reference_leads_somewhere(document: dict[str, Any]):
    def walk(value: Any) -> None:
        if isinstance(value, dict):
            reference = value.get("$ref")
            if isinstance(reference, str):
                found: Any = document
                for part in reference.removeprefix("#/").split("/"):
                    found = found[part]
            for item in value.values():
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)

    walk(document)


def test_the_examples_of_requests_are_taken(http: httpx.Client, document: dict[str, Any]):
    schemas = document["components"]["schemas"]
    for path, name in (("/api/v1/tasks", "NewTask"), ("/api/v1/jobs", "NewJob")):
        schema = schemas[name]
        body = {
            field: schema["properties"][field]["examples"][0]
            for field in ("name", "args", "type", "params")
            if field in schema["properties"]
        }
        assert http.post(path, json=body).status_code == 201
