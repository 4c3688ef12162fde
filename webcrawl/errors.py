"""Every exception that the project raises on purpose.

CrawlError
├── ConfigurationError       a setting or an argument is missing, wrong or contradictory
│   ├── LibraryMissing          an optional library is not installed
│   ├── WrongEntry              an entry of a setting's value is wrong; the message says which one and why
│   ├── WrongField              a field of a client's request is wrong; the message names it
│   └── WrongJob                the definition of a job is wrong
├── InvalidURL               not a URL that can be crawled (also a ValueError)
├── EngineError              the Valkey or Redis server behind the crawl failed
│   └── EngineUnavailable       the server cannot be started or reached, or accepts nothing now
│       └── EngineFull          the server has no memory left for new data
├── StoreError               a page could not be stored, or stored data is damaged
│   ├── StoreUnavailable        the store is unreachable, locked or full; retrying may succeed
│   ├── NoSuchObject            the object store has no object of that name
│   ├── RunDamaged              a sealed run of the index of duplicates, or a copy of it, is damaged
│   └── PartLost                a part of a spilled queue is damaged or missing; retrying does not help
├── NoSuchPage               the dashboard has no page of that address, or no such crawl, host or job
├── ApiProblem               a request to the HTTP API is answered with an error
├── CallRefused              a call of the open frontier ends with a status of gRPC
├── UnreadableDocument       a document is broken or costs too much to read
│   ├── ResourcesExhausted      reading took too much memory or time; its process must end
│   ├── ArchiveLimitReached     an archive has more members or bytes than are read
│   └── ReaderEnded             the process that read the document died or sent an invalid answer
├── BadCoding                a payload is not in the content coding that its header names
│   └── TruncatedCoding         a payload ends before its content coding does
├── AddressRefused           the address guard forbids the connection
├── NameNotResolved          DNS has no address for a host name
├── BrokenTransfer           a server broke the protocol or ended amid an answer
├── NotConnected             no connection to a host or a proxy could be opened
│   └── HandshakeFailed         the server accepted the connection, but its TLS failed
├── TunnelRefused            a proxy refused to connect to a host
├── Disconnected             a server closed the connection before it answered (also a ConnectionError)
│   └── Unconfirmed             the system gave the request up, as while the network is cut
├── MalformedHead            the head of a response cannot be parsed as HTTP
│   └── HeadTooLong             it has a line that is too long, or too many lines
├── LeaseLost                the lease of a host ran out before its request was sent
├── ClaimLost                another scheduler has taken the iteration of a job
├── LongWait                 the turn of an IP address or a host will not come soon
├── Abandoned                the crawl is closing; requests that wait for their turn are not sent
├── Unserializable           a request cannot be stored outside its process
├── WorkCancelled            a callback or a pipeline ended with a CancelledError, although its page was not given up
├── WrongMessage             a message of the live lane cannot be used (also a ValueError)
├── LiveLaneFull             too many messages wait in the live lane
├── ServiceUnreachable       a client of the HTTP API got no answer
├── ServiceProblem           the HTTP API answered a client with an error
│
│   In webcrawl.crawler.errors, because each also derives from the class of Scrapy in parentheses:
│
├── Postponed                (IgnoreRequest) the request is not sent now; the frontier schedules it again
│   └── PutOff                  its host must not be asked for some seconds
├── RobotsUnreachable        (IgnoreRequest) the robots.txt of a host could not be fetched
├── RequestRefused           (IgnoreRequest) the address guard forbids the connection
├── RedirectStored           (IgnoreRequest) an archived redirect has passed the pipelines; no callback gets it
├── RenderingFailed          (DownloadFailedError) the host answered, but the browser produced no page
├── ProxyFailed              (DownloadFailedError) the proxy did not pass the request on; the host was not asked
├── KeptConnectionClosed     (DownloadFailedError) the server closed a reused connection before it answered
├── SchemaRefused            (DropItem) an item is not as its schema says
└── MalformedAnswer          (DownloadFailedError) the answer cannot be parsed as HTTP
    └── OverlongHead         its head is too long, which counts as a failure of the host
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_LONGEST = 500
# marks that change the direction of text, and halves of surrogate pairs
_DIRECTIONS = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_SURROGATES = "\ud800-\udfff"
# controls and separators of lines, for `brief` with the tab
_UNPRINTABLE = re.compile(f"[\x00-\x1f\x7f-\x9f\u2028\u2029{_DIRECTIONS}{_SURROGATES}]+")
_MOVES = re.compile(f"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029{_DIRECTIONS}{_SURROGATES}]")
_TURNS = re.compile(f"[{_DIRECTIONS}]")


def brief(message: object) -> str:
    """A message as one line of at most 500 characters, without those that change how a terminal shows the others.

    Messages about answers may quote what a server sent.
    """
    text = str(message)
    cut = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
    return _UNPRINTABLE.sub(" ", cut)


def printable(line: str) -> str:
    """Escapes the control characters of a line for a terminal, as JSON does, so that JSON stays equivalent."""
    return _MOVES.sub(_escape, line)


def undirected(text: str) -> str:
    """Escapes the marks in a text that change its direction, with which one text looks like another."""
    return text if text.isascii() else _TURNS.sub(_escape, text)


def _escape(sign: re.Match[str]) -> str:
    return f"\\u{ord(sign[0]):04x}"


class CrawlError(Exception):
    """The root of the tree: catch it to catch every exception that the project raises on purpose."""


class ConfigurationError(CrawlError):
    """A setting or a command-line argument is missing, wrong or contradicts another one."""


class LibraryMissing(ConfigurationError):
    """What was asked for needs a library that is not installed; `command` is the command that installs it."""

    def __init__(self, purpose: str, library: str, command: str) -> None:
        super().__init__(f"{purpose} needs {library}: {command}")


class WrongEntry(ConfigurationError):
    """One entry of a setting's value is wrong; the message says which one and why, the setting adds its name."""


class WrongField(ConfigurationError):
    """A field of a request of the open frontier is wrong; the message begins with its name."""


class WrongJob(ConfigurationError):
    """The definition of a job is wrong; `entry` has the keys and indexes of that entry, () for the job itself.

    `all`: this and further problems of the same job.
    """

    def __init__(self, reason: str, *entry: str | int) -> None:
        super().__init__(f"{'.'.join(map(str, entry))}: {reason}" if entry else reason)
        self.reason = reason
        self.entry = entry
        self.all: tuple[WrongJob, ...] = (self,)


class InvalidURL(CrawlError, ValueError):
    """A string is not an absolute URL of a supported scheme, even after WHATWG repair."""


class EngineError(CrawlError):
    """The engine (Valkey or Redis) refused a command or sent an unexpected reply."""


class EngineUnavailable(EngineError):
    """The engine cannot be started or reached, or accepts nothing now."""


class EngineFull(EngineUnavailable):
    """The engine has no memory left for new data."""


class StoreError(CrawlError):
    """A store could not take a page, or holds data that cannot be read."""


class StoreUnavailable(StoreError):
    """A store is unreachable, locked or full, or accepts no page now. The same operation may succeed later."""


class NoSuchPage(CrawlError):
    """The dashboard has no page of that address, or no such crawl, host or job."""


class NoSuchObject(StoreError):
    """The object store answered that it has no object of that name."""


class RunDamaged(StoreError):
    """A sealed run of the index of duplicates, or this machine's copy of it, is damaged."""


class PartLost(StoreError):
    """A part of a spilled queue is damaged, or its segment does not exist. Retrying does not help."""


class ApiProblem(CrawlError):
    """A request to the HTTP API is answered with an error.

    `kind` is a `webcrawl.service.problem.ProblemKind`; `retry_after`: seconds to wait before the next try. `reason`
    is a word for metrics, by default the kind.
    """

    def __init__(
        self,
        kind: str,
        detail: str = "",
        *,
        retry_after: float | None = None,
        headers: Mapping[str, str] | None = None,
        reason: str = "",
    ) -> None:
        super().__init__(detail or str(kind))
        self.reason = reason or str(kind)
        self.kind = kind
        self.detail = detail
        self.retry_after = retry_after
        self.headers = headers or {}


class CallRefused(CrawlError):
    """A call of the open frontier ends with a status of gRPC, a `webcrawl.urlfrontier.calls.GrpcStatus`."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class UnreadableDocument(CrawlError):
    """A document is broken, or takes too much time or memory to read. The message says which."""


class ResourcesExhausted(UnreadableDocument):
    """Reading a document took too much memory or time; its process must not read another one."""


class ArchiveLimitReached(UnreadableDocument):
    """An archive has more members or bytes than are read; what was found until then is kept."""


class ReaderEnded(UnreadableDocument):
    """The process that read the document died, or sent an invalid answer."""


class BadCoding(CrawlError):
    """A payload is not in the content coding that its header names, or the coding is not supported."""


class TruncatedCoding(BadCoding):
    """A payload ends before its content coding does; what was decoded until then is kept."""


class AddressRefused(CrawlError):
    """The address is loopback, private, link-local or otherwise not public, and no setting allows it."""


class NameNotResolved(CrawlError):
    """A host name has no address; `permanent` tells NXDOMAIN from a resolver that did not answer."""

    def __init__(self, name: str, reason: str, *, permanent: bool) -> None:
        super().__init__(f"cannot resolve {name}: {reason}")
        self.name = name
        self.permanent = permanent


class BrokenTransfer(CrawlError):
    """The server broke the protocol or ended the connection amid an answer; received bytes are kept."""


class NotConnected(CrawlError):
    """No connection to a host, or to its proxy, could be opened; `reason` leaves out its address."""

    def __init__(self, host: str, port: int, reason: str, *, is_proxy: bool = False) -> None:
        super().__init__(f"cannot connect to {host}:{port}: {reason}")
        self.reason = reason
        self.is_proxy = is_proxy


class HandshakeFailed(NotConnected):
    """The server accepted the connection, but its TLS failed, or its certificate is not valid."""


class TunnelRefused(CrawlError):
    """A proxy did not connect to a host. `is_proxy`: because of the proxy itself, and not because of the host."""

    def __init__(self, reason: str, *, is_proxy: bool) -> None:
        super().__init__(reason)
        self.is_proxy = is_proxy


class Disconnected(CrawlError, ConnectionError):
    """The server closed the connection before it answered."""


class Unconfirmed(Disconnected):
    """The system gave a request up that the server had not confirmed, as while the network is cut."""


class MalformedHead(CrawlError):
    """The head of a response cannot be parsed as HTTP; the message says why."""


class HeadTooLong(MalformedHead):
    """The head of a response has a line that is too long, or too many lines."""


class LeaseLost(CrawlError):
    """The lease of a host ran out. Another worker may hold it, so its requests must not be sent."""


class ClaimLost(CrawlError):
    """Another scheduler has taken an iteration of a job; this one must change nothing more in it."""


class LongWait(CrawlError):
    """The turn of an IP address or a host will not come soon; the request may be tried again in `seconds`."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"the turn of {what} does not come soon")
        self.seconds = seconds


class Abandoned(CrawlError):
    """The crawl is closing: a request that has not been sent yet must not be sent."""


class WorkCancelled(CrawlError):
    """A callback or a pipeline ended with asyncio's CancelledError, although nobody gave its page up."""


class Unserializable(CrawlError):
    """A request carries a value that cannot be stored outside its process, such as a lambda or an open file."""


class WrongMessage(CrawlError, ValueError):
    """A message of the live lane cannot be used; the text names the field."""


class LiveLaneFull(CrawlError):
    """More messages wait in the live lane than it accepts; try again after `retry_after` seconds."""

    def __init__(self, waiting: int, retry_after: float) -> None:
        super().__init__(f"{waiting} messages wait in the live lane: try again in {retry_after:.0f} s")
        self.retry_after = retry_after


class ServiceUnreachable(CrawlError):
    """The service cannot be reached, or did not answer in time."""


class ServiceProblem(CrawlError):
    """The service answered with an error, as RFC 9457 describes it.

    status       the HTTP status, such as 404
    kind         the word for the error, such as "not-stored"; "" if something else than the service answered
    title        what the kind means; `detail` is what was wrong with this request, often ""
    request_id   the ID of the request in the log of the service
    retry_after  seconds to wait before the next try, or None
    """

    def __init__(
        self,
        status: int,
        *,
        kind: str = "",
        title: str = "",
        detail: str = "",
        request_id: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{status} {kind}: {detail or title}".replace(" :", ":"))
        self.status = status
        self.kind = kind
        self.title = title
        self.detail = detail
        self.request_id = request_id
        self.retry_after = retry_after
