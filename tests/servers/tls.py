"""A certificate of the test's own, and a way in front of a server that speaks TLS for it: the
server of the wheel is built without.
"""

import asyncio
import datetime
import ipaddress
import socket
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from servers.entrance import CHUNK, Entrance


class Certificate:
    """Made for 127.0.0.1, signed by itself, in files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.file, self.key_file = folder / "cert.pem", folder / "key.pem"
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "andon test")])
        here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        now = datetime.datetime.now(datetime.UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(here, critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(key, hashes.SHA256())
        )
        self.file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        self.key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )


class Encrypting(Entrance):
    """Speaks TLS to clients and passes on what they say to a port on loopback. A context manager,
    in a thread of its own."""

    def __init__(self, port: int, certificate: Certificate) -> None:
        super().__init__("tls")
        self._target = port
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate.file, certificate.key_file)
        self._loop.set_exception_handler(lambda *_: None)  # who does not trust us leaves rudely

    # --- in the thread ---

    async def _accept(
        self, line: socket.socket
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await self._loop.connect_accepted_socket(
            lambda: protocol, line, ssl=self._context
        )
        return reader, asyncio.StreamWriter(transport, protocol, reader, self._loop)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await self._connect(self._target)
        await self._both_ways(back, _pump(reader, back), _pump(there, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(CHUNK):
        writer.write(chunk)
        await writer.drain()
