"""Imports the libraries of extras at their first use."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from webcrawl.errors import ConfigurationError, LibraryMissing

DISTRIBUTION = "scrapy-webcrawl"
_MODULES: Mapping[str, tuple[str, ...]] = {
    "images": ("PIL",),
    "heif": ("PIL", "pillow_heif"),
    "media": ("pymediainfo",),
    "documents": ("olefile", "rarfile"),
    "languages": ("pycld2", "py3langid"),
    "parquet": ("pyarrow",),
    "search": ("tantivy",),
    "lake": ("pyiceberg", "pyarrow"),
    "dashboard": ("starlette", "jinja2", "uvicorn"),
    "service": ("starlette", "uvicorn", "msgspec"),
}
"""Extra -> its modules, for the extras without which a crawl or a command does less."""


def optional(purpose: str, library: str, extra: str, *modules: str) -> ModuleType:
    """Imports modules of a library and returns the first one; raises LibraryMissing, which names its extra."""
    try:
        return [import_module(module) for module in modules][0]
    except ImportError as error:
        raise missing(purpose, library, extra) from error


def missing(purpose: str, library: str, extra: str) -> LibraryMissing:
    """Returns the error that says how to install the library of an extra."""
    return LibraryMissing(purpose, library, install_command([extra]))


@cache
def is_installed(extra: str) -> bool:
    """Returns whether the libraries of an extra are installed; one detector of languages is enough."""
    present = [find_spec(module) is not None for module in _MODULES[extra]]
    return any(present) if extra == "languages" else all(present)


def install_command(extras: Iterable[str]) -> str:
    """Returns the command that installs extras into the environment of this interpreter.

    It names the libraries, because this distribution may come from a checkout or a wheel.
    """
    libraries = sorted({library for extra in extras for library in _requirements(extra)})
    return shlex.join([sys.executable, "-m", "pip", "install", *libraries])


def _requirements(extra: str) -> list[str]:
    from packaging.requirements import Requirement  # takes 0.02 s

    try:
        lines = [Requirement(line) for line in requires(DISTRIBUTION) or ()]
    except PackageNotFoundError:  # the sources without an installation
        return [f"{DISTRIBUTION}[{extra}]"]
    return [
        str(line).partition(";")[0].strip()
        for line in lines
        if line.marker and not line.marker.evaluate({"extra": ""}) and line.marker.evaluate({"extra": extra})
    ]


def named_object(path: str) -> Any:
    """Imports what "package.module.name" or "package.module:name" names.

    Raises ImportError, AttributeError and, for a path without a module, ValueError.
    """
    module, _, name = path.replace(":", ".").rpartition(".")
    return getattr(import_module(module), name)


def object_of_setting(setting: str, path: str) -> Any:
    """Imports what a path in a setting names; raises ConfigurationError, which begins with the setting."""
    try:
        return named_object(path)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(f"{setting}: cannot import {path!r}: {error}") from error


def arrow_library(purpose: str, *modules: str) -> ModuleType:
    """Imports pyarrow and some of its modules for a process that also crawls; raises LibraryMissing.

    pyarrow then takes its memory from the system allocator, unless the variable ARROW_DEFAULT_MEMORY_POOL names another
    pool: the default pool of pyarrow keeps 30 MB more, and takes as long to get them from the kernel as to write
    a file of 100,000 rows.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    return optional(purpose, "pyarrow", "parquet", "pyarrow", *modules)


def prometheus_client() -> ModuleType:
    """Returns prometheus_client; raises LibraryMissing."""
    return optional("the format of Prometheus", "prometheus-client", "metrics", "prometheus_client")


def opentelemetry() -> ModuleType:
    """Returns the exporter of traces, which brings the rest of OpenTelemetry; raises LibraryMissing."""
    library = "opentelemetry-exporter-otlp-proto-http"
    return optional("TRACES", library, "traces", "opentelemetry.exporter.otlp.proto.http.trace_exporter")
