"""The page of a crawl's log: the last lines of its workers on this machine, by level and text, and its files."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from starlette.responses import Response, StreamingResponse

from webcrawl.errors import NoSuchPage
from webcrawl.stores.log_files import LEVELS, LogWindow, log_files, log_window, shown_lines
from webcrawl.web.page import DashboardPage, View, whole

page = DashboardPage("log", "Log", for_operators=True)

_FIELDS = ("level", "text", "file")


@page.get()
async def lines(view: View) -> Response:
    files = await _files(view)
    chosen = _chosen(view)
    return view.render(
        "log.html",
        files={path.name: await asyncio.to_thread(_size, path) for path in files},
        levels=LEVELS,
        chosen=chosen,
        listed=partial(view.address, page.name, **chosen),
        folder=view.opened.stores.data_dir / "logs",
        alive=await view.connection.crawl.workers.alive(),
        **await _window(view, files),
    )


@page.live("log")
async def parts(view: View) -> Mapping[str, str]:
    values = await _window(view, await _files(view))
    return {"lines": view.fragment("log_lines.html", **values)}


@page.get("file")
async def download(view: View) -> Response:
    """Returns a whole file, without passwords."""
    path = _named(await _files(view), view.query.get("name", ""))
    headers = {"Content-Disposition": f'attachment; filename="{path.name}"'}
    return StreamingResponse(shown_lines(path), headers=headers, media_type="text/plain; charset=utf-8")


async def _window(view: View, files: list[Path]) -> dict[str, Any]:
    chosen, before = _chosen(view), whole(view.query.get("before", "0"), "before")
    read = [_named(files, chosen["file"])] if chosen["file"] else files
    work = partial(log_window, read, chosen["level"], chosen["text"], before=before)
    window: LogWindow = await asyncio.to_thread(work)
    return {"window": window, "before": before, "several": len(read) > 1}


def _chosen(view: View) -> dict[str, str]:
    return {name: view.query.get(name, "").strip() for name in _FIELDS}


async def _files(view: View) -> list[Path]:
    return await asyncio.to_thread(log_files, view.opened.stores.data_dir / "logs", view.crawl)


def _named(files: list[Path], name: str) -> Path:
    """Returns the file of this name; raises NoSuchPage for any other."""
    for path in files:
        if path.name == name:
            return path
    raise NoSuchPage(f"there is no log file {name!r} of this crawl")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # renamed meanwhile
        return 0
