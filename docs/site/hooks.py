"""What mkdocs cannot do by itself: pages from outside docs/, the API reference, and links to the project's files.

The pages are written for readers of the checkout, so their links are relative to it. Those to files that are no pages
lead to pages with the source code.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

CHECKOUT = Path(__file__).resolve().parents[2]

OUTSIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "deploy/README.md": "deploy.md",
}
"""Page in the checkout -> page of the site."""

FOLDERS = {
    "Start": "docs/start",
    "Guide": "docs/guide",
    "Extend": "docs/howto",
    "Reference": "docs/reference",
    "Decisions": "docs/decisions",
    "Project": "docs",
}
"""Section of the navigation -> the folder of its pages."""

API = {
    "Spiders and pages": ["BroadSpider", "Page", "Reads"],
    "Documents": ["Document", "MimePipeline", "Facts", "Link", "Zipped", "visible_text"],
    "URLs and priorities": ["URLFilter", "Term", "Prospect"],
    "Fetching": ["Protocol", "Answer", "PolitenessMiddleware", "Outcome", "Throttled"],
    "Storage": ["ObjectStore", "StoredObject"],
    "A crawl from outside": [
        "OpenedCrawlCommand",
        "OpenedCrawl",
        "host_named",
        "Frontier",
        "script_call",
        "crawl_exposition",
    ],
    "Projects": ["WebcrawlAddon"],
    "Errors": [
        "CrawlError",
        "ConfigurationError",
        "InvalidURL",
        "StoreError",
        "StoreUnavailable",
        "NoSuchObject",
        "UnreadableDocument",
        "BrokenTransfer",
    ],
}
"""Heading of the API reference -> the public names of `webcrawl`, each once."""

RANKS = {
    "start/": 8,
    "guide/": 4,
    "howto/": 4,
    "reference/history": 0.1,
    "changelog": 0.1,
    "decisions/": 0.5,
    "api": 0.25,
}
"""Beginning of a page's name -> the factor of its results in searches, by default 1: tasks come before details."""

COMPONENTS = ("spiders", "middlewares", "pipelines")

_LANGUAGES = {
    ".py": "python",
    ".lua": "lua",
    ".toml": "toml",
    ".yaml": "yaml",
    ".cfg": "ini",
    ".json": "json",
}
_SHIM = "https://unpkg.com/iframe-worker/shim"
_LINK = re.compile(r"(!?\[[^\]]*\]\()([^)\s#]+)(#[^)\s]*)?\)")
_CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add pages that the navigation does not name, at the end of the section of their folder."""
    sections = {name: pages for entry in config.nav or () for name, pages in entry.items()}
    named = {*_paths(config.nav or [])}
    for section, folder in FOLDERS.items():
        paths = sorted(str(path.relative_to(CHECKOUT / "docs")) for path in (CHECKOUT / folder).glob("*.md"))
        sections[section] += [path for path in paths if path not in named]
    return config


def _paths(pages: list[Any] | dict[str, Any] | str) -> Iterator[str]:
    """Yields the paths that a part of the navigation names."""
    if isinstance(pages, str):
        yield pages
    else:
        for part in pages.values() if isinstance(pages, dict) else pages:
            yield from _paths(part)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/, and the source code that any page links to."""
    for path, name in OUTSIDE.items():
        files.append(File.generated(config, name, content=(CHECKOUT / path).read_text()))
    files.append(File.generated(config, "api.md", content=_api()))
    for path in sorted(_linked(files)):
        files.append(File.generated(config, _page_of(path), content=_source(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point the links of a page to pages of the site, and rank the page in searches."""
    here = _in_checkout(page.file.src_uri)
    rank = next((rank for name, rank in RANKS.items() if page.file.src_uri.startswith(name)), 1)
    page.meta.setdefault("search", {})["boost"] = rank
    if here is None:
        return markdown

    def pointed(link: re.Match[str]) -> str:
        target = _target(here, link[2])
        if target is None:
            return link[0]
        to = posixpath.relpath(_page_of(target), posixpath.dirname(page.file.src_uri) or ".")
        return f"{link[1]}{to}{link[3] or ''})"

    return _outside_code(markdown, lambda text: _LINK.sub(pointed, text))


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Load the script for searches without a web server from the site; the theme names another server."""
    return output.replace(
        _SHIM, posixpath.relpath("site/iframe-worker.js", posixpath.dirname(page.url) or ".")
    )


def on_post_template(output_content: str, template_name: str, config: MkDocsConfig) -> str:
    """The same for pages that are not written by anybody."""
    return output_content.replace(_SHIM, "/site/iframe-worker.js")


def _outside_code(markdown: str, change: Callable[[str], str]) -> str:
    """Returns a text with `change` applied to what is not code."""
    parts, end = [], 0
    for code in _CODE.finditer(markdown):
        parts += [change(markdown[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, change(markdown[end:])])


def _in_checkout(name: str) -> str | None:
    """Returns the path in the checkout of a page of the site; None if it was generated."""
    for path, page in OUTSIDE.items():
        if page == name:
            return path
    return None if name == "api.md" or name.startswith("source/") else f"docs/{name}"


def _target(page: str, link: str) -> str | None:
    """Returns the path in the checkout of what a page links to; None if it is elsewhere or does not exist."""
    if ":" in link or link.startswith("/"):
        return None
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
    return path if (CHECKOUT / path).exists() else None


def _page_of(path: str) -> str:
    """Returns the page or picture of the site for a path in the checkout."""
    if path in OUTSIDE:
        return OUTSIDE[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"source/{path}.md"


def _linked(files: Files) -> set[str]:
    """Returns the paths outside the site to which its pages link."""
    found = set()
    for file in files.documentation_pages():
        if here := _in_checkout(file.src_uri):
            text = (CHECKOUT / here).read_text()
            targets = {_target(here, link[2]) for link in _LINK.finditer(text)}
            found |= {path for path in targets if path and _page_of(path).startswith("source/")}
    return found


def _source(path: str) -> str:
    """Returns a page with a file, or with the names in a folder."""
    place = CHECKOUT / path
    hidden = "---\nsearch: {exclude: true}\nhide: [toc]\n---\n"
    if place.is_dir():
        names = "\n".join(
            f"- `{entry.name}`" for entry in sorted(place.iterdir()) if entry.name[0] not in "_."
        )
        return f"{hidden}# `{path}`\n\n{names}\n"
    language = _LANGUAGES.get(place.suffix, "text")
    return f"{hidden}# `{path}`\n\n~~~~ {language}\n{place.read_text()}\n~~~~\n"


def _api() -> str:
    """Returns the API reference: directives of mkdocstrings, which reads the docstrings."""
    parts = [
        "# API",
        "Import these names from `webcrawl`. [Stability](stability.md) says what they promise.",
    ]
    names = {heading: [f"webcrawl.{name}" for name in names] for heading, names in API.items()}
    for heading, targets in {**names, **{name.capitalize(): _modules(name) for name in COMPONENTS}}.items():
        parts.append(f"## {heading}")
        if heading.lower() in COMPONENTS:
            parts.append("Settings name these classes by their dotted paths.")
        parts += [f"::: {target}\n    options: {{heading_level: 3}}" for target in targets]
    return "\n\n".join(parts) + "\n"


def _modules(name: str) -> list[str]:
    folder = CHECKOUT / "webcrawl" / name
    return [f"webcrawl.{name}.{path.stem}" for path in sorted(folder.glob("[!_]*.py"))]
