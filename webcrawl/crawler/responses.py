"""Scrapy responses whose body may be in a file, and the flags that say why a body is incomplete."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import cache
from typing import Any

from scrapy.http import Headers, Response
from scrapy.responsetypes import responsetypes

from webcrawl.documents.body import Body
from webcrawl.documents.page import HEAD_ONLY, METADATA_ONLY, REDIRECTS_TO_ITSELF, WANTS_COOKIES
from webcrawl.http.heads import ODD_LENGTH, ODD_STATUS_LINE, REPEATED_LENGTH

TRUNCATED = "truncated"
"""Response.flags: the body was cut off at a limit of the crawl."""
LOST = "dataloss"
"""Response.flags: the connection broke before the end of the body (the name is Scrapy's)."""
TIMED_OUT = "timeout"
"""Response.flags: the download timed out before the end of the body."""
UNFINISHED = "unfinished"
"""Response.flags: the body was received in full, but ends before its Content-Encoding does."""
BAD_CODING = "bad_coding"
"""Response.flags: the body could not be decoded, and is kept as it was sent."""
NEW_COOKIES = "new_cookies"
"""Response.flags: among its cookies is one that the jar did not have."""
COOKIES_REFUSED = "cookies_refused"
"""Response.flags: it is a redirect that sets a cookie, and no cookies are kept."""
# WANTS_COOKIES: it is such a redirect, and leads back to a page that led to it.

BAD_CHECKSUM = "bad_checksum"
"""Response.flags: all of the body was decoded, but its checksum or length in its Content-Encoding is wrong."""
# ODD_STATUS_LINE, REPEATED_LENGTH, ODD_LENGTH: the remarks of the HTTP client on its head.

REMARKS = frozenset(
    {
        COOKIES_REFUSED,
        WANTS_COOKIES,
        REDIRECTS_TO_ITSELF,
        BAD_CHECKSUM,
        ODD_STATUS_LINE,
        REPEATED_LENGTH,
        ODD_LENGTH,
        HEAD_ONLY,
        METADATA_ONLY,
    }
)
"""Flags that `details.remarks` in the row of a page repeats."""

_GUESS_BYTES = 5000
_MESSAGE_BYTES = 200

_FLAGS = {"disconnect": LOST, "time": TIMED_OUT, "length": TRUNCATED, "coding": UNFINISHED}


def flags_of(truncated: str | None) -> list[str]:
    """Returns the flag for a reason why a body is not whole; see `Exchange.truncated`."""
    return [_FLAGS[truncated]] if truncated else []


def truncation_of(flags: Collection[str]) -> str | None:
    """Returns why a body is not whole according to its flags, or None; see `Page.truncated`."""
    return next((reason for reason, flag in _FLAGS.items() if flag in flags), None)


def received_headers(fields: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Returns received header fields as Scrapy's Headers, whose own checks would take five times as long."""
    headers = Headers()
    for name, value in fields:
        dict.setdefault(headers, name.title(), []).append(value)
    return headers


def header_values(headers: Headers, name: bytes) -> list[bytes]:
    """Returns `headers.getlist(name)` in a tenth of the time; `name` in Scrapy's spelling, such as b"Etag"."""
    values: list[bytes] = dict.get(headers, name, [])
    return values


def header(headers: Headers, name: bytes) -> bytes | None:
    """Returns `headers.get(name)` in a tenth of the time; `name` in Scrapy's spelling, such as b"Etag"."""
    values = dict.get(headers, name)
    return values[-1] if values else None


def make_response(body: Body, url: str, headers: Headers, **attributes: Any) -> Response:
    """Returns a response of the class that Scrapy chooses for its headers, URL and first bytes.

    The response keeps `headers` itself, not a copy.
    """
    response_class = responsetypes.from_args(headers=headers, url=url, body=body.start(_GUESS_BYTES))
    response: Response = (
        _spooled_class(response_class)(url, body=body, **attributes)
        if body.is_spooled
        else response_class(url, body=bytes(body), **attributes)
    )
    response.headers = headers  # the constructor would copy them name by name
    return response


def content_type(headers: Headers) -> str | None:
    """Returns the value of Content-Type as received."""
    value = header(headers, b"Content-Type")
    return None if value is None else value.decode("latin-1")


def says_nosniff(headers: Headers) -> bool:
    """Returns whether X-Content-Type-Options forbids guessing the type."""
    value = header(headers, b"X-Content-Type-Options")
    return value is not None and value.split(b",")[0].strip().lower() == b"nosniff"


def body_of(response: Response) -> Body:
    """Returns the body of a response, without reading it into memory."""
    return response.spooled if isinstance(response, SpooledResponse) else Body(response.body)


def length_of(response: Response) -> int:
    """Returns the number of bytes of the body of a response."""
    return len(response.spooled if isinstance(response, SpooledResponse) else response.body)


def refusal_of(response: Response) -> str:
    """Returns the status of an error response, with the start of its body if that is plain text, in one line."""
    status = f"status {response.status}"
    if (content_type(response.headers) or "").partition(";")[0].strip().lower() != "text/plain":
        return status
    text = body_of(response).start(_MESSAGE_BYTES).decode("utf-8", "replace")
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return f"{status}: {line}" if line else status


class SpooledResponse(Response):
    """A response whose body is in a file; each access to `body` reads it."""

    plain: type[Response]
    """The class of the response once its body is in memory."""

    def __init__(self, *args: Any, body: Body | bytes = b"", **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.spooled = body if isinstance(body, Body) else Body(body)

    @property
    def body(self) -> bytes:
        return bytes(self.spooled)

    def replace(self, *args: Any, **changes: Any) -> Any:
        """Returns a changed copy, as in Scrapy; reads the body only if `cls` is another class."""
        if changes.get("cls") is None:
            if "body" in changes:
                changes["cls"] = self.plain
            else:
                changes["body"] = self.spooled
        return super().replace(*args, **changes)


def _spooled(plain: Any) -> Any:
    return type(f"Spooled{plain.__name__}", (SpooledResponse, plain), {"plain": plain})


_spooled_class: Callable[[Any], Any] = cache(_spooled)
