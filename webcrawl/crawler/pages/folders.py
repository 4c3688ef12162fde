"""The folders above a URL, which PATH_ASCENDING adds to the frontier too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from webcrawl.frontier import RecentCache

MOST_FOLDERS = 20
"""The most folders of one URL, nearest to the root: a hostile link could otherwise bring thousands of URLs."""


def folders_above(url: str) -> Iterator[str]:
    """Yields the folders that contain a normalized URL, the nearest first: `/a/b/` for both `/a/b/?c` and `/a/b/c`.

    A folder does not contain itself.
    """
    query = url.find("?")
    end = query if query >= 0 else len(url) - 1
    slashes: list[int] = []
    slash = url.find("/", url.find(":") + 4)
    while 0 <= slash < end and len(slashes) < MOST_FOLDERS:
        slashes.append(slash)
        slash = url.find("/", slash + 1, end)
    for slash in reversed(slashes):
        yield url[: slash + 1]


_NONE: Sequence[str] = ()


def unknown_folders(url: str, known: RecentCache[str], allowed: Callable[[str], str | None]) -> Sequence[str]:
    """Returns the folders above a URL that `allowed` passes, as it returns them, and adds them to `known`.

    Stops at the first known folder, because the folders above it are known too.
    """
    # -1, for a URL without a query, leaves out the last character, which may be the slash of a folder
    if url[: url.rfind("/", 0, url.find("?")) + 1] in known:
        return _NONE
    unknown = []
    for folder in folders_above(url):
        if folder in known:
            break
        if (address := allowed(folder)) is not None:
            known.add(folder)
            unknown.append(address)
    return unknown
