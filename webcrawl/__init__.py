"""A polite, durable web crawler on Scrapy, for one machine or a thousand.

Programs, spiders and components import the public names from here. `__init__.pyi` lists them, for Python as for type
checkers, and docs/stability.md says what they promise. Modules below may change in any version.
"""

from functools import cache
from importlib import import_module


@cache
def _homes() -> dict[str, tuple[str, str]]:
    """Public name -> its module, and its name there."""
    # imported here because each process of a crawl imports this package, and some need no more
    import ast
    from importlib import resources

    stub = (resources.files(__name__) / "__init__.pyi").read_text()
    return {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in ast.parse(stub).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def __getattr__(name: str) -> object:
    # imported when it is first used, because some modules take long to import
    if name == "__all__":
        return sorted(name for name in _homes() if name != "__version__")
    if name not in _homes():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, there = _homes()[name]
    return getattr(import_module(module), there)


def __dir__() -> list[str]:
    return sorted({*globals(), *_homes(), "__all__"})
