"""An authority of the test's own, and the certificates that it signs for services and clients."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

_DAY = datetime.timedelta(days=1)

_SIGNS = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


class Signed:
    """A certificate and its key, each in a file."""

    def __init__(self, file: Path, key: Path) -> None:
        self.file, self.key = str(file), str(key)

    @property
    def text(self) -> str:
        """Both, as one file may have them."""
        return Path(self.file).read_text() + Path(self.key).read_text()


class Authority:
    """Signs certificates; its own is in `file`."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        own = (
            self._builder(self._name, self._key.public_key(), _DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_SIGNS, critical=True)
        )
        self.file = str(self._written(f"{name}.pem", self._sign(own)))

    def service(self) -> Signed:
        """A certificate for 127.0.0.1."""
        here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        return self._signed("service", here, _DAY)

    def client(self, name: str, *, ends_in: datetime.timedelta = _DAY) -> Signed:
        """A certificate for a client."""
        use = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        return self._signed(name, use, ends_in)

    def _signed(
        self, name: str, extension: x509.ExtensionType, ends_in: datetime.timedelta
    ) -> Signed:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        builder = self._builder(subject, key.public_key(), ends_in)
        made = self._sign(builder.add_extension(extension, critical=False))
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return Signed(self._written(f"{name}.pem", made), self._written(f"{name}-key.pem", private))

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, ends_in: datetime.timedelta
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 2 * _DAY)
            .not_valid_after(now + ends_in)
            # without these Python 3.13 and later trust no certificate
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )

    def _sign(self, builder: x509.CertificateBuilder) -> bytes:
        made = builder.sign(self._key, hashes.SHA256())
        return made.public_bytes(serialization.Encoding.PEM)

    def _written(self, name: str, content: bytes) -> Path:
        file = self._folder / name
        file.write_bytes(content)
        return file
