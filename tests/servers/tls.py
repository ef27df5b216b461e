"""A certificate of the test's own, and a way in front of a server that speaks TLS for it: the
server of the wheel is built without.
"""

import asyncio
import contextlib
import datetime
import ipaddress
import ssl
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


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


class Encrypting:
    """Speaks TLS to clients and passes on what they say to a port on loopback. A context manager,
    in a thread of its own."""

    def __init__(self, port: int, certificate: Certificate) -> None:
        self.port = 0  #: where it listens, once entered
        self._target = port
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate.file, certificate.key_file)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tls", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    # --- in the thread ---

    async def _listen(self) -> None:
        self._loop.set_exception_handler(lambda *_: None)  # who does not trust us leaves rudely
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _end(self) -> None:
        self._server.close()
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in others:
                task.cancel()
            await asyncio.wait(others)
        await asyncio.sleep(0.05)  # a transport lets its socket go some turns after it is aborted

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
            try:
                pumps = (_pump(reader, back), _pump(there, writer))
                running = [asyncio.ensure_future(pump) for pump in pumps]
                try:
                    await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for pump in running:
                        pump.cancel()
                    await asyncio.gather(*running, return_exceptions=True)
            finally:
                back.transport.abort()
        writer.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(65_536):
        writer.write(chunk)
        await writer.drain()
