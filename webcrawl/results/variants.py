"""Finds the URL that a crawl fetched instead of a link, because it counts both as the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from webcrawl.urls.canonical import Canonicalizer, as_requested


class Variants:
    """The fetched URLs that have another form than their canonical form, which would not be found by a link.

    simplest  returns a URL as the DUST rules of the crawl rewrite it; without rules, the URL
    """

    def __init__(self, canonicalizer: Canonicalizer, simplest: Callable[[str], str] = str) -> None:
        self._canonical = canonicalizer.canonical
        self._simplest = simplest
        self._fetched: dict[str, str] = {}
        """Canonical form -> fetched URL."""

    def add(self, urls: Iterable[str]) -> None:
        """Adds fetched URLs."""
        for url in urls:
            if (canonical := self._canonical(url)) != url:
                self._fetched.setdefault(canonical, url)

    def of(self, url: str) -> Iterator[str]:
        """Yields the forms in which a URL may have been fetched, itself first; repeats some."""
        yield url
        for form in dict.fromkeys((url, self._simplest(url))):
            yield form
            yield as_requested(form)
            canonical = self._canonical(form)
            yield canonical
            if canonical in self._fetched:
                yield self._fetched[canonical]
