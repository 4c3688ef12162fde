"""Imports Starlette, Jinja2 and uvicorn, which only the dashboard needs."""

from __future__ import annotations

from webcrawl.config.libraries import optional

_EXTRA = "dashboard"


def check_libraries() -> None:
    """Imports the libraries of the dashboard; raises LibraryMissing."""
    optional(_EXTRA, "starlette", _EXTRA, "starlette.applications")
    optional(_EXTRA, "jinja2", _EXTRA, "jinja2")
    optional(_EXTRA, "uvicorn", _EXTRA, "uvicorn")
