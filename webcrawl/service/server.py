"""The connections of the API's server. They are parsed by llhttp (httptools), which is faster than h11."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from webcrawl.service.problem import PROBLEM_JSON, ApiProblem, ProblemKind, problem_details
from webcrawl.web.server import TimedHeads

_MOST_HEAD = 64 * 1024


class ServiceConnection(TimedHeads, HttpToolsProtocol):  # type: ignore[misc]
    """A connection that ends if a head is too long or not complete in time, or if the client reads no answer."""

    most_connections = 2_000
    slow_seconds = 60.0
    """How long a client may take nothing of an answer for which it has no room."""
    _slow: asyncio.TimerHandle | None = None
    _in_head = False
    _head_bytes = 0

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._head_bytes = self._head_bytes + len(data) if self._in_head else 0
        if self._head_bytes > _MOST_HEAD and not self.transport.is_closing():
            self.send_400_response(f"The head has more than {_MOST_HEAD:,} bytes.")

    def pause_writing(self) -> None:
        super().pause_writing()
        self._slow = self.loop.call_later(self.slow_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        self._stop_slow()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_slow()
        super().connection_lost(exc)

    def _stop_slow(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        request_id = secrets.token_hex(8)
        content = msgspec.json.encode(problem_details(ApiProblem(ProblemKind.BAD_REQUEST, msg), request_id))
        head: Any = [
            STATUS_LINE[400].rstrip(),
            b"content-type: " + PROBLEM_JSON.encode(),
            b"content-length: %d" % len(content),
            b"x-request-id: " + request_id.encode(),
            b"connection: close",
        ]
        self.transport.write(b"\r\n".join([*head, b"", content]))
        self.transport.close()
