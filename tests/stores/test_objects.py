"""The behaviour of every object store, tested on a folder, on S3 and on the WebDAV store of the how-to."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from pathlib import Path

import pytest

from tests.davserver import DavServer
from tests.s3server import Line, weed_binary
from webcrawl.errors import NoSuchObject, StoreError, StoreUnavailable
from webcrawl.stores.objects.folder import FolderStore
from webcrawl.stores.objects.store import ObjectStore, open_store

CLASSES = {
    "file": "webcrawl.stores.objects.folder.FolderStore",
    "s3": "webcrawl.stores.objects.s3.S3Store",
    "dav": "examples.stores.webdav.WebDavStore",
}
_NEEDS_WEED = pytest.mark.skipif(weed_binary() is None, reason="no server for this platform")
REMOTE = [pytest.param(scheme, marks=_NEEDS_WEED) for scheme in ("s3", "dav")]
SCHEMES = [*(scheme for scheme in CLASSES if scheme not in ("s3", "dav")), *REMOTE]
NAMES = ["a", "folder/b", "folder/date=2026-02-03/c d.gz", "other/é%20.json"]


@pytest.fixture(scope="module")
def dav(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DavServer]:
    with DavServer(tmp_path_factory.mktemp("dav")) as server:
        yield server


def opened(scheme: str, request: pytest.FixtureRequest) -> ObjectStore:
    """Open a new store for each test."""
    prefix = f"tests/{uuid.uuid4().hex}"
    if scheme == "file":
        uri = (request.getfixturevalue("tmp_path") / prefix).as_uri()
    elif scheme == "s3":
        request.getfixturevalue("line")
        uri = f"s3://pages/{prefix}"
    elif scheme == "dav":
        uri = f"{request.getfixturevalue('dav').uri}/{prefix}"
    else:
        raise ValueError(f"give the URI of a new store of the scheme {scheme!r}")
    return open_store(uri, "STORE_URI", CLASSES)


@pytest.fixture(params=SCHEMES)
def store(request: pytest.FixtureRequest) -> ObjectStore:
    return opened(request.param, request)


def listed(store: ObjectStore, prefix: str = "") -> list[str]:
    return sorted(found.name for found in store.objects(prefix))


def test_an_object_is_read_whole_and_in_ranges(store: ObjectStore) -> None:
    for name in NAMES:
        store.put(name, f"contents of {name}".encode())
    for name in NAMES:
        data = f"contents of {name}".encode()
        assert store.size(name) == len(data)
        assert b"".join(store.chunks(name)) == data
        assert store.read(name, 3, 5) == data[3:8]
        assert store.read(name, 10, 1000) == data[10:], "a read past the end returns fewer bytes"
        assert store.read(name, 1000, 10) == b""
    assert listed(store) == sorted(NAMES)


def test_an_object_may_be_empty(store: ObjectStore, tmp_path: Path) -> None:
    store.put("empty", b"")
    (tmp_path / "file").touch()
    store.put_file("also-empty", tmp_path / "file")
    for name in ("empty", "also-empty"):
        assert store.size(name) == 0
        assert store.read(name, 0, 10) == b""
        assert list(store.chunks(name)) == []


def test_missing_objects_raise_or_are_ignored(store: ObjectStore, tmp_path: Path) -> None:
    assert store.size("folder/none") is None
    with pytest.raises(NoSuchObject, match="folder/none"):
        store.read("folder/none", 0, 1)
    with pytest.raises(NoSuchObject):
        list(store.chunks("folder/none"))
    with pytest.raises(NoSuchObject):
        store.fetch("folder/none", tmp_path)
    store.delete("folder/none")
    store.delete_folder("folder")
    assert listed(store) == listed(store, "folder/") == []


def test_objects_are_listed_by_prefix_with_their_sizes(store: ObjectStore) -> None:
    sizes = {name: number for number, name in enumerate(("a", "b/1", "b/20", "b/21", "b/c/2", "bb/2"))}
    for name, size in sizes.items():
        store.put(name, b"x" * size)
    assert {found.name: found.size for found in store.objects()} == sizes
    assert listed(store, "b") == ["b/1", "b/20", "b/21", "b/c/2", "bb/2"]
    assert listed(store, "b/") == ["b/1", "b/20", "b/21", "b/c/2"]
    assert listed(store, "b/2") == ["b/20", "b/21"]
    assert listed(store, "c") == []


def test_delete_removes_only_the_named_objects(store: ObjectStore) -> None:
    for name in ("a/1", "a/2", "a/b/3", "ab/4", "5"):
        store.put(name, b"x")
    store.delete("a/1")
    assert listed(store) == ["5", "a/2", "a/b/3", "ab/4"]
    store.put("a/1", b"again")
    store.delete_folder("a")
    assert listed(store) == ["5", "ab/4"]


def test_files_are_copied_moved_and_fetched(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webcrawl.stores.objects.store._CHUNK", 1_000_000)
    data = os.urandom(2_500_000)
    (tmp_path / "file").write_bytes(data)
    store.put_file("folder/copied", tmp_path / "file")
    assert (tmp_path / "file").exists()
    with store.workspace() as folder:
        (folder / "new").write_bytes(data)
        store.move_file("folder/moved", folder / "new")
        assert list(folder.iterdir()) == []
        (folder / "forgotten").touch()
        assert listed(store) == ["folder/copied", "folder/moved"]
    assert not folder.exists()
    assert listed(store) == ["folder/copied", "folder/moved"]
    (tmp_path / "fetched").mkdir()
    for name in ("folder/copied", "folder/moved"):
        assert store.fetch(name, tmp_path / "fetched").read_bytes() == data


def put_when_unlocked(store: ObjectStore, name: str, data: bytes) -> None:
    """A WebDAV server keeps a file locked until it has noticed that an upload was interrupted."""
    for _ in range(100):
        try:
            return store.put(name, data)
        except StoreError as error:
            if "423 Locked" not in str(error):
                raise
        time.sleep(0.05)
    raise AssertionError("the file stays locked")


def test_an_interrupted_upload_leaves_the_old_object(store: ObjectStore, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(os.urandom(100_000))
    with pytest.raises(StoreError):
        store.put_file("name", tmp_path / "file", lambda: True)
    assert store.size("name") is None
    put_when_unlocked(store, "name", b"old")
    with pytest.raises(StoreError):
        store.put_file("name", tmp_path / "file", lambda: True)
    assert store.read("name", 0, 100) == b"old"
    assert listed(store) == ["name"]
    if isinstance(store, FolderStore):  # parts of attempts would fill a disk
        assert [path.name for path in store.folder.rglob("*") if path.is_file()] == ["name"]


def test_readers_see_the_old_or_the_new_object_while_it_is_replaced(store: ObjectStore) -> None:
    versions = [letter * 200_000 for letter in (b"a", b"b")]
    store.put("name", versions[0])
    ended = threading.Event()

    def replace() -> None:
        for data in islice(cycle(versions), 20):
            store.put("name", data)
        ended.set()

    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(replace)
        while not ended.is_set() and not writing.done():
            try:
                assert store.read("name", 0, 1_000_000) in versions
            except (NoSuchObject, StoreUnavailable):
                assert store.uri().startswith("dav"), (
                    "WebDAV servers delete the old file before they rename the new one"
                )
        writing.result()


def test_a_store_is_thread_safe(store: ObjectStore) -> None:
    def put_read_and_delete(number: int) -> bytes:
        name, data = f"{number % 5}/{number}", b"%d" % number * 1000
        store.put(name, data)
        found = store.read(name, 0, 1_000_000)
        assert found == data
        store.delete(name)
        return found

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(put_read_and_delete, range(60)))
    assert listed(store) == []


@pytest.mark.parametrize("scheme", REMOTE)
def test_an_unreachable_server_is_a_warning_at_startup(
    scheme: str, dav: DavServer, line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    with Line(dav.dav_port) as dav_line:
        uri = {"s3": "s3://pages/x", "dav": f"dav://127.0.0.1:{dav_line.port}/x"}[scheme]
        store = open_store(uri, "STORE_URI", CLASSES)
        assert caplog.text == ""
        for one in (line, dav_line):
            one.cut()
        open_store(uri, "STORE_URI", CLASSES)
        assert f"STORE_URI {uri}: " in caplog.text
        for work in (
            lambda: store.put("name", b""),
            lambda: store.read("name", 0, 1),
            lambda: store.size("name"),
        ):
            with pytest.raises(StoreUnavailable, match=uri):
                work()
