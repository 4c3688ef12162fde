"""Bodies for other search engines have each good page once, in the engine's form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.metadata import NOW
from tests.unit.search.indexes import SITE, Pages, page
from webcrawl.errors import StoreError
from webcrawl.search import bulk
from webcrawl.search.bulk import ENGINES, FIELDS, INDEX, BulkExport
from webcrawl.stores.objects.folder import FolderStore


@pytest.fixture
def pages(tmp_path: Path) -> Pages:
    pages = Pages(tmp_path / "crawl")
    pages.folder.mkdir()
    pages.store(
        page("/a", "Äpfel und \ud800 Birnen", importance=2.5, published_at=NOW),
        page("/b", "second", duplicate_of=f"{SITE}/a"),
        page("/gone", "gone", status=404),
    )
    return pages


def export(pages: Pages, folder: Path, engine: str) -> list[Any]:
    """Writes bodies; returns the objects in them, in order."""
    store = FolderStore(folder.as_uri())
    with pages.metadata() as metadata:
        written = BulkExport(store, ENGINES[engine](), pages.config, metadata, pages.archived, pages.media)
        written.run()
    assert written.figures.pages == 2
    lines = [line for path in sorted(folder.glob("*.ndjson")) for line in path.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def test_quickwit_gets_a_document_a_line(pages: Pages, tmp_path: Path) -> None:
    documents = {line["url"]: line for line in export(pages, tmp_path / "out", "quickwit")}
    assert documents[f"{SITE}/a"] == {
        "url": f"{SITE}/a",
        "title": "A page",
        "text": "Äpfel und ? Birnen",
        "host": ["www.example.org", "example.org", "org"],
        "language": "en",
        "type": "text/html",
        "kind": "page",
        "crawl": "broad",
        "fetched_at": NOW.isoformat(),
        "published_at": NOW.isoformat(),
        "importance": 2.5,
    }
    assert documents[f"{SITE}/b"]["copy_of"] == f"{SITE}/a"
    index = json.loads((tmp_path / "out" / INDEX).read_text())
    fields = {field["name"]: field["type"] for field in index["doc_mapping"]["field_mappings"]}
    assert fields.keys() == FIELDS.keys() >= documents[f"{SITE}/a"].keys()
    assert {name for name, kind in fields.items() if kind.startswith("array")} == {"host", "anchors"}


def test_opensearch_gets_an_action_before_each_document(pages: Pages, tmp_path: Path) -> None:
    lines = export(pages, tmp_path / "out", "opensearch")
    actions, documents = lines[::2], lines[1::2]
    assert {document["url"] for document in documents} == {f"{SITE}/a", f"{SITE}/b"}
    assert all(action["index"]["_index"] == "pages" for action in actions)
    assert len({action["index"]["_id"] for action in actions}) == 2
    index = json.loads((tmp_path / "out" / INDEX).read_text())
    assert index["mappings"]["properties"].keys() == FIELDS.keys()


def test_no_body_is_cut_or_too_long(pages: Pages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "BODY_BYTES", 400)
    assert len(export(pages, tmp_path / "out", "opensearch")) == 4
    bodies = list((tmp_path / "out").glob("*.ndjson"))
    assert len(bodies) == 2
    assert all(path.read_bytes().endswith(b"}\n") for path in bodies)


def test_a_folder_with_other_files_is_refused(pages: Pages, tmp_path: Path) -> None:
    export(pages, tmp_path / "out", "quickwit")
    with pytest.raises(StoreError, match="out is not empty: name another folder"):
        export(pages, tmp_path / "out", "quickwit")
