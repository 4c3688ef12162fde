"""Sites whose links and pages are in a workspace."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow

from tests.unit.links.rows import TIME
from webcrawl.config import StoreConfig
from webcrawl.documents.html.link_rows import LinkRows, pack_rows
from webcrawl.links.entry import StoredLinks
from webcrawl.links.sources import link_files
from webcrawl.links.store import LinkStore
from webcrawl.mining.pages import find_blocks
from webcrawl.mining.patterns import add_urls
from webcrawl.mining.workspace import MiningTables, Workspace, page_schema

HOST = "http://a.example"
Tables = TypeVar("Tables", bound=MiningTables)
SECOND = 1_000_000


class Link(NamedTuple):
    """A link in a block."""

    to: str
    block: int
    text: str = ""


Site = Mapping[str, Sequence[Link]]
"""The links of each page, in the order in which pages are fetched, a second apart."""


def stored(folder: Path, site: Site, *, start: int = TIME, read_at: int | None = None) -> None:
    """Stores the links of a site in `folder`/links."""
    store = LinkStore(folder / "links", "broad")
    for number, (url, links) in enumerate(site.items()):
        rows = LinkRows()
        for link in links:
            rows.targets.append(link.to)
            rows.texts.append(link.text)
            rows.rels.append("")
            rows.elements.append(0)
            rows.blocks.append(link.block)
        store.write(
            [StoredLinks(url, "broad", 1, start + number * SECOND, False, (pack_rows(rows),), read_at)]
        )
    store.close()


def workspace_of(
    folder: Path,
    site: Site,
    values: Mapping[str, tuple[int | None, float | None]] | None = None,
    unsound: Collection[str] = (),
) -> AbstractContextManager[Workspace]:
    """A workspace with a site, its URLs and blocks. `values`: the length of the text and the value of each page."""
    return mined(Workspace, folder, site, values, unsound)


@contextmanager
def mined(
    opened: Callable[[Path], AbstractContextManager[Tables]],
    folder: Path,
    site: Site,
    values: Mapping[str, tuple[int | None, float | None]] | None = None,
    unsound: Collection[str] = (),
) -> Iterator[Tables]:
    """As `workspace_of`, with the tables of an engine."""
    stored(folder, site)
    config = StoreConfig("", "", folder, links=(folder / "links").as_uri())
    with opened(folder) as workspace:
        workspace.load_links(link_files(config))
        known = values if values is not None else dict.fromkeys(site, (100, 1.0))
        rows = [
            {
                "url": url,
                "depth": 1,
                "referrer": None,
                "text_length": length,
                "sound": url not in unsound,
                "value": value,
            }
            for url, (length, value) in known.items()
        ]
        workspace.add_pages([pyarrow.Table.from_pylist(rows, page_schema())])
        add_urls(workspace)
        find_blocks(workspace)
        yield workspace


def table(workspace: Workspace, query: str) -> list[dict[str, Any]]:
    """The rows of a query by column name."""
    found = workspace.run(query)
    names = [one[0] for one in found.description]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
