"""Object stores by URI scheme, and errors for invalid URIs and classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings

from examples.stores.webdav import WebDavStore
from tests.cases import cases
from webcrawl.config import OBJECT_STORES, StoreConfig, object_stores
from webcrawl.errors import ConfigurationError, NoSuchObject, StoreError
from webcrawl.stores.objects.folder import FolderStore
from webcrawl.stores.objects.store import location, object_location, open_store


def test_object_stores_setting_extends_the_defaults() -> None:
    assert object_stores(Settings()) == OBJECT_STORES
    changed = Settings({"OBJECT_STORES": {"dav": "my.Store", "s3": None}})
    assert object_stores(changed) == {"file": OBJECT_STORES["file"], "dav": "my.Store"}


def test_store_uri_accepts_only_registered_schemes() -> None:
    settings: dict[str, Any] = {"STORE_URI": "dav://server/pages"}
    known = {"OBJECT_STORES": {"dav": "my.Store"}}
    assert StoreConfig.from_settings(Settings(settings | known)).pages == "dav://server/pages"
    with pytest.raises(ConfigurationError) as raised:
        StoreConfig.from_settings(Settings(settings))
    for word in ("STORE_URI", "dav://server/pages", "file://", "s3://", "OBJECT_STORES"):
        assert word in str(raised.value)


@cases(
    "path",
    [
        "webcrawl.nowhere.Store",
        "webcrawl.documents.page.Nothing",
        "webcrawl.documents.page.Page",
        "Store",
        "",
    ],
)
def test_invalid_store_class_is_named_in_the_error(path: str) -> None:
    with pytest.raises(ConfigurationError, match=f"OBJECT_STORES: .*{path}"):
        open_store("x://server/", "STORE_URI", {"x": path})


def test_folder_can_be_given_as_path_or_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "a folder"
    for text in ("a folder", str(folder), folder.as_uri()):
        store = open_store(location(text), "--output")
        assert isinstance(store, FolderStore)
        assert store.folder == folder
        assert store.uri("name") == f"{folder}/name"
    assert not folder.exists(), "the folder is created with its first object"


@pytest.mark.parametrize("text", ["a file.wacz", "sub/a file.wacz"])
def test_object_can_be_given_as_path_or_uri(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / text
    expected = path.parent.as_uri(), "a file.wacz"
    assert object_location(text) == object_location(str(path)) == object_location(path.as_uri()) == expected
    assert object_location("s3://bucket/prefix/x.wacz") == ("s3://bucket/prefix", "x.wacz")


def test_unwritable_folder_is_rejected_on_open(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="STORE_URI .*/file/below: .*/file is not a folder"):
        open_store((tmp_path / "file" / "below").as_uri(), "STORE_URI")
    open_store((tmp_path / "file" / "below").as_uri(), "STORE_URI", check=False)


def test_unfinished_file_is_not_listed(tmp_path: Path) -> None:
    store = FolderStore(tmp_path.as_uri())
    store.put("a/name", b"data")
    (tmp_path / "a" / "other.new").touch()
    assert [found.name for found in store.objects()] == ["a/name"]
    (tmp_path / "a" / "name.new").touch()
    store.delete("a/name")
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "other.new"]
    (tmp_path / "a" / "other.new").unlink()
    store.put("a/name", b"data")
    store.delete("a/name")
    assert list(tmp_path.iterdir()) == [], "an empty folder is removed"
    store.put("a/name", b"and made again")


@pytest.mark.parametrize("name", ["../secret", "a/../../secret", "{folder}/secret", "a\0"])
def test_a_name_does_not_lead_out_of_the_folder(name: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    store, name = FolderStore((tmp_path / "store" / "a").as_uri()), name.format(folder=tmp_path)
    (tmp_path / "store" / "a").mkdir(parents=True)
    assert store.size(name) is None
    for use in (
        lambda: store.read(name, 0, 6),
        lambda: store.fetch(name, tmp_path),
        lambda: store.put(name, b""),
        lambda: store.delete(name),
    ):
        with pytest.raises(NoSuchObject, match="is no name of an object in"):
            use()
    assert (tmp_path / "secret").read_text() == "secret"


def test_errors_about_a_store_have_no_password() -> None:
    with pytest.raises(StoreError) as raised:
        open_store("s3://name:hidden@bucket/a?token=hidden", "STORE_URI")
    assert "s3://...@bucket" in str(raised.value)
    assert "hidden" not in str(raised.value)
    assert WebDavStore("dav://name:hidden@host/a").uri("b") == "dav://...@host/a/b"
    assert FolderStore("file:///a/b@c").uri("d") == "/a/b@c/d"
