"""Scrapy responses whose body may be in a file: it is in memory only while somebody asks for it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from typing import Any

from scrapy.http import Headers, Response
from scrapy.responsetypes import responsetypes

from webcrawl.documents.body import Body

TRUNCATED = "truncated"
"""Response.flags: the body was cut off at a limit of ours."""
LOST = "dataloss"
"""Response.flags: the connection broke before the end of the body (Scrapy's name for it)."""
TIMED_OUT = "timeout"
"""Response.flags: the time was up before the end of the body."""
UNFINISHED = "unfinished"
"""Response.flags: the body ends before its Content-Encoding does, though it came as its head said."""
BAD_CODING = "bad_coding"
"""Response.flags: the body could not be decoded, and is as it was sent."""

_GUESSED_FROM = 5000
_MOST_SAID = 200

_FLAGS = {"disconnect": LOST, "time": TIMED_OUT, "length": TRUNCATED, "coding": UNFINISHED}


def flags_of(truncated: str | None) -> list[str]:
    """What tells in a response why its body is not whole; see `Exchange.truncated`."""
    return [_FLAGS[truncated]] if truncated else []


def truncation_of(flags: Collection[str]) -> str | None:
    """Why a body is not whole, as its response's flags have it; see `Page.truncated`."""
    return next((reason for reason, flag in _FLAGS.items() if flag in flags), None)


def make_response(body: Body, url: str, headers: Headers, **attributes: Any) -> Response:
    """A response of the class that fits its headers, URL and first bytes, as Scrapy chooses it.

    The headers are its own from then on.
    """
    response_class = responsetypes.from_args(headers=headers, url=url, body=body.start(_GUESSED_FROM))
    response: Response = (
        _spooled_class(response_class)(url, body=body, **attributes)
        if body.is_spooled
        else response_class(url, body=bytes(body), **attributes)
    )
    response.headers = headers  # to be given it, it would copy it name by name
    return response


def content_type(headers: Headers) -> str | None:
    """The value of Content-Type as received."""
    value = headers.get("Content-Type")
    return None if value is None else value.decode("latin-1")


def says_nosniff(headers: Headers) -> bool:
    """Whether X-Content-Type-Options says that Content-Type is right."""
    value = headers.get("X-Content-Type-Options")
    return value is not None and value.split(b",")[0].strip().lower() == b"nosniff"


def body_of(response: Response) -> Body:
    """The body of a response, which stays where it is."""
    return response.spooled if isinstance(response, SpooledResponse) else Body(response.body)


def length_of(response: Response) -> int:
    """The number of bytes of its body."""
    return len(response.spooled if isinstance(response, SpooledResponse) else response.body)


def refusal_of(response: Response) -> str:
    """The status of a response that is no page, and what the start of a body of plain text says of it, in one line."""
    status = f"status {response.status}"
    if (content_type(response.headers) or "").partition(";")[0].strip().lower() != "text/plain":
        return status
    said = body_of(response).start(_MOST_SAID).decode("utf-8", "replace")
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in said).split())
    return f"{status}: {line}" if line else status


class SpooledResponse(Response):
    """A response whose `body` is read from its file by everyone who asks for it."""

    plain: type[Response]
    """The same class with its body in memory."""

    def __init__(self, *args: Any, body: Body | bytes = b"", **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.spooled = body if isinstance(body, Body) else Body(body)

    @property
    def body(self) -> bytes:
        return bytes(self.spooled)

    def replace(self, *args: Any, **changes: Any) -> Any:
        """As Scrapy's; the body is read only where another class is asked for."""
        if changes.get("cls") is None:
            if "body" in changes:
                changes["cls"] = self.plain
            else:
                changes["body"] = self.spooled
        return super().replace(*args, **changes)


def _spooled(plain: Any) -> Any:
    return type(f"Spooled{plain.__name__}", (SpooledResponse, plain), {"plain": plain})


_spooled_class: Callable[[Any], Any] = cache(_spooled)
