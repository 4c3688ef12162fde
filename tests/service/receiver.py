"""A receiver of webhooks on this machine."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class Posted(NamedTuple):
    """A request, with its body as JSON."""

    id: str
    body: dict[str, Any]


class Receiver(ThreadingHTTPServer):
    """Keeps what is posted, and answers with the status that `answer` returns for it."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, answer: Callable[[Posted], int] = lambda posted: 204, location: str = "") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer, self.location = answer, location
        self.posted: list[Posted] = []
        self.url = f"http://127.0.0.1:{self.server_port}/hook?a=1"

    def wait(self, number: int, seconds: float = 60.0) -> list[Posted]:
        """Waits until there are so many requests."""
        until = time.monotonic() + seconds
        while len(self.posted) < number:
            assert time.monotonic() < until, self.posted
            time.sleep(0.02)
        return self.posted

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.path == "/hook?a=1" and self.headers["Content-Type"] == "application/json"
        number, timestamp = self.headers["webhook-id"], self.headers["webhook-timestamp"]
        assert abs(int(timestamp) - time.time()) < 60
        key = base64.b64decode(SECRET.removeprefix("whsec_"))
        digest = hmac.new(key, f"{number}.{timestamp}.".encode() + body, hashlib.sha256).digest()
        assert self.headers["webhook-signature"] == "v1," + base64.b64encode(digest).decode()
        posted = Posted(number, json.loads(body))
        self.server.posted.append(posted)
        status = self.server.answer(posted)
        self.send_response(status)
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST

    def log_message(self, format: str, *args: object) -> None:
        pass
