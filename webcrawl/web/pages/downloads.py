"""Files of a crawl for operators: exports, texts and WACZ. A command makes them, then they can be downloaded."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from starlette.responses import FileResponse, Response

from webcrawl.documents.disk import failure
from webcrawl.documents.values import size
from webcrawl.errors import NoSuchPage, StoreError
from webcrawl.opened import OpenedCrawl
from webcrawl.stores.archive import archive_to_read, robotstxt_to_read
from webcrawl.stores.warc.files import WARC, crawl_of, prefix_of
from webcrawl.web.making import CommandTask
from webcrawl.web.page import DashboardPage, View

page = DashboardPage("downloads", "Downloads", for_operators=True)

_UNFINISHED = ".unfinished"


class Product(NamedTuple):
    """A kind of download. `words`: the command that makes it, without the crawl and the destination."""

    name: str
    title: str
    about: str
    words: Sequence[str]

    @property
    def is_wacz(self) -> bool:
        return self.name == "wacz"

    def command(self, crawl: str, folder: Path) -> list[str]:
        """Returns the words of the command that writes into a folder."""
        if self.is_wacz:
            return [*self.words, "--crawl", crawl, "-o", str(folder / f"{crawl}.wacz")]
        return [*self.words, "--crawl", crawl, "-o", str(folder)]


def _export(name: str, title: str, about: str, *words: str) -> Product:
    return Product(name, title, about, ["export", "--partition", "none", "--format", *words])


PRODUCTS = (
    _export(
        "jsonl", "Pages as JSON Lines", "A line for each row: URL, status, title, dates and more", "jsonl"
    ),
    _export("csv", "Pages as CSV", "The same as a table for spreadsheets", "csv"),
    _export("parquet", "Pages as Parquet", "The same for DuckDB, pandas and Spark", "parquet"),
    _export("text", "Pages with their texts", "JSON Lines with the text of each page", "jsonl", "--text"),
    _export(
        "markdown", "Pages with Markdown", "JSON Lines with the Markdown of HTML pages", "jsonl", "--markdown"
    ),
    Product(
        "wacz",
        "The archive as WACZ",
        "All exchanges, for replayweb.page",
        ["export", "--format", "wacz"],
    ),
)
_BY_NAME = {product.name: product for product in PRODUCTS}


@dataclass(frozen=True)
class _Made:
    """The files of a product by name, with their bytes, and when they were made; no file if it was not made."""

    files: Mapping[str, int]
    made_at: float | None


@page.get()
async def table(view: View) -> Response:
    made, archived = await asyncio.gather(
        asyncio.to_thread(_all_made, view), asyncio.to_thread(_archived_bytes_if_known, view.opened)
    )
    making = view.making
    return view.render(
        "downloads.html",
        products=[
            (
                product,
                made[product.name],
                making.since(_task(view, product)),
                making.problem(_task(view, product)),
            )
            for product in PRODUCTS
        ],
        archived=archived,
        stored=(await view.connection.crawl.totals()).get("stored", 0),
        data_dir=view.opened.stores.data_dir,
        folder=_folder(view),
        state=_state(view),
    )


@page.live("downloads")
async def parts(view: View) -> Mapping[str, str]:
    return {"@shown": _state(view)}


@page.get("file")
async def file(view: View) -> Response:
    """Streams a file; a browser can continue an interrupted download."""
    product, name = _product(view.query.get("product", "")), view.query.get("name", "")
    if name not in (await asyncio.to_thread(_made, view, product)).files:
        raise NoSuchPage("there is no such file: it was made again or deleted")
    return FileResponse(
        _folder(view) / product.name / name,
        media_type="application/octet-stream",
        filename=f"{view.crawl}-{name}" if not name.startswith(view.crawl) else name,
    )


@page.post("make")
async def make(view: View) -> Response:
    """Starts the command that makes a product."""
    product = _product(view.form["product"])
    folder = _folder(view)
    new = folder / f"{product.name}{_UNFINISHED}"
    view.making.start(
        _task(view, product),
        product.command(view.crawl, new),
        view.opened.settings,  # type: ignore[arg-type]
        prepare=partial(_prepare, view.opened, product, new),
        finish=partial(_replace, new, folder / product.name),
    )
    return view.done(
        f"{product.title}: being made. This page shows when it is done.", view.address("downloads")
    )


@page.post("delete")
async def delete(view: View) -> Response:
    product = _product(view.form["product"])
    await asyncio.to_thread(shutil.rmtree, _folder(view) / product.name, ignore_errors=True)
    return view.done(f"{product.title}: deleted.", view.address("downloads"))


def _product(name: str) -> Product:
    if name not in _BY_NAME:
        raise NoSuchPage(f"there is no download {name!r}")
    return _BY_NAME[name]


def _task(view: View, product: Product) -> CommandTask:
    return CommandTask(view.crawl, product.name)


def _state(view: View) -> str:
    return view.making.state(*(_task(view, product) for product in PRODUCTS))


def _folder(view: View) -> Path:
    return view.opened.stores.data_dir / "downloads" / view.crawl


def _all_made(view: View) -> dict[str, _Made]:
    return {product.name: _made(view, product) for product in PRODUCTS}


def _made(view: View, product: Product) -> _Made:
    folder = _folder(view) / product.name
    try:
        files = {path.name: path.stat() for path in sorted(folder.iterdir()) if not path.name.startswith("_")}
    except FileNotFoundError:
        return _Made({}, None)
    times = [file.st_mtime for file in files.values()]
    return _Made({name: file.st_size for name, file in files.items()}, max(times, default=None))


def archived_bytes(opened: OpenedCrawl) -> int:
    """Returns the bytes of the finished WARC files of a crawl, of which WACZ is made."""
    wanted = prefix_of(opened.connection.keys.crawl)
    archives = (archive_to_read(opened.stores), robotstxt_to_read(opened.stores))
    return sum(
        file.size
        for archive in archives
        for file in archive.files()
        if file.name.endswith(WARC) and crawl_of(file.name) == wanted
    )


def _archived_bytes_if_known(opened: OpenedCrawl) -> int | None:
    """Returns these bytes; None if the archive does not answer."""
    with suppress(StoreError):
        return archived_bytes(opened)
    return None


def _prepare(opened: OpenedCrawl, product: Product, folder: Path) -> None:
    """Makes an empty folder; raises StoreError if there is no room for the product."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise failure("write", folder, error) from error
    needed = archived_bytes(opened) if product.is_wacz else 0
    if needed > free:
        raise StoreError(f"the file needs {size(needed)}, and {folder.parent} has {size(free)} left")


def _replace(new: Path, old: Path) -> None:
    """Replaces the files of a product by new ones."""
    shutil.rmtree(old, ignore_errors=True)
    new.rename(old)
