"""A service that speaks TLS, and clients that check its certificate."""

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.service.kit import serving

from andon import Andon
from andon.contract.outcomes import Verdict
from andon.contract.requests import ClaimRequest, Renewal
from andon.engine.base import Submission
from andon.engine.http.engine import HttpEngine
from andon.lifecycle.commands import Complete
from andon.model.errors import StoreUnavailable

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of our own for 127.0.0.1, its key in the same file."""
    folder = tmp_path_factory.mktemp("tls")
    key, file = folder / "key.pem", folder / "certificate.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    made += ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*made, "-keyout", key, "-out", file], check=True, capture_output=True)
    file.write_text(file.read_text() + key.read_text())
    return file


async def test_tasks_are_submitted_run_and_renewed_over_tls(
    tmp_path: Path, certificate: Path, monkeypatch: pytest.MonkeyPatch
):
    with serving(Andon(f"sqlite:///{tmp_path}/tasks.db"), certificate=str(certificate)) as running:
        assert running.url.startswith("https://")
        stranger = HttpEngine(running.url, patience=0.1)
        with pytest.raises(StoreUnavailable, match="certificate"):
            await stranger.open()
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        engine = HttpEngine(running.url)
        await engine.open()
        try:
            await engine.submit([Submission(id="a", name="job")])
            request = ClaimRequest(
                worker="w", token="t", queues=("default",), limit=1, lease_ms=30_000
            )
            [task] = await engine.claim(request)
            renewal = Renewal(task="a", run=task.status.run, lease_ms=30_000)
            assert await asyncio.to_thread(engine.renew_blocking, [renewal]) == [Verdict.OK]
            await engine.report(task, Complete())
        finally:
            await engine.close()
