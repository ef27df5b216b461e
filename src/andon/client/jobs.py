"""A client for the jobs of cbintel's API, as its page uses one: `submit`, `get`, `wait`.

    async with JobsClient("http://127.0.0.1:8640") as client:
        job = await client.submit("crawl", {"query": "andon"})
        result = await client.wait(job.job_id, timeout=3600)

It speaks to a service (`andon serve`) and needs `andon[http]`. What is safe to repeat is repeated
with growing pauses while the service cannot be reached: a job's id is made here, before the first
try, so a lost answer never makes two jobs.
"""

import asyncio
import os
import random
import secrets
import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from andon.client.services import CertificateFiles, PathLike, certificate_of
from andon.client.signing import signing_with
from andon.engine.base import Submission
from andon.model.errors import AndonError, ConfigurationError
from andon.model.urls import shown
from andon.model.words import DEFAULT_QUEUE

if TYPE_CHECKING:
    from aiohttp import ClientSession

    from andon.signing import SigningKey

DEFAULT_URL = "http://127.0.0.1:8640"
FINAL = frozenset({"COMPLETED", "FAILED", "CANCELLED"})
"""The statuses that a job does not leave by itself."""

_POLL_S = 30.0
_TRIES = 6
_PAUSE_S = 0.2


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a job's history.

    Example:
        from andon.client.jobs import JobsClient

        async with JobsClient() as client:
            job = await client.submit("charge", {"order": 7, "cents": 990})
            for entry in job.history:
                print(entry.timestamp, entry.status, entry.worker)
    """

    status: str  #: that it went to
    timestamp: str  #: when
    worker: str | None = None  #: that ran it
    error: str | None = None  #: what went wrong
    attempt: int | None = None  #: ordinal of the run that begins, from the second


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job as the service shows it. Times are ISO 8601 in UTC.

    Example:
        from andon.client.jobs import JobsClient

        async with JobsClient() as client:
            job = await client.submit("charge", {"order": 7, "cents": 990})
            print(job.job_id, job.status, job.progress)
    """

    job_id: str  #: begins with `job_`
    status: str  #: PENDING, QUEUED, PROCESSING, COMPLETED, FAILED or CANCELLED
    progress: int = 0  #: percent
    message: str | None = None  #: beside the progress
    started_at: str | None = None  #: of the newest run
    completed_at: str | None = None  #: None unless COMPLETED
    failed_at: str | None = None  #: None unless FAILED
    cancelled_at: str | None = None  #: None unless CANCELLED
    duration_seconds: int | None = None  #: from the newest start to the end
    result: Any = None  #: JSON; None unless COMPLETED
    error: str | None = None  #: the error of the newest failed run
    attempts: int = 0  #: retries used
    max_retries: int = 0  #: the most retries
    history: tuple[Entry, ...] = ()  #: oldest first


class JobRefused(AndonError):
    """The service refused a request; `status` is HTTP's.

    Example:
        from andon.client.jobs import JobRefused, JobsClient

        async with JobsClient() as client:
            try:
                await client.get("job_unknown")
            except JobRefused as error:
                assert error.status == 404
            else:
                raise AssertionError("it was found")
    """

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status  #: of the answer; 0 if the service could not be reached


class JobsClient:
    """Submits jobs and waits for them.

    `url` is the service's (default: ANDON_URL, else http://127.0.0.1:8640), `token` an API token
    where the service asks for one (default: ANDON_TOKEN). To a service that asks for a certificate
    it shows `client_certificate`: a PEM file with its key, or a pair of files (default: those that
    ANDON_CLIENT_CERTIFICATE and ANDON_CLIENT_KEY name). With a `signing_key`, a key or its file
    (default: the file that ANDON_SIGNING_KEY names, if any), jobs are signed.

    Example:
        from andon.client.jobs import JobsClient

        client = JobsClient()  # ANDON_URL and ANDON_TOKEN say where
        job = await client.submit("charge", {"order": 7, "cents": 990}, max_retries=2)
        job = await client.wait(job.job_id, timeout=60)
        assert job.result == "order 7 paid"
        await client.close()
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        client_certificate: CertificateFiles | None = None,
        signing_key: "SigningKey | PathLike | None" = None,
    ) -> None:
        self.url = (url or os.environ.get("ANDON_URL") or DEFAULT_URL).rstrip("/")
        """Of the service."""
        if not self.url.startswith(("http://", "https://")):
            raise ConfigurationError(
                f"JobsClient speaks to a service, so its URL begins with http://, not "
                f"{shown(self.url)!r}."
            )
        self._token = token or os.environ.get("ANDON_TOKEN")
        self._client_certificate = client_certificate
        self._signing = signing_with(signing_key)
        self._session: ClientSession | None = None
        self._random = random.Random()

    async def submit(
        self,
        type: str,  # noqa: A002 - the page's own word
        params: Mapping[str, Any] | None = None,
        *,
        max_retries: int | None = None,
        retry_on: list[str] | None = None,
        no_retry_on: list[str] | None = None,
        queue: str = DEFAULT_QUEUE,
    ) -> Job:
        """Submit a job. One whose params do not fit comes back FAILED.

        `queue` is for signed jobs only: the one that jobs of this type go to, which is signed too;
        the service refuses a job that goes to another.
        """
        given = {"max_retries": max_retries, "retry_on": retry_on, "no_retry_on": no_retry_on}
        body: dict[str, Any] = {
            "type": type,
            "params": msgspec.Raw(msgspec.json.encode(params or {})),
            "job_id": f"job_{secrets.token_hex(12)}",
            **{name: value for name, value in given.items() if value is not None},
        }
        if self._signing is not None:
            body |= {"queue": queue, "signature": _signature(self._signing.key, body, queue)}
        return await self._ask("POST", "", body)

    async def get(self, job_id: str) -> Job:
        """A job as it stands.

        Example:
            from andon.client.jobs import JobsClient

            async with JobsClient() as client:
                job = await client.submit("charge", {"order": 7, "cents": 990})
                print((await client.get(job.job_id)).status)
        """
        return await self._ask("GET", f"/{job_id}")

    async def wait(self, job_id: str, timeout: float | None = None) -> Job:
        """The job as it ended. Raises `TimeoutError` after `timeout` seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _POLL_S if end is None else min(_POLL_S, max(end - time.monotonic(), 0))
            job = await self._ask("GET", f"/{job_id}?wait={left:.3f}")
            if job.status in FINAL:
                return job
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"Job {job_id} has not ended within {timeout:g} s.")

    async def cancel(self, job_id: str) -> Job:
        """Cancel a job; it is cancelled when this returns. Raises `JobRefused` if it has ended.

        Example:
            from andon.client.jobs import JobRefused, JobsClient

            async with JobsClient() as client:
                job = await client.submit("poll", {"url": "https://example.org"})
                print((await client.cancel(job.job_id)).status)
        """
        return await self._ask("DELETE", f"/{job_id}")

    async def _ask(self, method: str, path: str, body: Any = None) -> Job:
        from aiohttp import ClientError

        session = self._session or self._open()
        url = f"{self.url}/api/v1/jobs{path}"
        data = None if body is None else msgspec.json.encode(body)
        for tries_left in reversed(range(_TRIES)):
            try:
                async with session.request(method, url, data=data) as answer:
                    if answer.status != 503 or not tries_left:
                        return _job(answer.status, await answer.read())
            except (ClientError, TimeoutError) as error:
                if not tries_left:
                    raise JobRefused(0, f"The service at {self.url} cannot be reached.") from error
            pause = _PAUSE_S * 2 ** (_TRIES - 1 - tries_left)
            await asyncio.sleep(pause * (0.5 + self._random.random()))
        raise AssertionError("the last try returns or raises")

    def _open(self) -> "ClientSession":
        try:
            from aiohttp import ClientSession, ClientTimeout, TCPConnector

            from andon.engine.http.place import client_tls
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                f"JobsClient needs {error.name}. Install it with: pip install 'andon[http]'."
            ) from error
        headers = {"Content-Type": "application/json"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        timeout = ClientTimeout(total=_POLL_S + 30)
        secure = self.url.startswith("https://")
        tls = client_tls(certificate_of(self._client_certificate)) if secure else True
        self._session = ClientSession(
            headers=headers, timeout=timeout, connector=TCPConnector(ssl=tls)
        )
        return self._session

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


def _signature(key: "SigningKey", body: Mapping[str, Any], queue: str) -> str:
    job = Submission(id=body["job_id"], name=body["type"], queue=queue, args=bytes(body["params"]))
    return key.sign(job, time.time_ns() // 1_000_000)


def _job(status: int, body: bytes) -> Job:
    try:
        return msgspec.json.decode(body, type=Job)  # also 422: recorded as FAILED
    except msgspec.DecodeError as error:
        try:
            detail = msgspec.json.decode(body)["detail"]
        except (msgspec.DecodeError, TypeError, KeyError):
            detail = f"The service answered {status} with something that is no job."
        raise JobRefused(status, detail) from error
