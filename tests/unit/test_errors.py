"""Every exception class belongs to one tree, which the docstring of `webcrawl.errors` draws."""

from __future__ import annotations

import ast
import re
from importlib import import_module

import webcrawl.errors
from tests.crawls import CHECKOUT
from webcrawl.errors import CrawlError, brief

PACKAGES = ("webcrawl", "middlewares", "pipelines", "spiders")
_ENTRY = re.compile(r"^((?:│   |    )*)[├└]── (\w+)(?: +\((\w+)\)| [^\n]*\(also a (\w+)\))?", re.MULTILINE)


def drawing() -> dict[str, tuple[str, ...]]:
    """Maps each drawn exception to the names of its bases."""
    bases: dict[str, tuple[str, ...]] = {}
    path = ["CrawlError"]
    for bars, name, *others in _ENTRY.findall(webcrawl.errors.__doc__ or ""):
        depth = 1 + len(bars) // 4
        path[depth:] = [name]
        bases[name] = (path[depth - 1], *filter(None, others))
    return bases


def exceptions() -> list[type[BaseException]]:
    """Every exception class that a module of the project defines."""
    found = []
    for path in (path for package in PACKAGES for path in sorted((CHECKOUT / package).rglob("*.py"))):
        text = path.read_text()
        nodes = ast.walk(ast.parse(text)) if "class " in text else ()
        classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
        if any(node.bases for node in classes):
            name = ".".join(path.relative_to(CHECKOUT).with_suffix("").parts)
            module = import_module(name.removesuffix(".__init__"))
            kinds = (getattr(module, node.name, None) for node in classes)
            found += [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseException)]
    return found


def test_every_exception_is_in_the_tree_and_in_its_drawing() -> None:
    kinds = exceptions()
    assert all(issubclass(kind, CrawlError) and kind.__doc__ for kind in kinds)
    assert {kind.__module__ for kind in kinds} == {"webcrawl.errors", "webcrawl.crawler.errors"}
    tree = {kind.__name__: tuple(base.__name__ for base in kind.__bases__) for kind in kinds}
    assert tree.pop("CrawlError") == ("Exception",)
    assert drawing() == tree


def test_a_brief_message_is_short_and_printable() -> None:
    assert brief("no é change 中") == "no é change 中"
    assert brief("a\x1b[2J\r\nb\0\x9bc\u202ed\udcff") == "a [2J b c d "
    assert len(brief("x" * 100_000)) == 500
