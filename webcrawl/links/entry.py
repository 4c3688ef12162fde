"""The entry of a page in the journal of a link store."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgpack
from xxhash import xxh3_64_intdigest

from webcrawl.documents.html.link_rows import PackedRows, unpack_rows

_EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(slots=True)
class StoredLinks:
    """The links of one fetch of a page.

    url, crawl, depth   of the page
    time                of the fetch, in microseconds since 1970
    nofollow            whether the page says nofollow for all its links
    rows                packed `LinkRows`, in the order of the page
    read_at             when the archived page was read again, like `time`; None for a fetch
    """

    url: str
    crawl: str
    depth: int
    time: int
    nofollow: bool
    rows: tuple[bytes, ...]
    read_at: int | None = None

    @property
    def digest(self) -> str:
        """The XXH3 of all but the times, 64 bits in hexadecimal digits."""
        facts = msgpack.packb(
            [self.url, self.crawl, self.depth, self.nofollow, self.rows], unicode_errors="replace"
        )
        return f"{xxh3_64_intdigest(facts):016x}"

    def unpacked(self) -> list[PackedRows]:
        """Returns the rows; raises ValueError if they are damaged."""
        return [unpack_rows(part) for part in self.rows]


def pack_entry(entry: StoredLinks) -> bytes:
    """Returns an entry as MessagePack."""
    # `astuple` would copy each value
    values = [getattr(entry, name) for name in StoredLinks.__slots__]
    return bytes(msgpack.packb(values, unicode_errors="replace"))


def unpack_entry(packed: bytes) -> StoredLinks:
    """Reverses `pack_entry`; raises ValueError for any other bytes."""
    try:
        url, crawl, depth, fetched, nofollow, rows, again = msgpack.unpackb(packed)
        read_at = None if again is None else int(again)
        made = StoredLinks(
            str(url), str(crawl), int(depth), int(fetched), bool(nofollow), tuple(rows), read_at
        )
    except Exception as error:
        raise ValueError(f"not links of a page: {error}") from error
    if not all(type(part) is bytes for part in made.rows):
        raise ValueError("not links of a page")
    return made


def microseconds(moment: datetime) -> int:
    """Returns a time as in `StoredLinks`."""
    return (moment - _EPOCH) // timedelta(microseconds=1)
