"""Signs requests by the text of the protocol, for what no client would ever send."""

import base64
import hashlib
import hmac
import json
import time
from typing import Any, NamedTuple
from urllib.parse import urlsplit

SEED = "A" * 44


class Signer(NamedTuple):
    """Credentials: a client's, or temporary ones."""

    client_id: str
    access_token: str
    certificate: dict[str, Any] | None = None

    def header(
        self,
        method: str,
        url: str,
        *,
        ts: int | None = None,
        authorized: list[str] | None = None,
        ext: str | None = None,
    ) -> str:
        """The value of the header Authorization."""
        ts = round(time.time()) if ts is None else ts
        ext = self.ext(authorized) if ext is None else ext
        mac = self._mac(("hawk.1.header", ts, "nonce1", method), url, ext)
        named = f', ext="{ext}"' if ext else ""
        return f'Hawk mac="{mac}", id="{self.client_id}", ts="{ts}", nonce="nonce1"{named}'

    def signed_url(self, url: str, exp: int) -> str:
        """The URL with a bewit."""
        ext = self.ext(None)
        mac = self._mac(("hawk.1.bewit", exp, "", "GET"), url, ext)
        text = "\\".join((self.client_id, str(exp), mac, ext))
        bewit = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
        return f"{url}{'&' if '?' in url else '?'}bewit={bewit}"

    def ext(self, authorized: list[str] | None) -> str:
        """What travels beside the signature."""
        said: dict[str, Any] = {}
        if self.certificate is not None:
            said["certificate"] = self.certificate
        if authorized is not None:
            said["authorizedScopes"] = authorized
        return base64.b64encode(json.dumps(said).encode()).decode() if said else ""

    def temporary(
        self,
        scopes: list[str],
        *,
        name: str | None = None,
        start: float | None = None,
        life: float = 3600,
        **changed: Any,
    ) -> "Signer":
        """Temporary credentials; `start` in s UTC, `life` in s, `changed` of the certificate before
        it is signed."""
        begin = round((time.time() if start is None else start) * 1000)
        certificate: dict[str, Any] = {
            "version": 1,
            "scopes": scopes,
            "start": begin,
            "expiry": begin + round(life * 1000),
            "seed": SEED,
            **({"issuer": self.client_id} if name else {}),
            **changed,
        }
        lines = [f"version:{certificate['version']}"]
        if "issuer" in certificate:
            lines += [f"clientId:{name}", f"issuer:{certificate['issuer']}"]
        lines += [f"{field}:{certificate[field]}" for field in ("seed", "start", "expiry")]
        signed = self._digest("\n".join([*lines, "scopes:", *certificate["scopes"]]))
        certificate["signature"] = base64.b64encode(signed).decode()
        key = base64.urlsafe_b64encode(self._digest(certificate["seed"])).decode().rstrip("=")
        return Signer(name or self.client_id, key, certificate)

    def _mac(self, before: tuple[object, ...], url: str, ext: str) -> str:
        parts = urlsplit(url)
        resource = parts.path + (f"?{parts.query}" if parts.query else "")
        port = parts.port or (443 if parts.scheme == "https" else 80)
        lines = (*before, resource, parts.hostname, port, "", ext, "")
        return base64.b64encode(self._digest("\n".join(map(str, lines)))).decode()

    def _digest(self, text: str) -> bytes:
        return hmac.new(self.access_token.encode(), text.encode(), hashlib.sha256).digest()
