"""The settings of a service process. Sizes are bytes, durations seconds."""

from urllib.parse import urlsplit

import msgspec

from andon.contract.limits import MAX_PAYLOAD
from andon.lifecycle.leaving import ARTIFACT_GRACE_S
from andon.model.errors import ConfigurationError
from andon.service.taskcluster.settings import TaskclusterSettings
from andon.service.trust.proxies import Proxies

MIB = 1024 * 1024
_LONGEST_GRACE_S = 86_400.0


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one service process."""

    host: str = "127.0.0.1"
    port: int = 8640  #: 0 takes a free one
    max_body: int = 32 * MIB  #: of one request
    max_payload: int = MAX_PAYLOAD
    """Of a result that a worker reports; arguments with results in them may take 64 times as many,
    where the service puts them in, which it does for workers in other languages."""
    max_artifact: int = 5 * 1024 * MIB  #: of one artifact that is uploaded
    max_bulk: int = 10_000  #: submissions, or ids, in one request
    max_page: int = 1_000  #: tasks or events on one page
    max_wait: float = 60.0  #: longest long poll
    max_headers: int = 32 * 1024  #: request line and headers together
    header_timeout: float = 15.0  #: until the headers of a request have come
    body_timeout: float = 30.0  #: between two parts of a body
    keep_alive: float = 75.0  #: an idle connection
    max_connections: int = 12_000  #: open at once
    rate_limit: float | None = None  #: requests a second from one address
    rate_burst: int | None = None  #: requests at once; default: two seconds' worth
    max_streams: int = 10_000  #: streams of events and logs open at once
    stream_buffer: int = 1_000  #: events that a slow stream may lag behind before it is ended
    stream_ping: float = 15.0  #: a comment after so much silence, so that the dead are noticed
    shutdown_grace: float = 10.0  #: for requests in hand at a stop
    timekeeper: bool = True  #: fire timers in this process
    board: bool = True  #: show the board at /
    alert_commands: bool = False  #: run the programs that are targets of alerts
    require_token: bool = False  #: ask for a token on loopback too, behind a proxy for example
    certificate: str | None = None  #: PEM file; with it the service speaks TLS
    private_key: str | None = None  #: PEM file; default: in the certificate's file
    public_url: str | None = None
    """Where others reach the service, `https://tasks.example.org`: signed URLs begin so. Default:
    where the request was sent to that a URL is given in answer to."""
    proxies: tuple[str, ...] = ()
    """Addresses or networks of proxies whose X-Forwarded-Proto and -Port are believed."""
    artifact_grace: float = ARTIFACT_GRACE_S
    """How long a run may leave files behind after an end that was not its own report."""
    client_ca: str | None = None
    """PEM file of authorities; who connects must show a certificate that one of them has signed."""

    taskcluster: TaskclusterSettings | None = None
    """With it the service answers the clients and workers of a Taskcluster queue too."""

    @property
    def most_headers(self) -> int:
        """Bytes of the request line and the headers together."""
        of_the_face = 0 if self.taskcluster is None else self.taskcluster.max_headers
        return max(self.max_headers, of_the_face)

    def check(self) -> None:
        """Raise `ConfigurationError` for a setting that cannot be."""
        for name in (
            "max_body",
            "max_payload",
            "max_artifact",
            "max_bulk",
            "max_page",
            "max_headers",
            "max_connections",
        ):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name} must be at least 1.")
        if self.stream_buffer < 1_000:
            raise ConfigurationError("stream_buffer must be at least 1000 events, two pages.")
        if not 0 <= self.port <= 65_535:
            raise ConfigurationError(f"There is no port {self.port}; use 0 to 65535.")
        if self.rate_limit is not None and not self.rate_limit > 0:
            raise ConfigurationError("rate_limit must be more than 0 requests a second.")
        if not 0 <= self.artifact_grace <= _LONGEST_GRACE_S:
            raise ConfigurationError("artifact_grace is 0 s to a day.")
        if self.public_url is not None:
            _check_origin(self.public_url)
        Proxies(self.proxies)
        if self.private_key is not None and self.certificate is None:
            raise ConfigurationError("A private key needs its certificate too.")
        if self.client_ca is not None and self.certificate is None:
            raise ConfigurationError(
                "To ask clients for certificates the service needs one of its own: --certificate."
            )
        if self.taskcluster is not None:
            self.taskcluster.check()


def _check_origin(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in ("http", "https") and bool(parts.netloc) and parts.port != 0
    except ValueError:
        is_one, parts = False, urlsplit("")
    if not is_one or parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc:
        raise ConfigurationError(
            "public_url is scheme, host and port alone: https://tasks.example.org."
        )
