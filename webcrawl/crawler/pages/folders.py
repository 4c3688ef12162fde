"""The folders above a URL, which PATH_ASCENDING adds to the frontier too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from webcrawl.frontier import RecentCache

MOST_FOLDERS = 20
"""Of one URL, those nearest to the root. Otherwise a hostile link could bring thousands of URLs."""


def folders_above(url: str) -> Iterator[str]:
    """Yields the folders that contain a normalised URL, the nearest first: of `/a/b/?c` and `/a/b/c`, `/a/b/` is one.

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
    """Returns the folders above a URL as `allowed` returns them, without the others, and adds them to `known`.

    Stops at the first known one, because those above it were found with it.
    """
    # -1, for a URL without a query, leaves out its last character, which may be the end of a folder
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
