"""Opens the place for artifacts by its URL.

| URL | place |
|---|---|
| `file:///var/lib/andon/artifacts` | a local folder |
| `s3://bucket/prefix?region=…&endpoint=…` | S3, or what speaks its protocol |
| `gs://bucket/prefix`, `az://container/prefix` | Google Cloud Storage, Azure |
| `memory://` | this process, for tests |

Credentials come from where each vendor's own tools find them (environment, files, the machine's
role), never from the URL.
"""

import os
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from andon.artifacts.blobs import Blobs
from andon.artifacts.folder import FolderBlobs
from andon.artifacts.memory import MemoryBlobs
from andon.model.errors import ConfigurationError
from andon.model.urls import shown, split

VARIABLE = "ANDON_ARTIFACTS"
"""Environment variable with the URL of the place."""

_OBJECT_STORES = ("s3", "gs", "az")
_OPTIONS = {"endpoint", "region", "allow_http", "virtual_hosted_style_request", "skip_signature"}


def named_place() -> str | None:
    """The place that the environment names."""
    return os.environ.get(VARIABLE) or None


def default_place(store_url: str) -> str | None:
    """The default place: beside an embedded store; none for a store on a server, whose clients may
    be on many machines."""
    parts = split(store_url)
    if parts.scheme == "sqlite":
        return f"file://{quote(f'{Path(unquote(parts.path)[1:]).absolute()}-artifacts')}"
    return "memory://" if parts.scheme == "memory" else None


def open_blobs(url: str) -> Blobs:
    """The place that `url` names. Raises `ConfigurationError` for what is none."""
    parts = urlsplit(url)
    if parts.scheme == "memory":
        return MemoryBlobs()
    if parts.scheme == "file":
        if parts.netloc or not parts.path.startswith("/"):
            raise ConfigurationError(
                f"{shown(url)!r}: name an absolute path, file:///path/to/folder."
            )
        return FolderBlobs(Path(unquote(parts.path)))
    if parts.scheme in _OBJECT_STORES:
        return _object_blobs(url)
    raise ConfigurationError(
        f"There is no place for artifacts at {shown(url)!r}. Use file:///folder, "
        "s3://bucket/prefix, gs://bucket/prefix or az://container/prefix."
    )


def _object_blobs(url: str) -> Blobs:
    from andon.artifacts.objects import ObjectBlobs, from_url

    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    unknown = options.keys() - _OPTIONS
    if unknown:
        raise ConfigurationError(
            f"Unknown option {min(unknown)!r} in {shown(url)!r}; there are "
            f"{', '.join(sorted(_OPTIONS))}."
        )
    bare = parts._replace(query="").geturl()
    return ObjectBlobs(from_url(bare, options), bare)
