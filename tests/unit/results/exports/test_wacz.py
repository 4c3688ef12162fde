"""A WACZ file of a damaged archive leaves out what is damaged, and says so."""

from __future__ import annotations

import json

import pytest

from tests.cases import cases
from webcrawl.errors import StoreError
from webcrawl.results.exports.wacz import of_crawl
from webcrawl.stores.warc.files import StoredFile

LINE = (
    b"test,a)/ 20260203120000 "
    + json.dumps(
        {
            "url": "http://a.test/",
            "mime": "text/html",
            "digest": "",
            "status": "200",
            "filename": "x-1.warc.gz",
            "offset": "0",
            "length": "9",
        }
    ).encode()
)


class Archive:
    def __init__(self, **files: bytes) -> None:
        self._files = files

    def files(self) -> list[StoredFile]:
        return [
            StoredFile(name, len(data), lambda offset, length, data=data: data[offset : offset + length])
            for name, data in self._files.items()
        ]


@cases(
    ("index", "reason"),
    [
        (None, "it has no index"),
        (LINE, "is cut short"),
        (b"no line\n", "its index is damaged"),
        (LINE.replace(b"{", b"[") + b"\n", "its index is damaged"),
        (LINE.replace(b"2026", b"20x6") + b"\n", "its index is damaged"),
        (LINE.replace(b'"9"', b'"99"') + b"\n", "a record beyond its end"),
    ],
)
def test_a_damaged_file_is_left_out(index: bytes | None, reason: str) -> None:
    good, bad = "broad-20260203120000000-00001-1-a", "broad-20260203120000000-00002-1-a"
    files = {f"{good}.warc.gz": b"123456789", f"{good}.cdxj": LINE + b"\n", f"{bad}.warc.gz": b"123456789"}
    damaged = {**files, **({} if index is None else {f"{bad}.cdxj": index})}
    chosen = of_crawl([Archive(**damaged)], "broad", "broad", "a store")  # type: ignore[list-item]
    assert [warc.name for warc, _ in chosen.warcs] == [f"{good}.warc.gz"]
    assert list(chosen.left_out) == [f"{bad}.warc.gz"]
    assert reason in chosen.left_out[f"{bad}.warc.gz"]
    del damaged[f"{good}.warc.gz"]
    with pytest.raises(StoreError, match=f"{bad}.warc.gz is left out: .*{reason}"):
        of_crawl([Archive(**damaged)], "broad", "broad", "a store")  # type: ignore[list-item]
