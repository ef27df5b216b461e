"""Keeps in cookies the token that a visitor logged in with, and a session for forms.

Both are cookies that no script can read and no other site's page can send. A form has a token that
is made of the session's cookie: a page of another site cannot read the cookie, so it cannot make
the token. The token needs no memory here, so it outlives a restart and is the same in every
process.
"""

import hashlib
import hmac
import re
import secrets
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from andon.dashboard.requests import Refused

if TYPE_CHECKING:
    from andon.dashboard.requests import Answer, Fields, Request

ENTERED = "andon_token"
SESSION = "andon_session"
SAID = "andon_said"

_SESSION = re.compile(r"[A-Za-z0-9_-]{43}\Z")
_SAID_S = 60
_MOST_SAID = 600


class Session:
    """The session of one request, made if it has none."""

    def __init__(self, request: "Request") -> None:
        self._request = request
        found = request.cookies.get(SESSION, "")
        self.is_new = _SESSION.match(found) is None
        self._secret = secrets.token_urlsafe(32) if self.is_new else found

    @property
    def token(self) -> str:
        """The token that the visitor logged in with; empty if with none."""
        return self._request.cookies.get(ENTERED, "")

    @property
    def form_token(self) -> str:
        """The token that every form of this session has."""
        return hashlib.sha256(b"andon board form\0" + self._secret.encode()).hexdigest()

    @property
    def said(self) -> str:
        """The outcome of the last act."""
        return unquote(self._request.cookies.get(SAID, ""))[:_MOST_SAID]

    def check(self, form: "Fields") -> None:
        """Raise `Refused` unless the form is of this session, sent by a page of this site."""
        if not self._request.is_of_this_site:
            raise Refused(403, "From elsewhere", "Only a page of this board can do something here.")
        if self.is_new or not hmac.compare_digest(
            form.get("form-token").encode(), self.form_token.encode()
        ):
            raise Refused(
                403,
                "Out of date",
                "This form is of another session. Go back, reload the page, and try again.",
            )

    def keep(self, answer: "Answer") -> None:
        """Make the browser keep the session."""
        if self.is_new:
            answer.headers.append(self._cookie(SESSION, self._secret))
        if self.said:
            answer.headers.append(self._cookie(SAID, "", seconds=0))

    def say(self, answer: "Answer", text: str) -> None:
        """Make the next page show a message, once."""
        value = quote(text[:_MOST_SAID], safe="")
        answer.headers.append(self._cookie(SAID, value, seconds=_SAID_S))

    def enter(self, answer: "Answer", token: str) -> None:
        """Make the browser keep the token until the browser is closed."""
        answer.headers.append(self._cookie(ENTERED, token))

    def leave(self, answer: "Answer") -> None:
        """Make the browser drop the token and the session."""
        answer.headers.append(self._cookie(ENTERED, "", seconds=0))
        answer.headers.append(self._cookie(SESSION, "", seconds=0))

    def _cookie(self, name: str, value: str, *, seconds: int | None = None) -> tuple[bytes, bytes]:
        parts = [f"{name}={value}", f"Path={self._request.root}/", "HttpOnly", "SameSite=Strict"]
        if seconds is not None:
            parts.append(f"Max-Age={seconds}")
        if self._request.is_secure:
            parts.append("Secure")
        return b"set-cookie", "; ".join(parts).encode()
