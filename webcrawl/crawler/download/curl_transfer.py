"""One HTTP request by libcurl and its response, streamed on the running event loop, and its failures."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from curl_cffi import AsyncCurl, Curl, CurlError, CurlHttpVersion, CurlInfo, CurlMOpt, CurlOpt, ffi, lib
from curl_cffi.const import CurlECode
from curl_cffi.curl import (
    CURL_WRITEFUNC_PAUSE,
    CURLINFO_HEADER_OUT,
    CURLINFO_SSL_DATA_IN,
    CURLINFO_TEXT,
    CURLPAUSE_CONT,
)
from curl_cffi.requests.impersonate import REAL_TARGET_MAP
from scrapy.exceptions import (
    DownloadConnectionRefusedError,
    DownloadFailedError,
    NotSupported,
    UnsupportedURLSchemeError,
)

from webcrawl.crawler.errors import KeptConnectionClosed, MalformedAnswer, OverlongHead, ProxyFailed
from webcrawl.documents.exchange import status_in
from webcrawl.errors import brief
from webcrawl.http.connection import CHUNKS_PER_SECOND, MOST_CHUNKS, SMALL, BodyReadAhead
from webcrawl.http.heads import LONGEST_HEAD, MOST_INTERIM, is_regular, remarks_of
from webcrawl.http.pool import SOCKS_FAULTS
from webcrawl.metrics.observations import Observations

Options = Iterable[tuple[CurlOpt, Any]]

_REFUSED = (CurlECode.COULDNT_CONNECT, CurlECode.COULDNT_RESOLVE_PROXY, CurlECode.COULDNT_RESOLVE_HOST)
_NO_TUNNEL = re.compile(r"CONNECT tunnel failed, response (\d+)")
_SOCKS_REPLY = re.compile(r"cannot complete SOCKS[45]a? connection to .*?\((\d+)\)")
_MALFORMED = (CurlECode.WEIRD_SERVER_REPLY, CurlECode.UNSUPPORTED_PROTOCOL)
_READ_AHEAD = 1024 * 1024
"""Received bytes that may wait to be read, while all bodies leave room; beyond this, the server has to wait."""
_MOST_BARE = 16 * 1024 * 1024
"""Received bytes without content, such as empty frames: 0.1 s of them. Libcurl itself holds up to 10 MiB of a body."""
_LEAST_CONTENT = 8
"""Further bytes are received if one byte in so many is content."""
_TLS_RECORD_HEAD = 5
"""The size of the head of a record, which ends with the size of its content."""
_LEAST_HELD = 512
"""The least memory of a chunk, in bytes."""
_KEEPALIVE_SECONDS = 4
_MOST_KEPT = 1024
"""The most connections that are kept."""
_VERSIONS = {
    CurlHttpVersion.V1_0: "HTTP/1.0",
    CurlHttpVersion.V1_1: "HTTP/1.1",
    CurlHttpVersion.V2_0: "HTTP/2",
}
_HTTP2 = b"HTTP/2 "
"""How libcurl begins the head of a response over HTTP/2."""
_ALWAYS: tuple[tuple[CurlOpt, Any], ...] = (
    (CurlOpt.PROTOCOLS_STR, b"http,https"),
    # the body as it was sent, for the archive
    (CurlOpt.HTTP_CONTENT_DECODING, 0),
    (CurlOpt.PATH_AS_IS, 1),
    (CurlOpt.SUPPRESS_CONNECT_HEADERS, 1),
    (CurlOpt.MAXAGE_CONN, _KEEPALIVE_SECONDS),
    (CurlOpt.NOSIGNAL, 1),
    # without it, libcurl does not call DEBUGFUNCTION
    (CurlOpt.VERBOSE, 1),
)


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a response.

    `version` is such as "HTTP/2", `sent` the head of the request as libcurl reports it, `remarks` are flags for the
    response.
    """

    line: bytes
    status: int
    headers: list[tuple[bytes, bytes]]
    version: str
    peer: str | None
    sent: bytes
    remarks: tuple[str, ...] = ()


@dataclass(slots=True, weakref_slot=True)
class HostTraffic:
    """The bytes received over TLS by the current transfers of a host, which may share a connection.

    `content` are the bytes of heads and bodies among them. HTTP/2 has frames without content, in any number.
    """

    received: int = 0
    content: int = 0

    @property
    def is_bare(self) -> bool:
        """Whether there is too little content."""
        return self.received > _MOST_BARE + _LEAST_CONTENT * self.content


class Transfer:
    """Receives one response. Callbacks of libcurl run in the event loop and only store their arguments."""

    def __init__(self, curl: Curl, traffic: HostTraffic, ahead: BodyReadAhead) -> None:
        self._curl = curl
        self._ahead = ahead
        self._traffic = traffic
        self._multi: AsyncCurl | None = None
        self._sent = b""
        self._lines: list[bytes] = []
        self._status = 0
        self._remarks: tuple[str, ...] = ()
        self._has_head = False
        self._head_size = 0
        self._interim = 0
        self._chunks: list[bytes] = []
        self._held = 0
        self._small_chunks = 0
        self._refused = ""
        self._paused = False
        self._dropped = False
        self._changed = asyncio.Event()
        self._done: asyncio.Future[None] | None = None
        curl.setopt(CurlOpt.HEADERFUNCTION, self._take_header)
        curl.setopt(CurlOpt.WRITEFUNCTION, self._take_body)
        curl.setopt(CurlOpt.DEBUGFUNCTION, self._take_debug)

    def begin(self, multi: AsyncCurl) -> None:
        """Sends the request."""
        self._multi = multi
        self._done = multi.add_handle(self._curl)
        self._done.add_done_callback(self._end)

    def abandon(self) -> None:
        """Closes the connection if the transfer has not ended."""
        if self._multi is not None and self._done is not None and not self._done.done():
            self._multi.remove_handle(self._curl)

    def release(self) -> None:
        """Forgets the bytes that were not read."""
        self._chunks.clear()
        self._ahead.bytes -= self._held
        self._held = 0

    async def is_sent(self) -> None:
        """Waits until the head of the request is sent; raises CurlError, KeptConnectionClosed."""
        while not self._sent and await self._more():
            pass

    async def head(self) -> Head:
        """Returns the head of the final response; raises CurlError, KeptConnectionClosed."""
        while not self._has_head:
            if not await self._more():
                raise CurlError("the server sent no head", code=CurlECode.GOT_NOTHING)
        peer = self._curl.getinfo(CurlInfo.PRIMARY_IP)
        assert isinstance(peer, bytes)
        return Head(
            line=self._lines[0],
            status=self._status,
            headers=[_field(line) for line in self._lines[1:]],
            version=_VERSIONS.get(self._curl.getinfo(CurlInfo.HTTP_VERSION), "HTTP/1.1"),  # type: ignore[call-overload]
            peer=peer.decode() or None,
            sent=self._sent,
            remarks=self._remarks,
        )

    def observe(self, observed: Observations, url: str) -> None:
        """Observes the stages until the first byte of the response, as libcurl has measured them."""
        info = self._curl.getinfo
        sent, first = info(CurlInfo.PRETRANSFER_TIME), info(CurlInfo.STARTTRANSFER_TIME)
        assert isinstance(sent, float) and isinstance(first, float)
        began = time.monotonic() - first
        if info(CurlInfo.NUM_CONNECTS):
            observed.stage("connect", url, began, began + sent)
        observed.stage("first_byte", url, began + sent, began + first)

    async def read(self) -> bytes:
        """Returns the next bytes of the body, b"" at its end; raises CurlError if it is cut off."""
        while not self._chunks:
            if not await self._more():
                return b""
        data, small = b"".join(self._chunks), self._held // _LEAST_HELD
        self.release()
        if self._paused:
            # libcurl delivers all that it has at once, and never stops if the server is fast
            await asyncio.sleep(small / CHUNKS_PER_SECOND if len(data) < small * SMALL else 0)
            self._paused = False
            self._curl.pause(CURLPAUSE_CONT)
        return data

    @property
    def at_end(self) -> bool:
        """Whether the whole body was received and read."""
        return self._done is not None and self._done.done() and not self._chunks

    async def _more(self) -> bool:
        """Waits for news; returns False if the transfer has ended. Raises CurlError, KeptConnectionClosed."""
        assert self._done is not None
        if self._dropped:
            raise KeptConnectionClosed("the server closed a kept connection instead of answering")
        if self._refused:
            raise CurlError(self._refused, code=CurlECode.WEIRD_SERVER_REPLY)
        if self._done.done():
            self._done.result()
            return False
        self._changed.clear()
        await self._changed.wait()
        return True

    def _end(self, done: asyncio.Future[None]) -> None:
        if not done.cancelled():
            # marks the exception as retrieved: nobody waits for an abandoned transfer
            done.exception()
        self._changed.set()

    def _take_header(self, line: bytes) -> int:
        self._traffic.content += len(line)
        if self._has_head or self._refused:
            # a trailer field
            return len(line)
        self._head_size += len(line)
        if self._head_size > LONGEST_HEAD:
            self._refuse(f"a head of more than {LONGEST_HEAD} bytes")
            return len(line)
        if line[:5].upper() == b"HTTP/":
            self._lines = []
        if line.startswith((b" ", b"\t")) and self._lines:
            self._lines[-1] += b" " + line.strip()
        elif stripped := line.rstrip(b"\r\n"):
            self._lines.append(stripped)
        else:
            self._end_head()
        return len(line)

    def _end_head(self) -> None:
        """Ends the head of a response; the next one is final if this one has a status of 1xx."""
        line = self._lines[0] if self._lines else b""
        status = status_in(line)
        if status is None:
            self._refuse(f"a bad status line: {line[:50]!r}")
        elif status >= 200:
            self._status, self._has_head = status, True
            self._remark(line)
            self._changed.set()
        else:
            self._interim += 1
            if self._interim > MOST_INTERIM:
                self._refuse(f"more than {MOST_INTERIM} responses with a status of 1xx")

    def _remark(self, line: bytes) -> None:
        """Notes how the head is not as the standard says; then the connection is not used again."""
        is_odd = not is_regular(line) and not line.startswith(_HTTP2)
        self._remarks = remarks_of(map(_field, self._lines[1:]), is_odd=is_odd)
        if self._remarks:
            self._curl.setopt(CurlOpt.FORBID_REUSE, 1)

    def _refuse(self, why: str) -> None:
        """Ends the transfer, which fails with this reason."""
        if not self._refused:
            self._refused = why
            self._curl.setopt(CurlOpt.FORBID_REUSE, 1)
            self._changed.set()
            # later, because libcurl forbids this within a callback
            asyncio.get_running_loop().call_soon(self.abandon)

    def _take_body(self, chunk: bytes) -> int:
        if self._held > self._ahead.most(_READ_AHEAD):
            self._paused = True
            return CURL_WRITEFUNC_PAUSE
        self._small_chunks += len(chunk) < SMALL
        if self._small_chunks > MOST_CHUNKS:
            self._refuse(f"the body has more than {MOST_CHUNKS} chunks of less than {SMALL} bytes")
            return len(chunk)
        self._traffic.content += len(chunk)
        self._chunks.append(chunk)
        self._held += (size := max(len(chunk), _LEAST_HELD))
        self._ahead.bytes += size
        self._changed.set()
        return len(chunk)

    def _take_debug(self, kind: int, data: bytes) -> None:
        if kind == CURLINFO_HEADER_OUT and not data.startswith(b"CONNECT "):
            self._sent = data
            self._changed.set()
        elif kind == CURLINFO_SSL_DATA_IN:
            if len(data) == _TLS_RECORD_HEAD:
                self._traffic.received += data[3] << 8 | data[4]
                if self._traffic.is_bare:
                    self._refuse(f"more than {_MOST_BARE} bytes with little or no content")
        elif kind == CURLINFO_TEXT and b"retrying a fresh connect" in data:
            # libcurl would repeat the request at once, without a turn of its host; it can be stopped while it connects
            asyncio.get_running_loop().call_soon(self._drop)

    def _drop(self) -> None:
        self._dropped = True
        self.abandon()


class Transfers:
    """Sends requests. Connections are kept for a few seconds for the next request of their host."""

    def __init__(self, options: Options, authorities: str | None) -> None:
        self._options = tuple(options)
        self._authorities = authorities or ""
        self._opened: AsyncCurl | None = None
        self._traffic: WeakValueDictionary[str, HostTraffic] = WeakValueDictionary()
        self._ahead = BodyReadAhead()

    @asynccontextmanager
    async def send(self, host: str, options: Options, browser: str | None) -> AsyncIterator[Transfer]:
        """Sends a request; leaving the context before the end of the response closes the connection.

        `host` has its port; `browser` is the browser to impersonate, such as "chrome" or "firefox135". Raises
        NotSupported, CurlError.
        """
        if self._opened is None:
            self._opened = _opened()
        curl = Curl(cacert=self._authorities)
        transfer = Transfer(curl, self._traffic.setdefault(host, HostTraffic()), self._ahead)
        try:
            if browser is None:
                curl.setopt(CurlOpt.HTTP_VERSION, CurlHttpVersion.V2TLS)
            elif curl.impersonate(REAL_TARGET_MAP.get(browser, browser)) != 0:
                raise NotSupported(f"impersonate: {browser!r} is not a browser that curl_cffi supports")
            for option, value in (*_ALWAYS, *self._options, *options):
                curl.setopt(option, value)
            transfer.begin(self._opened)
            yield transfer
        finally:
            transfer.abandon()
            curl.close()
            transfer.release()

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()  # type: ignore[no-untyped-call]


def _opened() -> AsyncCurl:
    """Returns a client that keeps connections longer than libcurl does.

    libcurl keeps only four connections per current transfer, and would connect anew after each lull.
    """
    multi = AsyncCurl()
    # curl_cffi's own method passes the address of the number
    lib.curl_multi_setopt(multi._curlm, CurlMOpt.MAXCONNECTS, ffi.cast("void *", _MOST_KEPT))
    return multi


def _field(line: bytes) -> tuple[bytes, bytes]:
    name, _, value = line.partition(b":")
    return name.strip(), value.strip()


def failure_of(error: CurlError, *, proxied: bool) -> Exception:
    """Returns Scrapy's exception for an error of libcurl before the head of a response."""
    reason = str(error).partition(". See https://")[0].removeprefix("Failed to perform, ")
    code = error.code
    if tunnel := _NO_TUNNEL.search(reason):
        # a status of 5xx means that the proxy cannot reach the host
        kind = DownloadFailedError if tunnel[1].startswith("5") else ProxyFailed
        return kind(f"the proxy answers {tunnel[1]} to CONNECT")
    socks = _SOCKS_REPLY.search(reason)
    if socks and int(socks[1]) not in SOCKS_FAULTS:
        return DownloadFailedError(brief(reason))
    if proxied and (code in _REFUSED or code == CurlECode.PROXY):
        return ProxyFailed(f"cannot connect to the proxy: {reason}")
    if code in _REFUSED:
        return DownloadConnectionRefusedError(reason)
    if code == CurlECode.URL_MALFORMAT:
        return UnsupportedURLSchemeError(reason)
    if code == CurlECode.TOO_LARGE:
        return OverlongHead(brief(reason))
    if code in _MALFORMED:
        return MalformedAnswer(brief(reason))
    return DownloadFailedError(brief(reason))
