"""Seeds: the URLs with which a crawl begins."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from webcrawl.errors import ConfigurationError, InvalidURL
from webcrawl.urls.canonical import DEFAULT_PORTS, normalize

_BARE_HOST = re.compile(r"(localhost|[\w-]+(\.[\w-]+)+)(:\d+)?(/\S*)?")


def read_seeds(text: str) -> Iterator[str]:
    """Yields the seeds in an argument: URLs separated by commas or white space, or `@file`; see `seeds_in_lines`.

    In an argument, write a comma inside a URL as %2C. Raises ConfigurationError if the file cannot be read.
    """
    if not text.startswith("@"):
        yield from filter(None, re.split(r"[\s,]+", text))
        return
    path = Path(text[1:])
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise ConfigurationError(f"cannot read the seeds in {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"cannot read the seeds in {path}: it is not UTF-8") from error
    yield from seeds_in_lines(lines)


def seeds_in_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yields the seeds in the lines of a file, with one seed per line and # comments."""
    for line in lines:
        line = line.partition(" #")[0].strip()
        if line and not line.startswith("#"):
            yield line


def with_scheme(text: str) -> str:
    """Returns a URL with its scheme: one that begins with a bare host name gets https."""
    return f"https://{text}" if _BARE_HOST.fullmatch(text) else text


def seed_url(seed: str) -> str:
    """Returns the normalized URL of a seed. A bare host name gets https. Raises InvalidURL."""
    seed = with_scheme(seed)
    if seed.partition("://")[0].lower() not in DEFAULT_PORTS:
        raise InvalidURL(f"{seed!r} is not a URL of {', '.join(DEFAULT_PORTS)}")
    return normalize(seed)
