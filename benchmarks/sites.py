"""The pages of the side-by-side benchmark: documentation from Debian packages.

Each site is crawled completely. Its pages link almost only to one another, so every contender gets the same pages,
whatever its order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

DOCS = Path("/usr/share/doc")


@dataclass(frozen=True, slots=True)
class Site:
    """A folder of HTML pages, its Debian package, and the address where it is served."""

    name: str
    package: str
    folder: Path
    address: str

    @property
    def there(self) -> bool:
        return (self.folder / "index.html").exists()


SITES = [
    Site("Python", "python3-doc", DOCS / "python3-doc/html", "127.0.1.1"),
    Site("PostgreSQL", "postgresql-doc-15", DOCS / "postgresql-doc-15/html", "127.0.1.2"),
    Site("The Rust book", "rust-doc", DOCS / "rust-doc/html/book", "127.0.1.3"),
    Site("The embedded Rust book", "rust-doc", DOCS / "rust-doc/html/embedded-book", "127.0.1.4"),
    Site("Rust by example", "rust-doc", DOCS / "rust-doc/html/rust-by-example", "127.0.1.5"),
    Site("The Rust reference", "rust-doc", DOCS / "rust-doc/html/reference", "127.0.1.6"),
    Site("The Rust edition guide", "rust-doc", DOCS / "rust-doc/html/edition-guide", "127.0.1.7"),
    Site("The Rustonomicon", "rust-doc", DOCS / "rust-doc/html/nomicon", "127.0.1.8"),
]
MANY = [f"127.0.3.{number}" for number in range(1, 251)]
"""Addresses that the same pages are dealt out to for a web of many hosts."""
THOUSANDS = [f"127.{second}.{third}.{third + 1}" for second in range(32, 44) for third in range(250)]
"""Addresses of a web of 3,000 hosts with a few pages each, in networks of their own: a network counts as a domain."""
THOUSAND = THOUSANDS[:1_000]
SCOPE = r"^https?://127\.(?:0\.[13]|3[2-9]|4[0-3])\."
"""What a link to one of the pages looks like."""


def available(sites: Sequence[Site] = SITES) -> list[Site]:
    """The sites whose packages are installed; prints which are not."""
    installed = [site for site in sites if site.there]
    for site in sites:
        if not site.there:
            print(f"{site.name} is left out: apt install {site.package}")
    if not installed:
        raise SystemExit(f"The benchmark needs one of the packages: apt install {' '.join(PACKAGES)}")
    return installed


PACKAGES = sorted({site.package for site in SITES})
