"""WET files: the text of archived pages as conversion records, read by warcio and FastWARC."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

from fastwarc.warc import ArchiveIterator as FastIterator
from hypothesis import given, strategies as st
from warcio.archiveiterator import ArchiveIterator

from tests.cases import cases
from tests.unit.warcs import NOW, check, exchange, warcs
from webcrawl.documents.mime.language import iso_639_3
from webcrawl.documents.page import Page
from webcrawl.stores.conversions import MARKDOWN_TYPE, TEXT_TYPE, Conversion
from webcrawl.stores.folder_archive import FolderArchive
from webcrawl.stores.warc.files import OPEN
from webcrawl.stores.warc.reading import members
from webcrawl.stores.warc.repair import repair

TEXT = "First  line\n\n\tsecond\xa0caf\u00e9\n"


def page(text: str = TEXT, path: str = "") -> Page:
    """An archived page."""
    answer = exchange(path)
    one = Page(url=answer.url, host="http://www.example.org", fetched_at=NOW)
    one.archived.exchange, one.main_text, one.language, one.archived.record_id = (
        answer,
        text,
        "fr",
        "<urn:uuid:1>",
    )
    return one


def wet_files(folder: Path) -> FolderArchive:
    return texts_of(folder, TEXT_TYPE)


def texts_of(folder: Path, mime_type: str, part: str = "main") -> FolderArchive:
    files = Conversion("", part, mime_type)
    about = {"prefix": "crawl", "software": "x"}
    return FolderArchive(folder, suffix=files.suffix, append=files.append, **about)


def test_text_becomes_a_conversion_record(tmp_path: Path) -> None:
    files = wet_files(tmp_path)
    place = files.write(page())
    files.write(page("other", "a"))
    files.close()
    (path,) = tmp_path.iterdir()  # no index
    assert path.name == place.file and path.name.startswith("crawl-") and path.name.endswith(".warc.wet.gz")
    check(path)
    record = files.read(place)
    assert record.payload.decode() == "First line\nsecond caf\u00e9"
    assert record.headers["WARC-Refers-To"] == "<urn:uuid:1>"
    assert record.headers["WARC-Identified-Content-Language"] == "fra"
    with path.open("rb") as file:
        info, text, other = [(one.rec_type, dict(one.rec_headers.headers)) for one in ArchiveIterator(file)]
    assert (info[0], text[0], other[0]) == ("warcinfo", "conversion", "conversion")
    for headers in (text[1], other[1]):
        assert headers["Content-Type"] == headers["WARC-Identified-Payload-Type"] == "text/plain"
    assert text[1]["WARC-Date"] == "2026-02-03T04:05:06.000789Z"
    assert text[1]["WARC-Warcinfo-ID"] == info[1]["WARC-Record-ID"]
    with path.open("rb") as file:
        read = [one.reader.read() for one in FastIterator(file) if one.verify_block_digest() is not False]
    assert read[1:] == ["First line\nsecond café".encode(), b"other"]


def test_markdown_and_texts_of_whole_pages_have_files_of_their_own(tmp_path: Path) -> None:
    answered = page("main part")
    answered.text, answered.main_text = "menu\x1emain part", "main part"
    answered.reading.markdown, answered.reading.page_markdown = "*main* part", "menu\n\n*main* part"
    contents = {
        (TEXT_TYPE, "main"): "main part",
        (TEXT_TYPE, "page"): "menu\nmain part",
        (MARKDOWN_TYPE, "main"): "*main* part",
        (MARKDOWN_TYPE, "page"): "menu\n\n*main* part",
    }
    for (mime_type, part), text in contents.items():
        folder = tmp_path / f"{part}-{mime_type[5:]}"
        files = texts_of(folder, mime_type, part)
        record = files.read(files.write(answered))
        files.close()
        assert record.payload.decode() == text and record.headers["Content-Type"] == mime_type
        (path,) = folder.iterdir()
        assert path.name.endswith(".warc.wet.gz" if mime_type == TEXT_TYPE else ".warc.md.gz")


@cases(
    ("status", "soft_404", "has_text"),
    [
        *((200, False, True), (206, False, True), (200, True, False)),
        *((404, False, False), (500, False, False), (301, False, False)),
    ],
)
def test_only_successful_pages_have_conversions(status: int, soft_404: bool, has_text: bool) -> None:
    answered = page("text")
    assert answered.archived.exchange is not None
    answered.archived.exchange = replace(answered.archived.exchange, status=status)
    answered.soft_404, answered.reading.markdown = soft_404, "*text*"
    texts = [Conversion("", "main", kind).text(answered) for kind in (TEXT_TYPE, MARKDOWN_TYPE)]
    assert texts == (["text", "*text*"] if has_text else ["", ""])


def test_revisit_has_no_record_id_and_an_archived_page_has_one(tmp_path: Path) -> None:
    archive = FolderArchive(tmp_path)
    one, copy = page(), page()
    one.archived.record_id = copy.archived.record_id = None
    copy.duplicate_of, copy.duplicate_kind, copy.archived.duplicate_fetched_at = (
        "http://a.example/",
        "exact",
        NOW,
    )
    place = archive.write(one)
    archive.write(copy)
    archive.close()
    assert one.archived.record_id == archive.read(place).headers["WARC-Record-ID"]
    assert copy.archived.record_id is None
    assert len(warcs(tmp_path)) == 1


def test_cut_file_keeps_its_whole_records(tmp_path: Path) -> None:
    files = wet_files(tmp_path / "whole")
    place = files.write(page())
    files.write(page("second", "b"))
    files.close()
    data = (tmp_path / "whole" / place.file).read_bytes()
    ends = [offset + length for offset, length, _ in members(io.BytesIO(data))]
    for cut in (ends[1] - 1, ends[1], ends[1] + 5, ends[2] - 1, ends[2]):
        folder = tmp_path / str(cut)
        folder.mkdir()
        (folder / (place.file + OPEN)).write_bytes(data[:cut])
        assert repair(folder) == [folder / place.file]
        assert [path.name for path in folder.iterdir()] == [place.file]
        assert (folder / place.file).read_bytes() == data[: max(end for end in ends if end <= cut)]


@given(st.text())
def test_any_text_has_a_valid_record(text: str) -> None:
    lines = page(text).reading.readable("main").split("\n")
    assert lines == [" ".join(line.split()) for line in lines] and (lines == [""] or "" not in lines)
    words = "".join(text.replace("\0", "\ufffd").split())
    assert "".join(lines).replace(" ", "") in (words, words.replace("\xad", ""))


@cases(("tag", "code"), [("en", "eng"), ("deu", "deu"), ("iw", "heb"), ("zz", None), (None, None)])
def test_code_of_language(tag: str | None, code: str | None) -> None:
    assert iso_639_3(tag) == code
