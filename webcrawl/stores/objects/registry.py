"""Opens the object store that a URI names, by the class that OBJECT_STORES has for its scheme."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from webcrawl.config import OBJECT_STORES, check_store_uri
from webcrawl.config.libraries import object_of_setting
from webcrawl.config.passwords import without_password
from webcrawl.errors import ConfigurationError, StoreError, StoreUnavailable
from webcrawl.stores.objects.store import ObjectStore

logger = logging.getLogger(__name__)


def open_store(
    uri: str, name: str, classes: Mapping[str, str] = OBJECT_STORES, *, check: bool = True
) -> ObjectStore:
    """Returns the store at a URI from the setting or argument `name`; `classes` is OBJECT_STORES.

    Raises ConfigurationError for an unknown scheme, StoreError if the store cannot be used. For a store that cannot be
    reached just now, logs a warning: it may be back before it is needed. `check=False` is for reading.
    """
    check_store_uri(name, uri, classes)
    try:
        store = _class(classes[urlsplit(uri).scheme])(uri)
        try:
            if check:
                store.check()
        except StoreUnavailable as error:
            logger.warning("%s %s: %s; trying again until it answers", name, without_password(uri), error)
    except StoreError as error:
        raise StoreError(f"{name} {without_password(uri)}: {error}") from error
    return store


def location(text: str) -> str:
    """Returns the URI of an argument that is a URI, or the path of a folder or file."""
    return text if not text or urlsplit(text).scheme else Path(text).absolute().as_uri()


def object_location(text: str) -> tuple[str, str]:
    """Returns the URI of the store and the name of the object for an argument, which is a URI or path."""
    parts = urlsplit(text)
    if parts.scheme and parts.scheme != "file":
        store, _, name = text.rpartition("/")
        return store, name
    path = Path(unquote(parts.path) if parts.scheme else text).absolute()
    return path.parent.as_uri(), path.name


def _class(path: str) -> type[ObjectStore]:
    named = object_of_setting("OBJECT_STORES", path)
    if not (isinstance(named, type) and issubclass(named, ObjectStore)):
        raise ConfigurationError(f"OBJECT_STORES: {path!r} is not a subclass of ObjectStore")
    return named
