"""Measures the structure of the code: rooms, levels, import directions, sizes, and names. `make structure` prints it.

A room is a module or package directly inside `webcrawl`. The layers are those of the import contract in pyproject.toml;
a room's level is the number of its layer, counted from the bottom. Sizes are figures to look at: `make structure` lists
what is over a bound, and nothing fails because of it.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import gc
import re
import statistics
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

CHECKOUT = Path(__file__).resolve().parents[2]
PACKAGES = ("webcrawl", "spiders", "middlewares", "pipelines", "settings")

LONG_FILE = 400
"""In lines."""
LONG_FUNCTION = 60
"""In lines."""
MANY_METHODS = 20
MANY_ATTRIBUTES = 15
FRAGMENT = 100
"""A file of at most so many lines whose only importer is in its own folder may belong into it."""

FILLERS = frozenset({"one", "ones", "found", "place", "places", "told", "thing", "things", "stuff"})
"""Parts of names that do not say what is named."""
MOST_FILLERS = 40

_LAYERS = "Each room of webcrawl stands on those below it"
_PART = re.compile("[A-Z]?[a-z]+")


@dataclass(frozen=True)
class Size:
    """The size of a file, function or class.

    `attributes` counts names that are set on `self` or declared, and cached properties.
    """

    name: str
    lines: int
    methods: int = 0
    attributes: int = 0
    is_frozen: bool = False
    """A frozen dataclass: its fields are its purpose."""


def sources() -> list[Path]:
    """Every Python file of the shipped packages."""
    return sorted(path for package in PACKAGES for path in (CHECKOUT / package).rglob("*.py"))


@cache
def trees() -> dict[str, ast.Module]:
    """The syntax tree of each source, by its path in the checkout."""
    # millions of nodes, which stay: collections would take two thirds of the time
    gc.disable()
    try:
        return {str(path.relative_to(CHECKOUT)): ast.parse(path.read_text()) for path in sources()}
    finally:
        gc.freeze()
        gc.enable()


def files() -> list[Size]:
    """The lines of each file."""
    return [Size(str(path.relative_to(CHECKOUT)), len(path.read_text().splitlines())) for path in sources()]


def functions() -> list[Size]:
    """The lines of each function, decorators left out."""
    return [
        Size(f"{path}:{node.name}", (node.end_lineno or node.lineno) - node.lineno + 1)
        for path, node in _nodes()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def classes() -> list[Size]:
    """The methods and attributes of each class, inherited ones left out."""
    return [_class(path, node) for path, node in _nodes() if isinstance(node, ast.ClassDef)]


def large_classes() -> list[Size]:
    """The classes over a bound; a frozen dataclass may have any number of fields."""
    return [
        size
        for size in classes()
        if size.methods > MANY_METHODS or (size.attributes > MANY_ATTRIBUTES and not size.is_frozen)
    ]


def reaches() -> Counter[str]:
    """How often each file touches a private attribute of another object than `self` or `cls`, or of its own class."""
    counts: Counter[str] = Counter()
    for path, tree in trees().items():
        own = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.endswith("__"):
                holder = node.value.id if isinstance(node.value, ast.Name) else ""
                if holder not in own | {"self", "cls"} and not ast.unparse(node.value).startswith("super("):
                    counts[path] += 1
    return counts


def free_functions_on_privates() -> list[str]:
    """The functions of a module that touch a private part of one of their parameters."""
    functions = []
    for path, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = {
                    argument.arg
                    for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                }
                if any(
                    isinstance(part, ast.Attribute)
                    and part.attr.startswith("_")
                    and not part.attr.endswith("__")
                    and isinstance(part.value, ast.Name)
                    and part.value.id in given
                    for part in ast.walk(node)
                ):
                    functions.append(f"{path}:{node.name}")
    return functions


def fragments() -> dict[str, str]:
    """The small files whose only importer is in their own folder, with that importer."""
    graph = grimp.build_graph("webcrawl", cache_dir=None)
    lines = {size.name: size.lines for size in files()}
    small = {}
    for module in graph.modules:
        path = module.replace(".", "/") + ".py"
        importers = graph.find_modules_that_directly_import(module)
        if len(importers) == 1 and lines.get(path, FRAGMENT + 1) <= FRAGMENT:
            (importer,) = importers
            if importer.rpartition(".")[0] == module.rpartition(".")[0]:
                small[path] = importer.replace(".", "/") + ".py"
    return small


def names() -> Iterator[tuple[str, int, str]]:
    """Every identifier that the code binds or uses: path, line, name."""
    for path, node in _nodes():
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield path, node.lineno, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield path, node.lineno, name
            case ast.keyword(arg=str(name)) | ast.alias(asname=str(name)):
                yield path, node.lineno, name
    for path in trees():
        yield path, 0, Path(path).stem


def fillers(under: str = "webcrawl") -> list[tuple[str, int, str]]:
    """The identifiers under a path that have a part of `FILLERS`, Python's own left out: path, line, name."""
    return [
        (path, line, name)
        for path, line, name in names()
        if path.startswith(under) and _is_filled(name) and not hasattr(builtins, name)
    ]


@cache
def _is_filled(name: str) -> bool:
    return not FILLERS.isdisjoint(part.lower() for part in _PART.findall(name))


def shared_class_names() -> dict[str, list[str]]:
    """The public class names that more than one class of `webcrawl` has, and their files."""
    homes: dict[str, list[str]] = defaultdict(list)
    for path, node in _nodes():
        # Scrapy requires that each module of a command has a class `Command`
        if isinstance(node, ast.ClassDef) and path.startswith("webcrawl/") and node.name != "Command":
            homes[node.name].append(path)
    return {
        name: paths for name, paths in sorted(homes.items()) if len(paths) > 1 and not name.startswith("_")
    }


def layers() -> list[list[str]]:
    """The rooms of each layer, the lowest layer first, as the import contract lists them."""
    tool = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (contract,) = (contract for contract in tool["contracts"] if contract["name"] == _LAYERS)
    return [layer.split(" | ") for layer in reversed(contract["layers"])]


def edges() -> dict[str, set[str]]:
    """The rooms that each room imports."""
    graph = grimp.build_graph("webcrawl", cache_dir=None)
    imports: dict[str, set[str]] = {room: set() for layer in layers() for room in layer}
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            here, there = _room(module), _room(imported)
            if here and there and here != there:
                imports[here].add(there)
    return imports


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


def _nodes() -> Iterator[tuple[str, ast.AST]]:
    for path, tree in trees().items():
        for node in ast.walk(tree):
            yield path, node


def _class(path: str, node: ast.ClassDef) -> Size:
    methods = [part for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]
    cached = {
        method.name for method in methods if "cached_property" in map(ast.unparse, method.decorator_list)
    }
    declared = {
        part.target.id
        for part in node.body
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
    }
    assigned = {
        part.attr
        for part in ast.walk(node)
        if isinstance(part, ast.Attribute)
        and isinstance(part.value, ast.Name)
        and part.value.id == "self"
        and isinstance(part.ctx, ast.Store)
    }
    is_frozen = any("frozen=True" in ast.unparse(decorator) for decorator in node.decorator_list)
    return Size(f"{path}:{node.name}", 0, len(methods), len(declared | assigned | cached), is_frozen)


def _room(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def _docstring(room: str) -> str:
    package = CHECKOUT / "webcrawl" / room / "__init__.py"
    path = package if package.exists() else CHECKOUT / "webcrawl" / f"{room}.py"
    return (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n")[0]


def _summary(sizes: list[Size], bound: int) -> str:
    lines = sorted(size.lines for size in sizes)
    p90 = lines[len(lines) * 9 // 10]
    over = sum(number > bound for number in lines)
    return f"{len(lines)}, lines median {statistics.median(lines):g}, p90 {p90}, max {lines[-1]}, over {bound}: {over}"


def _print_rooms() -> None:
    imports = edges()
    for number, layer in reversed(list(enumerate(layers(), 1))):
        for room in layer:
            print(f"{number}  {room:<11} {_docstring(room)}")
    print(
        f"rooms: {len(imports)}, levels: {len(layers())}, edges: {sum(map(len, imports.values()))},",
        f"upward: {len(upward(imports))}, in a cycle: {len(cycle(imports))}",
    )


def _print_sizes() -> None:
    print("files:", _summary(files(), LONG_FILE), f"in all {sum(size.lines for size in files()):,}")
    print("functions:", _summary(functions(), LONG_FUNCTION))
    long = [size for size in files() if size.lines > LONG_FILE]
    long += [size for size in functions() if size.lines > LONG_FUNCTION]
    for size in long:
        print(f"  warning: {size.name}: {size.lines} lines")
    large = large_classes()
    print(
        f"classes: {len(classes())}, over {MANY_METHODS} methods or {MANY_ATTRIBUTES} attributes: {len(large)}"
    )
    for size in large:
        print(f"  warning: {size.name}: {size.methods} methods, {size.attributes} attributes")
    print("uses of a private part of another object:", sum(reaches().values()))
    print("functions on privates of a parameter:", len(free_functions_on_privates()))
    print(f"files of at most {FRAGMENT} lines with one importer, in their folder: {len(fragments())}")


def _print_names() -> None:
    counts = Counter(
        part.lower() for _, _, name in fillers() for part in _PART.findall(name) if part.lower() in FILLERS
    )
    print(f"names that say nothing: {sum(counts.values())} of {sum(1 for _ in names()):,}:", dict(counts))
    print("class names that stand for several classes:", len(shared_class_names()))


def main() -> None:
    """Print the figures, or what stands behind them in one folder."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", help="list the names, privates and small files of this folder")
    folder = parser.parse_args().folder
    if not folder:
        _print_rooms()
        _print_sizes()
        _print_names()
        return
    for path, line, name in sorted(fillers(folder)):
        print(f"{path}:{line}: {name}")
    for name, paths in shared_class_names().items():
        if any(path.startswith(folder) for path in paths):
            print(f"class {name}: {', '.join(paths)}")
    for name in free_functions_on_privates():
        if name.startswith(folder):
            print(f"{name} uses privates of a parameter")
    for path, importer in sorted(fragments().items()):
        if path.startswith(folder):
            print(f"{path} is imported by {importer} alone")


if __name__ == "__main__":
    main()
