"""The OpenAPI document: what the framework reads off the handlers, and what it cannot know."""

from typing import TYPE_CHECKING, Any

import msgspec
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin

if TYPE_CHECKING:
    from litestar import Litestar


def openapi_config() -> OpenAPIConfig:
    """What the framework is told."""
    return OpenAPIConfig(
        title="Andon",
        version="1",
        description="A durable task queue: submit, watch and control tasks.",
        path="/schema",
        render_plugins=[JsonRenderPlugin(path="/framework.json")],
        use_handler_docstrings=True,
    )


def document_of(app: "Litestar") -> bytes:
    """The document as JSON."""
    document: dict[str, Any] = app.openapi_schema.to_schema()
    return msgspec.json.encode(document, order="deterministic")
