"""CDXJ, the index of WARC files: a sorted line for each response, by which replay tools such as pywb look up a URL.

A line is "SURT timestamp {JSON}". See https://specs.webrecorder.net/cdxj/0.1.0/
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from urllib.parse import unquote_to_bytes, urlsplit

from webcrawl.documents.exchange import status_in
from webcrawl.stores.warc.reading import StoredRecord, http_field
from webcrawl.stores.warc.records import STATUS

REVISIT = "warc/revisit"
"""The MIME type of a response whose payload is in another record."""

_WWW = re.compile(r"^www\d*\.")
_DEFAULT_PORTS = {"http": 80, "https": 443, "ftp": 21}
_TO_ESCAPE = re.compile("[ #%]")
# the last match of each expression is removed, as in the library surt
_SESSIONS = [
    re.compile(rf"(.*){session}(?:&(.*))?", re.IGNORECASE)
    for session in (
        *(f"{name}=[0-9a-z]{{32}}" for name in ("jsessionid", "phpsessid", "sid")),
        "aspsessionid[a-z]{8}=[a-z]{24}",
        "cfid=[^&]++&cftoken=[^&]++",
    )
]
_PATH_SESSIONS = [
    re.compile(rf"(.*/){session}/([^?]+\.aspx.*)")
    for session in (r"\((?:[a-z]\([0-9a-z]{24}\))+\)", r"\([0-9a-z]{24}\)")
]


def line(record: StoredRecord, filename: str, offset: int, length: int) -> bytes | None:
    """Returns the line of a record at `offset` with `length` bytes; None for a record that is not a response."""
    headers = record.headers
    url = headers.get("WARC-Target-URI")
    if headers.get("WARC-Type") not in {"response", "revisit", "resource"} or not url:
        return None
    timestamp = re.sub(r"\D", "", headers.get("WARC-Date", ""))[:14]
    resource = headers["WARC-Type"] == "resource"
    not_http = resource or "Content-Type" not in headers  # a copy of a resource record
    mime_type = _mime_type(
        headers.get("Content-Type") if resource else http_field(record.http_head, "content-type")
    )
    facts = {
        "url": url,
        "mime": REVISIT if headers["WARC-Type"] == "revisit" else mime_type,
        "status": headers.get(STATUS, "200") if not_http else str(status_in(record.http_head) or "-"),
        "digest": headers.get("WARC-Payload-Digest", "-"),
        "length": str(length),
        "offset": str(offset),
        "filename": filename,
    }
    return f"{surt(url)} {timestamp} {json.dumps(facts)}\n".encode("utf-8", "replace")


def surt(url: str) -> str:
    """Returns the sort-friendly form of a URL: "https://www.Example.org:443/A//B?b&a" gives "org,example)/a/b?a&b".

    The same form as in cdxj-indexer and pywb: reverses the labels of the host, also of an IPv4 address; removes
    scheme, leading www, default port, user, fragment, session IDs, needless escapes, and empty, "." and ".." path
    segments; sorts the query parameters; converts to lower case.
    """
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").strip("."), parts.port
    except ValueError:
        return url
    key = ",".join(reversed(_WWW.sub("", host).split(".")))
    if port is not None and port != _DEFAULT_PORTS.get(parts.scheme):
        key += f":{port}"
    query = _sorted(parts.query)
    return f"{key}){_path(parts.path)}" + (f"?{query}" if query else "")


def _path(path: str) -> str:
    kept: list[str] = []
    for part in _escaped(path).lower().split("/")[1:]:
        if part == ".." and kept:
            kept.pop()
        elif part != ".":
            kept.append(part)
    return _without(_PATH_SESSIONS, "/" + "/".join(filter(None, kept)))


def _sorted(query: str) -> str:
    query = _without(_SESSIONS, _escaped(query))
    return "&".join(sorted(query.lower().split("&"), key=lambda parameter: parameter.split("=", 1)))


def _without(sessions: Iterable[re.Pattern[str]], text: str) -> str:
    for session in sessions:
        if match := session.fullmatch(text):
            text = match[1] + (match[2] or "")
    return text


def _escaped(text: str) -> str:
    """Returns the text with only the necessary escapes."""
    if text.isascii() and text.isprintable() and not _TO_ESCAPE.search(text):
        return text
    data = text.encode("utf-8", "replace")
    while (plain := unquote_to_bytes(data)) != data:
        data = plain
    return "".join(chr(byte) if 0x20 < byte < 0x7F and byte not in b"#%" else f"%{byte:02X}" for byte in data)


def _mime_type(content_type: str | None) -> str:
    return (content_type or "").partition(";")[0].strip().lower() or "unk"
