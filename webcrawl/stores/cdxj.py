"""CDXJ: one sorted line a response, by which replay tools (pywb and others) find a URL in WARC files.

A line is "SURT timestamp {JSON}". See https://specs.webrecorder.net/cdxj/0.1.0/
"""

from __future__ import annotations

import ipaddress
import json
import re
from urllib.parse import urlsplit

from webcrawl.stores.record import StoredRecord, http_field

_WWW = re.compile(r"^www\d*\.")
_DEFAULT_PORTS = {"http": 80, "https": 443}


def line(record: StoredRecord, filename: str, offset: int, length: int) -> bytes | None:
    """The line of a record that sits in `length` bytes at `offset`; None for a record that is no answer."""
    headers = record.headers
    url = headers.get("WARC-Target-URI")
    if headers.get("WARC-Type") not in {"response", "revisit"} or not url:
        return None
    timestamp = re.sub(r"\D", "", headers.get("WARC-Date", ""))[:14]
    facts = {
        "url": url,
        "mime": "warc/revisit" if headers["WARC-Type"] == "revisit" else _mime_type(record.http_head),
        "status": _status(record.http_head),
        "digest": headers.get("WARC-Payload-Digest", "-"),
        "length": str(length),
        "offset": str(offset),
        "filename": filename,
    }
    return f"{surt(url)} {timestamp} {json.dumps(facts)}\n".encode("utf-8", "replace")


def surt(url: str) -> str:
    """The sort-friendly form of a URL: "https://www.Example.org:443/A?b&a" gives "org,example)/a?a&b".

    Host labels reversed (addresses not), scheme, leading www, default port, user and fragment left out, all
    in lower case, query parameters sorted, no slash at the end of a path. Session ids are kept, unlike in the
    Java original.
    """
    try:
        parts = urlsplit(url.lower())
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return url
    key = _reversed(_WWW.sub("", host))
    if port is not None and port != _DEFAULT_PORTS.get(parts.scheme):
        key += f":{port}"
    query = "&".join(sorted(parts.query.split("&")))
    return f"{key}){parts.path.rstrip('/') or '/'}" + (f"?{query}" if query else "")


def _reversed(host: str) -> str:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return ",".join(reversed(host.split(".")))
    return host


def _status(http_head: bytes) -> str:
    words = http_head.split(b"\r\n", 1)[0].split()
    return words[1].decode("latin-1") if len(words) > 1 else "-"


def _mime_type(http_head: bytes) -> str:
    mime_type = (http_field(http_head, "content-type") or "").partition(";")[0].strip().lower()
    return mime_type or "unk"
