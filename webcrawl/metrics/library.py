"""prometheus_client, which only metrics need."""

from __future__ import annotations

from types import ModuleType

from webcrawl.config.libraries import optional


def prometheus_client() -> ModuleType:
    """Returns prometheus_client; raises LibraryMissing."""
    return optional("metrics", "prometheus-client", "metrics", "prometheus_client")
