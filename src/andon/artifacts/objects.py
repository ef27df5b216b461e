"""Artifacts in an object store: S3 and compatible ones, Google Cloud Storage, Azure."""

from collections.abc import AsyncIterable, AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from andon.artifacts.blobs import PIECE
from andon.model.errors import ConfigurationError, StoreUnavailable
from andon.model.urls import shown

try:
    import obstore as untyped  # its listings are typed for Arrow too, which is not installed
    from obstore.exceptions import AlreadyExistsError, BaseError
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise ConfigurationError(
        "Artifacts in an object store need one more package: pip install 'andon[objects]'."
    ) from error

if TYPE_CHECKING:
    from obstore.store import ObjectStore

obstore: Any = untyped
_LISTED_AT_ONCE = 1_000


class ObjectBlobs:
    """Objects below the prefix that `store` was made with. Large ones go up in parts of 5 MiB, two
    at a time, so that memory stays bounded."""

    def __init__(self, store: "ObjectStore", url: str) -> None:
        self._store = store
        self._url = url

    async def put(self, path: str, content: AsyncIterable[bytes]) -> None:
        try:
            await obstore.put_async(self._store, path, content, max_concurrency=2)
        except BaseError as error:
            raise self._unavailable(error) from error

    async def create(self, path: str, content: bytes) -> bool:
        try:
            await obstore.put_async(self._store, path, content, mode="create", use_multipart=False)
        except AlreadyExistsError:
            return False
        except BaseError as error:
            raise self._unavailable(error) from error
        return True

    async def read(self, path: str, start: int = 0) -> AsyncIterator[bytes]:
        try:
            options = {"range": {"offset": start}} if start else None
            found = await obstore.get_async(self._store, path, options=options)
            async for piece in found.stream(min_chunk_size=PIECE):
                yield bytes(piece)
        except FileNotFoundError as error:
            raise FileNotFoundError(path) from error
        except BaseError as error:
            raise self._unavailable(error) from error

    async def files(self, folder: str) -> list[str]:
        listed = await self._list(folder)
        return sorted(meta["path"].rpartition("/")[2] for meta in listed["objects"])

    async def folders(self, folder: str) -> list[str]:
        listed = await self._list(folder)
        return sorted(prefix.rstrip("/").rpartition("/")[2] for prefix in listed["common_prefixes"])

    async def _list(self, folder: str) -> Any:
        try:
            return await obstore.list_with_delimiter_async(self._store, folder or None)
        except BaseError as error:
            raise self._unavailable(error) from error

    async def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            try:
                await obstore.delete_async(self._store, path)
            except FileNotFoundError:
                continue
            except BaseError as error:
                raise self._unavailable(error) from error

    async def clear(self, folder: str) -> None:
        try:
            async for metas in obstore.list(self._store, folder, chunk_size=_LISTED_AT_ONCE):
                await self.delete([meta["path"] for meta in metas])
        except BaseError as error:
            raise self._unavailable(error) from error

    async def close(self) -> None: ...

    def _unavailable(self, error: Exception) -> StoreUnavailable:
        first = str(error).strip().partition("\n")[0]
        return StoreUnavailable(f"The artifacts at {self._url} cannot be reached: {first}")


def from_url(url: str, options: dict[str, str]) -> "ObjectStore":
    """The object store at a URL. Raises `ConfigurationError`."""
    client = {"allow_http": options.pop("allow_http", "") == "true"}
    try:
        return obstore.store.from_url(url, client_options=client, **options)
    except BaseError as error:
        raise ConfigurationError(f"{shown(url)}: {error}") from error
