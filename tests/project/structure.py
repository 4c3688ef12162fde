"""Measures the structure of the code: rooms, levels, import directions, and sizes. `make structure` prints it.

A room is a module or package directly inside `webcrawl`. The layers are those of the import contract in pyproject.toml;
a room's level is the number of its layer, counted from the bottom.
"""

from __future__ import annotations

import ast
import statistics
import tomllib
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

CHECKOUT = Path(__file__).resolve().parents[2]
PACKAGES = ("webcrawl", "spiders", "middlewares", "pipelines", "settings")

MOST_LINES = 300
"""Of a file."""
LONGEST_FUNCTION = 40
"""In lines."""
MOST_METHODS = 20
MOST_ATTRIBUTES = 15

RECORDS = {"TransientFields"}
"""The base of the record `Page`, which is no dataclass itself."""

_LAYERS = "Each room of webcrawl stands on those below it"


@dataclass(frozen=True)
class Size:
    """The size of a file, function or class. `attributes` counts names set on `self` or declared."""

    name: str
    lines: int
    methods: int = 0
    attributes: int = 0
    is_record: bool = False
    """A dataclass whose methods set nothing: its fields are its purpose."""


def sources() -> list[Path]:
    """Every Python file of the shipped packages."""
    return sorted(path for package in PACKAGES for path in (CHECKOUT / package).rglob("*.py"))


def files() -> list[Size]:
    """The lines of each file."""
    return [Size(str(path.relative_to(CHECKOUT)), len(path.read_text().splitlines())) for path in sources()]


def functions() -> list[Size]:
    """The lines of each function, decorators left out."""
    return _parts()[0]


def classes() -> list[Size]:
    """The methods and attributes of each class, inherited ones left out."""
    return _parts()[1]


def large_classes() -> list[Size]:
    """The classes over a limit; a record may have any number of attributes."""
    return [
        one
        for one in classes()
        if one.methods > MOST_METHODS or (one.attributes > MOST_ATTRIBUTES and not one.is_record)
    ]


def layers() -> list[list[str]]:
    """The rooms of each layer, the lowest layer first, as the import contract lists them."""
    tool = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (contract,) = (one for one in tool["contracts"] if one["name"] == _LAYERS)
    return [layer.split(" | ") for layer in reversed(contract["layers"])]


def edges() -> dict[str, set[str]]:
    """The rooms that each room imports."""
    graph = grimp.build_graph("webcrawl", cache_dir=None)
    found: dict[str, set[str]] = {room: set() for layer in layers() for room in layer}
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            here, there = _room(module), _room(imported)
            if here and there and here != there:
                found[here].add(there)
    return found


def upward(imports: dict[str, set[str]]) -> list[tuple[str, str]]:
    """The imports of a room by one on its own layer or below."""
    level = {room: number for number, layer in enumerate(layers()) for room in layer}
    return [(here, there) for here in imports for there in imports[here] if level[there] >= level[here]]


def cycle(imports: dict[str, set[str]]) -> list[str]:
    """The rooms of one import cycle; empty when there is none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@cache
def _parts() -> tuple[list[Size], list[Size]]:
    """The functions and classes of all files, which are parsed once."""
    functions, classes = [], []
    for path in sources():
        name = str(path.relative_to(CHECKOUT))
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                functions.append(Size(f"{name}:{node.name}", _length(node)))
            elif isinstance(node, ast.ClassDef):
                classes.append(_class(name, node))
    return functions, classes


def _length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _class(name: str, node: ast.ClassDef) -> Size:
    methods = [one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    fields = {
        one.target.id
        for one in node.body
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
    }
    assigned = {
        one.attr
        for one in ast.walk(node)
        if isinstance(one, ast.Attribute)
        and isinstance(one.value, ast.Name)
        and one.value.id == "self"
        and isinstance(one.ctx, ast.Store)
    }
    decorated = any("dataclass" in ast.unparse(one) for one in node.decorator_list)
    is_record = node.name in RECORDS or (decorated and assigned <= fields)
    return Size(f"{name}:{node.name}", 0, len(methods), len(fields | assigned), is_record)


def _room(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def _docstring(room: str) -> str:
    package = CHECKOUT / "webcrawl" / room / "__init__.py"
    path = package if package.exists() else CHECKOUT / "webcrawl" / f"{room}.py"
    return (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n")[0]


def _summary(sizes: list[Size], limit: int) -> str:
    lines = sorted(size.lines for size in sizes)
    p90 = lines[len(lines) * 9 // 10]
    over = sum(number > limit for number in lines)
    return f"{len(lines)}, lines median {statistics.median(lines):g}, p90 {p90}, max {lines[-1]}, over {limit}: {over}"


def main() -> None:
    """Print the figures."""
    imports = edges()
    for number, layer in reversed(list(enumerate(layers(), 1))):
        for room in layer:
            print(f"{number}  {room:<11} {_docstring(room)}")
    print(
        f"rooms: {len(imports)}, levels: {len(layers())}, edges: {sum(map(len, imports.values()))},",
        f"upward: {len(upward(imports))}, in a cycle: {len(cycle(imports))}",
    )
    print("files:", _summary(files(), MOST_LINES))
    print("functions:", _summary(functions(), LONGEST_FUNCTION))
    large = large_classes()
    print(
        f"classes: {len(classes())}, over {MOST_METHODS} methods or {MOST_ATTRIBUTES} attributes: {len(large)}"
    )
    for one in large:
        print(f"  {one.name}: {one.methods} methods, {one.attributes} attributes")


if __name__ == "__main__":
    main()
