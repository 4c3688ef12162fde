"""Reads JSON: the keys at the top, JSON-LD and JSON feeds."""

from __future__ import annotations

import json
from typing import Any

from webcrawl.documents.document import Document
from webcrawl.documents.mime.facts import MAX_DESCRIPTION, MAX_TITLE, Facts, Link, collapsed, join, language
from webcrawl.documents.mime.sitemap import w3c_time
from webcrawl.errors import UnreadableDocument

SHOWN_KEYS = 50
_TITLES = ("title", "name", "headline")
_FEED = ("https://jsonfeed.org/version/", "http://jsonfeed.org/version/")


def read(document: Document) -> Facts:
    """Returns the facts of JSON; raises UnreadableDocument, or RecursionError if it is nested too deep."""
    value = _parsed(document.text)
    if isinstance(value, list):
        first = value[0] if value else None
        return Facts(details={"kind": "array", "items": len(value), **_keys(first)})
    if not isinstance(value, dict):
        return Facts(details={"kind": type(value).__name__})
    details: dict[str, Any] = {"kind": "object", **_keys(value), "types": _types(value)}
    links = _feed_links(value, document.url)
    if str(value.get("version", "")).startswith(_FEED):
        details |= {"format": "json feed", "entries": len(links)}
        next_page = value.get("next_url")
        if isinstance(next_page, str) and (url := join(document.url, next_page)):
            links.append(Link(url))
    return Facts(
        title=next((text for key in _TITLES if (text := collapsed(value.get(key), MAX_TITLE))), None),
        description=collapsed(value.get("description"), MAX_DESCRIPTION),
        language=language(value.get("language") or value.get("inLanguage")),
        published=_time(value.get("datePublished")),
        modified=_time(value.get("dateModified")),
        text=collapsed(value.get("articleBody"), 1_000_000),
        links=links,
        details=details,
    )


def _parsed(text: str) -> Any:
    """Returns the value of JSON; None in place of integers with more digits than Python reads."""
    try:
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            raise
        except ValueError:  # an integer is too long
            value = json.loads(text, parse_int=_integer)
            if value is None:  # it is all there is
                raise
            return value
    except json.JSONDecodeError as error:
        raise UnreadableDocument(f"is broken: {error}") from error


def _integer(digits: str) -> int | None:
    try:
        return int(digits)
    except ValueError:
        return None


def _keys(value: object) -> dict[str, Any]:
    return {"keys": list(value)[:SHOWN_KEYS]} if isinstance(value, dict) else {}


def _types(value: dict[str, Any]) -> list[str]:
    """Returns the JSON-LD types of the object, or of the objects in its graph."""
    objects = value["@graph"] if isinstance(value.get("@graph"), list) else [value]
    type_names: dict[str, None] = {}
    for node in objects[:SHOWN_KEYS]:
        types = node.get("@type") if isinstance(node, dict) else None
        for name in types if isinstance(types, list) else [types]:
            if isinstance(name, str):
                type_names[name] = None
    return list(type_names)


def _feed_links(value: dict[str, Any], base: str) -> list[Link]:
    """Returns the links of a JSON feed (https://www.jsonfeed.org/version/1.1/); other JSON does not mark its links."""
    items = value.get("items")
    if not str(value.get("version", "")).startswith(_FEED) or not isinstance(items, list):
        return []
    links: dict[str, Link] = {}
    for item in items:
        if isinstance(item, dict) and (url := _address(item, base)):
            links[url] = Link(url, _time(item.get("date_modified") or item.get("date_published")))
    return list(links.values())


def _address(item: dict[str, Any], base: str) -> str | None:
    """Returns the page of an item; an item about a page of another site may have that alone."""
    addresses = (item.get(name) for name in ("url", "external_url"))
    return next((join(base, address) for address in addresses if address and isinstance(address, str)), None)


def _time(text: object) -> Any:
    return w3c_time(text) if isinstance(text, str) else None
