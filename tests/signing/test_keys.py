"""Key files: what other tools write is read, and what is no key is one sentence."""

import logging
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from andon.engine.base import Submission
from andon.model.errors import ConfigurationError
from andon.signing import SigningKey, TrustedKeys, key_id


def test_a_key_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    key = SigningKey.generate()
    path = tmp_path / "a.pem"
    path.write_bytes(key.private_pem())
    path.chmod(0o600)
    assert SigningKey.load(path).key_id == key.key_id == key_id(key.public)


def test_one_file_may_hold_several_public_keys_between_other_lines(tmp_path: Path) -> None:
    keys = [SigningKey.generate() for _ in range(3)]
    both, last = tmp_path / "both.pub", tmp_path / "last.pub"
    both.write_bytes(b"# the shop\n" + keys[0].public_pem() + b"\n# next\n" + keys[1].public_pem())
    last.write_bytes(keys[2].public_pem())
    assert TrustedKeys.load(both, last).ids == tuple(key.key_id for key in keys)


def openssl(*args: str) -> bytes:
    done = subprocess.run(["openssl", *args], capture_output=True, check=True, timeout=60)
    return done.stdout


def has_openssl() -> bool:
    try:
        openssl("version")
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


@pytest.mark.skipif(not has_openssl(), reason="there is no openssl here")
def test_what_openssl_makes_can_be_used(tmp_path: Path) -> None:
    path = tmp_path / "ssl.pem"
    path.write_bytes(openssl("genpkey", "-algorithm", "ed25519"))
    path.chmod(0o600)
    public = tmp_path / "ssl.pub"
    public.write_bytes(openssl("pkey", "-in", str(path), "-pubout"))
    task = Submission(id="a", name="x")
    header = SigningKey.load(path).sign(task, 0)
    signed = Submission(id="a", name="x", headers={"andon-signature": header})
    assert TrustedKeys.load(public).refusal(signed, 0) is None


def encrypted() -> bytes:
    form = serialization.BestAvailableEncryption(b"secret")
    private = SigningKey.generate()._private  # type: ignore[attr-defined]
    return private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, form
    )


def of_another_kind() -> bytes:
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


WRONG: dict[str, tuple[Any, str]] = {
    "empty": (b"", "holds no key in PEM form"),
    "no key": (b"hello\n", "holds no key in PEM form"),
    "damaged": (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "damaged"),
    "a certificate": (b"-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----\n", "another"),
    "public": (SigningKey.generate().public_pem(), "holds no private key"),
    "two": (SigningKey.generate().private_pem() * 2, "holds 2 private keys"),
    "encrypted": (encrypted(), "under a passphrase"),
    "another kind": (of_another_kind(), "another kind"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_no_key_to_sign_with_is_one_sentence(tmp_path: Path, what: str) -> None:
    content, says = WRONG[what]
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(ConfigurationError, match=says) as told:
        SigningKey.load(path)
    assert str(path) in str(told.value)


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    for load in (SigningKey.load, TrustedKeys.load):
        with pytest.raises(ConfigurationError, match="cannot be read"):
            load(tmp_path / "none")


def test_workers_are_not_given_private_keys(tmp_path: Path) -> None:
    path = tmp_path / "a.pem"
    path.write_bytes(SigningKey.generate().private_pem())
    with pytest.raises(ConfigurationError, match="workers are given the public one"):
        TrustedKeys.load(path)


@pytest.mark.parametrize(("mode", "warns"), [(0o600, 0), (0o400, 0), (0o640, 1), (0o604, 1)])
def test_a_private_key_that_others_may_read_is_warned_of(
    tmp_path: Path, mode: int, warns: int, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.pem"
    path.write_bytes(SigningKey.generate().private_pem())
    path.chmod(mode)
    with caplog.at_level(logging.WARNING, logger="andon.signing"):
        SigningKey.load(path)
    told = [record.getMessage() for record in caplog.records if record.name == "andon.signing"]
    assert len(told) == warns
    assert all(f"chmod 600 {path}" in text for text in told)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_signature_holds_for_some_time_or_for_ever(seconds: float) -> None:
    with pytest.raises(ConfigurationError, match="valid_for"):
        SigningKey(SigningKey.generate()._private, valid_for=seconds)  # type: ignore[attr-defined]
