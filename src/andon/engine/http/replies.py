"""From a reply to its bytes, or to the error that a local engine would have raised. Pure."""

from http import HTTPStatus
from typing import Any

import msgspec

from andon.engine.http.errors import error_of_document
from andon.engine.http.place import Place
from andon.model.errors import AndonError, StoreError, StoreIncompatible, StoreUnavailable

_AWAY = frozenset(
    {
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)


def check(place: Place, status: int, body: bytes) -> bytes:
    """The body of a good reply. Raises the error that any other stands for."""
    if status < HTTPStatus.BAD_REQUEST:
        return body
    raise _error(place, status, body)


def _error(place: Place, status: int, body: bytes) -> AndonError:
    try:
        told = msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        told = {}
    error = error_of_document(told)
    if error is not None:
        return error
    said = str(told.get("detail") or told.get("title") or "it said no more").rstrip(".")
    if status in _AWAY:
        return StoreUnavailable(
            f"The service at {place.shown} cannot answer now ({status}): {said}."
        )
    if status == HTTPStatus.NOT_FOUND:
        return StoreIncompatible(
            f"What answers at {place.shown} is no Andon service, or an older one. Check the URL."
        )
    return StoreError(f"The service at {place.shown} refused a request ({status}): {said}.")


def away(place: Place, error: BaseException) -> StoreUnavailable:
    """The service could not be reached, or did not answer in time."""
    why = str(error) or type(error).__name__
    return StoreUnavailable(
        f"The service at {place.shown} did not answer ({why}). "
        "Check that it runs (andon serve) and that the URL is right."
    )
