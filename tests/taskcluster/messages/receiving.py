"""A receiver of webhooks: a real server, which checks what comes with the library that receivers
use."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from standardwebhooks.webhooks import Webhook
from tests.taskcluster.shaped import check_message

if TYPE_CHECKING:
    from collections.abc import Callable

SECRET = "whsec_" + "c2VjcmV0LW9mLXRoZS10ZXN0cy0wMTIzNDU2Nzg5"


class Receiver:
    """Keeps what it takes, and answers as a test says."""

    def __init__(self) -> None:
        self.taken: list[dict[str, Any]] = []
        self.ids: list[str] = []
        self.tries = 0
        self.wrong: list[str] = []
        self.answer: Callable[[dict[str, Any]], int] = lambda _: 200
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/hook"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        assert self.wrong == []
        for message in self.taken:
            check_message(message)

    def names(self) -> list[str]:
        return [one["exchange"].rpartition("/")[2] for one in self.taken]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self
        library = Webhook(SECRET)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.tries += 1
                headers = {name.lower(): value for name, value in self.headers.items()}
                try:
                    library.verify(body, headers)
                except Exception as error:
                    receiver.wrong.append(str(error))
                message = json.loads(body)
                if headers["webhook-id"] != message["id"]:
                    receiver.wrong.append("another id in the header")
                status = receiver.answer(message)
                if status == 200:
                    receiver.taken.append(message)
                    receiver.ids.append(message["id"])
                self.send_response(status)
                if status in (301, 302, 307):
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        return Handler
