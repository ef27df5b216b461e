"""A server that keeps requests as they came in, and answers each with an empty object."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from andon.service.taskcluster.trust.authentication import Incoming


class Recording:
    """Where it listens, and what it was sent."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[Incoming] = []


@contextmanager
def recording() -> Iterator[Recording]:
    """A server on a free port for as long as the block lasts."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            sent.requests.append(
                Incoming(
                    method=self.command,
                    resource=self.path,
                    headers=tuple(
                        (name.lower().encode("latin-1"), value.encode("latin-1"))
                        for name, value in self.headers.items()
                    ),
                    body=body,
                    address=self.client_address[0],
                )
            )
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        do_GET = do_PUT = do_POST = answer  # noqa: N815

        def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    sent = Recording(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield sent
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
