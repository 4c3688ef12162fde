"""Exports a crawl as the index table of Common Crawl: https://github.com/commoncrawl/cc-index-table.

Columns and partitions are the same, so queries for Common Crawl run on the export. docs/reference/exports.md lists the
differences.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from publicsuffixlist import PublicSuffixList

from webcrawl.documents.mime.language import iso_639_3
from webcrawl.errors import StoreError
from webcrawl.stores.locations import Row, location_of
from webcrawl.stores.warc.cdxj import surt
from webcrawl.urls.canonical import authority, hostname, is_address, split

FIELDS: Mapping[str, str] = (
    {"url_surtkey": "string", "url": "string", "url_host_name": "string", "url_host_tld": "string"}
    | {f"url_host_{number}_last_part": "string" for number in ("2nd", "3rd", "4th", "5th")}
    | dict.fromkeys(("url_host_registry_suffix", "url_host_registered_domain"), "string")
    | dict.fromkeys(("url_host_private_suffix", "url_host_private_domain"), "string")
    | {"url_host_name_reversed": "string", "url_protocol": "string", "url_port": "int32"}
    | {"url_path": "string", "url_query": "string"}
    | {"fetch_time": "time", "fetch_status": "int16", "fetch_redirect": "string"}
    | {f"content_{name}": "string" for name in ("digest", "mime_type", "mime_detected", "charset")}
    | {"content_languages": "string", "content_truncated": "string"}
    | {"warc_record_id": "binary", "warc_filename": "string"}
    | {"warc_record_offset": "int32", "warc_record_length": "int32", "warc_segment": "string"}
)
"""Types by name, as in `webcrawl.results.exports.parts`. The columns `crawl` and `subset` are names of folders."""

_PARTS = ("url_host_tld", *(f"url_host_{number}_last_part" for number in ("2nd", "3rd", "4th", "5th")))
_LARGEST = 2**31 - 1
_SEGMENT = "0"
_NO_REDIRECTS = frozenset({None, 304})
# the values of WARC-Truncated
_REASONS = frozenset({"length", "time", "disconnect"})
# Common Crawl's names of charsets by Python's names, where they are not Python's names in upper case
_CHARSETS = {
    "shift_jis": "Shift_JIS",
    "koi8-r": "KOI8-R",
    "koi8-u": "KOI8-U",
    "gbk": "GBK",
    "ascii": "US-ASCII",
}


def index_rows(rows: Iterable[Row], get: Callable[[str], Row | None]) -> Iterator[dict[str, Any]]:
    """Yields a row of the index for each row of table `pages` that is archived, with `crawl` and `subset`.

    A copy has the record of the first page, whose row `get` returns. Raises StoreError for a record beyond 2 GiB, an
    offset that the table cannot have.
    """
    for row in rows:
        location = location_of(row, get)
        if location is None or row["status"] is None:
            continue
        if max(location.offset, location.length) > _LARGEST:
            raise StoreError(
                f"{location.file} at byte {location.offset}: the index of Common Crawl has no offsets beyond 2 GiB: "
                "WARC_ROLL_BYTES must be less"
            )
        yield {
            **_of_url(row["url"]),
            **_of_fetch(row),
            "warc_record_id": None,
            "warc_filename": location.file,
            "warc_record_offset": location.offset,
            "warc_record_length": location.length,
            "warc_segment": _SEGMENT,
            "crawl": row["crawl"],
            "subset": "warc" if 200 <= row["status"] < 300 else "crawldiagnostics",
        }


def _of_url(url: str) -> dict[str, Any]:
    host, rest = split(url)
    path, mark, query = rest.partition("?")
    port = authority(host).rpartition("]")[2].rpartition(":")[2]
    return {
        "url_surtkey": surt(url),
        "url": url,
        **_of_host(hostname(host)),
        "url_protocol": host.partition(":")[0],
        "url_port": int(port) if port.isdecimal() and ":" in authority(host).rpartition("]")[2] else None,
        "url_path": path,
        "url_query": query if mark else None,
    }


@lru_cache(maxsize=10_000)
def _of_host(name: str) -> dict[str, str | None]:
    """Returns the columns of a host name; an IP address has only the first column."""
    columns: dict[str, str | None] = dict.fromkeys(name for name in FIELDS if name.startswith("url_host_"))
    columns["url_host_name"] = f"[{name}]" if ":" in name else name
    if is_address(name):
        return columns
    name = name.removesuffix(".")
    labels = name.split(".")[::-1]
    columns |= dict(zip(_PARTS, labels, strict=False))
    icann, private = _suffixes(only_icann=True), _suffixes(only_icann=False)
    return columns | {
        "url_host_registry_suffix": icann.publicsuffix(name),
        "url_host_registered_domain": icann.privatesuffix(name),
        "url_host_private_suffix": private.publicsuffix(name),
        "url_host_private_domain": private.privatesuffix(name),
        "url_host_name_reversed": ".".join(labels),
    }


@lru_cache
def _suffixes(*, only_icann: bool) -> PublicSuffixList:
    return PublicSuffixList(accept_unknown=False, only_icann=only_icann)


def _of_fetch(row: Row) -> dict[str, Any]:
    status, target, cut = row["status"], row["final_url"], row["truncated"]
    redirects = status not in _NO_REDIRECTS and 300 <= status < 400 and target != row["url"]
    return {
        "fetch_time": row["fetched_at"],
        "fetch_status": status,
        "fetch_redirect": target if redirects else None,
        "content_digest": (row["digest"] or "").partition(":")[2] or None,
        "content_mime_type": row["mime_type"],
        "content_mime_detected": row["mime_type"],
        "content_charset": _charset(row["charset"]),
        "content_languages": _languages(row),
        "content_truncated": cut if cut is None or cut in _REASONS else "unspecified",
    }


def _languages(row: Row) -> str | None:
    """Returns up to three codes of ISO 639-3, the language of the page first, with commas between them."""
    languages = (row["details"] or {}).get("languages", {}).get("content_languages") or [row["language"]]
    return ",".join(filter(None, map(iso_639_3, languages))) or None


@lru_cache
def _charset(codec: str | None) -> str | None:
    """Returns the name of a charset by Python's name: UTF-8, ISO-8859-1, windows-1252."""
    if codec is None:
        return None
    try:
        name = codecs.lookup(codec).name
    except LookupError:
        return codec
    if name.startswith("cp125"):
        return f"windows-{name[2:]}"
    name = name.replace("iso8859", "iso-8859")
    return _CHARSETS.get(name) or name.replace("_", "-").upper()
