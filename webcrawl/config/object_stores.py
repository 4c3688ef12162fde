"""The registry of object stores by URI scheme, and the check of URIs of stores."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from webcrawl.config.declared import DEFAULTS
from webcrawl.config.passwords import without_password
from webcrawl.config.records import read
from webcrawl.config.setting import Settings
from webcrawl.errors import ConfigurationError

OBJECT_STORES: Mapping[str, str] = DEFAULTS["OBJECT_STORES"]
"""URI scheme -> path of the ObjectStore class that comes with the project."""

_URIS = {
    "file": (re.compile("file://(localhost)?/"), "file:///folder"),
    "s3": (re.compile("s3://[^/]"), "s3://bucket/prefix"),
}
"""Scheme -> the pattern of its URIs, and an example."""


def object_stores(settings: Settings) -> dict[str, str]:
    """OBJECT_STORES merged with its default: URI scheme -> path of an ObjectStore class."""
    classes = {**OBJECT_STORES, **read(settings, "OBJECT_STORES")}
    return {scheme: path for scheme, path in classes.items() if path}


def check_store_uri(name: str, uri: str, classes: Mapping[str, str]) -> None:
    """Raises ConfigurationError, naming the setting or argument `name`, unless `classes` has a store for this URI."""
    scheme = urlsplit(uri).scheme
    if scheme not in classes:
        known = ", ".join(f"{scheme}://" for scheme in classes)
        raise ConfigurationError(
            f"{name} must begin with one of {known} (see OBJECT_STORES), not {without_password(uri)!r}"
        )
    if scheme in _URIS and not _URIS[scheme][0].match(uri):
        raise ConfigurationError(f"{name} must be {_URIS[scheme][1]}, not {without_password(uri)!r}")
