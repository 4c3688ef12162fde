"""The manifest of an export: an object that names its files, and is stored last."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import Any

from webcrawl.errors import NoSuchObject, StoreError
from webcrawl.stores.objects.store import ObjectStore

MANIFEST = "_export.json"


def read_manifest(store: ObjectStore) -> dict[str, Any] | None:
    """The manifest of the export in a store, or None; raises StoreError when it was not written by `export`."""
    try:
        data = b"".join(store.chunks(MANIFEST))
    except NoSuchObject:
        return None
    try:
        manifest = json.loads(data)
        names = [PurePosixPath(file["name"]) for file in manifest["files"]]
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(f"{store.uri(MANIFEST)} is not the manifest of an export: {error}") from error
    # these are deleted when the export is replaced
    if any(name.is_absolute() or ".." in name.parts for name in names):
        raise StoreError(f"{store.uri(MANIFEST)} names files outside of the export")
    return dict(manifest)


def write_manifest(store: ObjectStore, manifest: dict[str, Any]) -> None:
    store.put(MANIFEST, json.dumps(manifest, indent=1).encode())
