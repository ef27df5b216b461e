"""From a reply to its bytes, or to the error that a local engine would have raised. Pure."""

import re
from http import HTTPStatus
from typing import Any

import msgspec

from andon.engine.http.errors import error_of_document
from andon.engine.http.place import Place
from andon.model.errors import (
    AndonError,
    AuthenticationFailed,
    StoreError,
    StoreIncompatible,
    StoreUnavailable,
)

_ALERT = re.compile(
    "ALERT_(CERTIFICATE|UNKNOWN_CA|BAD_CERTIFICATE|UNSUPPORTED_CERT|ACCESS_DENIED)|"
    "alert (certificate|unknown ca|bad certificate|unsupported cert|access denied)",
    re.IGNORECASE,
)
"""The TLS alerts by which the other end refuses a client certificate, as OpenSSL names them."""

_AWAY = frozenset(
    {
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)


def check(place: Place, status: int, body: bytes) -> bytes:
    """The body of a successful reply. Raises the error that any other reply stands for."""
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


def away(place: Place, error: BaseException) -> StoreUnavailable | AuthenticationFailed:
    """The service could not be reached, or did not answer in time; or it wants another client
    certificate than it was shown."""
    why = str(error) or type(error).__name__
    if _ALERT.search(why):
        shown = "none" if place.certificate is None else f"that in {place.certificate.file}"
        return AuthenticationFailed(
            f"The service at {place.shown} asks for a client certificate and was shown {shown} "
            f"({why}). Name one of its authority: client_certificate= or ANDON_CLIENT_CERTIFICATE."
        )
    hint = ""
    if place.secure and place.certificate is None:
        hint = " If it asks for a client certificate, name it in ANDON_CLIENT_CERTIFICATE."
    return StoreUnavailable(
        f"The service at {place.shown} did not answer ({why}). "
        f"Check that it runs (andon serve) and that the URL is right.{hint}"
    )
