"""Puts declarative shadow roots into their hosts, so that all readers of a tree see the page that a browser shows.

`<template shadowrootmode>` is the shadow root of its parent (HTML standard, 13.2.6.4.4). A browser shows the content of
the root, in which each slot has the children of the host that are assigned to it (CSS Scoping, "flat tree").
"""

from __future__ import annotations

from collections.abc import Iterator

from selectolax.lexbor import LexborHTMLParser, LexborNode

MAX_SHADOW_ROOTS = 5_000
"""The most shadow roots of a page; further ones stay templates, which are no part of the page."""
MAX_NESTED_ROOTS = 32
"""The most shadow roots around an element."""
MAX_HOST_DEPTH = 512
"""The most elements around a host, as in `webcrawl.documents.markup_bounds`."""

_MODE = "shadowrootmode"
_MARK = _MODE.encode()
_ROOTS = f"template[{_MODE}]"
_MODES = frozenset({"open", "closed"})
_HOSTS = frozenset(
    ["article", "aside", "blockquote", "body", "div", "footer", "h1", "h2", "h3", "h4", "h5", "h6"]
    + ["header", "main", "nav", "p", "section", "span"]
)
# Names with a hyphen that are no custom elements.
_RESERVED = frozenset(
    ["annotation-xml", "color-profile", "font-face", "font-face-src", "font-face-uri", "font-face-format"]
    + ["font-face-name", "missing-glyph"]
)
# Its content is no text of the page, but its links and images count, as those of elements that are not shown.
_NOT_SHOWN = "noscript"


def may_have_roots(markup: bytes) -> bool:
    """Returns whether the tree of a page may have shadow roots; takes half of the time of a search through the tree."""
    return _MARK in markup.lower()


def compose(tree: LexborHTMLParser) -> None:
    """Replaces the shadow roots of a tree by what a browser shows.

    What a browser does not show, the fallback of a filled slot and children that no slot takes, is put into a
    <noscript> in the host.
    """
    if tree.root is not None:
        _Composer().compose(tree.root, 0)


class _Composer:
    def __init__(self) -> None:
        self._left = MAX_SHADOW_ROOTS

    def compose(self, scope: LexborNode, level: int) -> None:
        """Composes the roots in a page or in the content of a root, the inner roots of each first.

        Inner roots come first because the slots of an outer root may be children of an inner host.
        """
        for template, host in list(_roots(scope)):
            if not self._left or _is_deep(host):
                continue
            self._left -= 1
            content = template.template_fragments()[0]
            if level + 1 < MAX_NESTED_ROOTS:
                self.compose(content, level + 1)
            _attach(host, template, content)


def _roots(scope: LexborNode) -> Iterator[tuple[LexborNode, LexborNode]]:
    """Yields the templates that are shadow roots, and their hosts. Only the first root of a host counts."""
    hosts = set()
    for template in scope.css(_ROOTS):
        host = template.parent
        mode = (template.attributes.get(_MODE) or "").lower()
        if host is not None and mode in _MODES and _may_be_host(host.tag or "") and host.mem_id not in hosts:
            hosts.add(host.mem_id)
            yield template, host


def _may_be_host(name: str) -> bool:
    return name in _HOSTS or "-" in name and name not in _RESERVED


def _is_deep(host: LexborNode) -> bool:
    around: LexborNode | None = host
    for _ in range(MAX_HOST_DEPTH):
        if around is None:
            return False
        around = around.parent
    return True


def _attach(host: LexborNode, template: LexborNode, content: LexborNode) -> None:
    """Replaces the children of a host, of which the template is one, by the content with filled slots."""
    slots = content.css("slot")
    by_name: dict[str, LexborNode] = {}
    for slot in slots:
        by_name.setdefault(slot.attributes.get("name") or "", slot)
    hidden, filled = host.parser.create_node(_NOT_SHOWN), set()
    for child in _children(host):
        if child.mem_id == template.mem_id:
            continue
        name = child.attributes.get("slot") if child.is_element_node else None
        if target := by_name.get(name or ""):
            target.insert_before(child, move=True)
            filled.add(target.mem_id)
        else:
            hidden.insert_child(child, move=True)
    for slot in slots:
        for child in _children(slot):
            if slot.mem_id in filled:
                hidden.insert_child(child, move=True)
            else:
                slot.insert_before(child, move=True)
        slot.decompose()
    for child in _children(content):
        template.insert_before(child, move=True)
    template.decompose()
    if hidden.first_child is not None:
        host.insert_child(hidden, move=True)


def _children(node: LexborNode) -> Iterator[LexborNode]:
    """Yields the children of a node, each of which may be moved meanwhile."""
    child = node.first_child
    while child is not None:
        following = child.next
        yield child
        child = following
