"""Objects on a WebDAV server, such as Nextcloud or Apache's mod_dav."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit
from xml.etree import ElementTree

import requests

from webcrawl import NoSuchObject, ObjectStore, StoredObject, StoreError, StoreUnavailable

TIMEOUT = (5, 60)
UNFINISHED = ".new"


class WebDavStore(ObjectStore):
    """Files below dav://server/folder, or with TLS davs://server/folder. User and password are read from ~/.netrc.

    While an object is replaced, readers may find none: most servers delete the old file before they rename the new one.
    """

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        parts = urlsplit(uri.rstrip("/"))
        if not parts.hostname:
            raise StoreError("use dav://server/folder or davs://server/folder")
        self._server = f"{'https' if parts.scheme == 'davs' else 'http'}://{parts.netloc}"
        self._root = unquote(parts.path)
        self._session = requests.Session()

    def put(self, name: str, data: bytes) -> None:
        self._store(name, data)

    def put_file(self, name: str, path: Path, interrupted: Callable[[], bool] = lambda: False) -> None:
        with Upload(path, interrupted) as file:
            self._store(name, file)
        if self.size(name) != path.stat().st_size:
            raise StoreError(f"{self.uri(name)} has not the size of {path}")

    def read(self, name: str, offset: int, length: int) -> bytes:
        wanted = {"Range": f"bytes={offset}-{offset + length - 1}", "Accept-Encoding": "identity"}
        answer = self._request("GET", name, headers=wanted, accept=[416])
        if answer.status_code == 416:  # the object ends before `offset`
            return b""
        return answer.content if answer.status_code == 206 else answer.content[offset : offset + length]

    def size(self, name: str) -> int | None:
        try:
            answer = self._request("HEAD", name, headers={"Accept-Encoding": "identity"})
        except NoSuchObject:
            return None
        return int(answer.headers["Content-Length"])

    def objects(self, prefix: str = "") -> Iterator[StoredObject]:
        folders = [prefix.rpartition("/")[0]]
        while folders:
            for name, size in self._entries(folders.pop()):
                if size is None:
                    folders += [name] if name.startswith(prefix) else []
                elif name.startswith(prefix) and not name.endswith(UNFINISHED):
                    yield StoredObject(name, size)

    def delete(self, name: str) -> None:
        self._request("DELETE", name, accept=[404])

    def _store(self, name: str, data: bytes | Upload) -> None:
        """Upload under another name and rename, so that nobody reads half an object."""
        unfinished = name + UNFINISHED
        if self._request("PUT", unfinished, data=data, accept=[404, 409]).status_code in (404, 409):
            self._make_folders(name)
            if isinstance(data, Upload):
                data.seek(0)
            self._request("PUT", unfinished, data=data)
        self._request("MOVE", unfinished, headers={"Destination": self._url(name), "Overwrite": "T"})

    def _make_folders(self, name: str) -> None:
        folders = f"{self._root}/{name}".strip("/").split("/")[:-1]
        for end in range(1, len(folders) + 1):
            url = self._server + quote("/" + "/".join(folders[:end]))
            self._send("MKCOL", url, self.uri(name), accept=[405])  # 405: it exists

    def _entries(self, folder: str) -> Iterator[tuple[str, int | None]]:
        """The names and sizes of what is in a folder; the size of a folder is None."""
        answer = self._request("PROPFIND", folder, headers={"Depth": "1"}, accept=[404])
        if answer.status_code == 404:
            return
        for found in ElementTree.fromstring(answer.content).iter("{DAV:}response"):
            path = unquote(urlsplit(found.findtext("{DAV:}href", "")).path).rstrip("/")
            name = path.removeprefix(self._root).strip("/")
            if name != folder:
                is_folder = found.find(".//{DAV:}collection") is not None
                yield name, None if is_folder else int(found.findtext(".//{DAV:}getcontentlength", "0"))

    def _url(self, name: str) -> str:
        return self._server + quote(f"{self._root}/{name}")

    def _request(
        self, method: str, name: str, accept: list[int] | None = None, **options: Any
    ) -> requests.Response:
        return self._send(method, self._url(name), self.uri(name), accept or [], **options)

    def _send(self, method: str, url: str, uri: str, accept: list[int], **options: Any) -> requests.Response:
        """The answer to a request; raises StoreError unless its status is 2xx or one of `accept`."""
        try:
            answer = self._session.request(method, url, timeout=TIMEOUT, **options)
        except requests.RequestException as error:
            raise StoreUnavailable(f"{uri}: {error}") from error
        if answer.ok or answer.status_code in accept:
            return answer
        if answer.status_code == 404:
            raise NoSuchObject(f"{uri}: there is no such file")
        kind = StoreUnavailable if answer.status_code >= 500 else StoreError
        raise kind(f"{uri}: {method} was answered with {answer.status_code} {answer.reason}")


class Upload(io.FileIO):
    """A file that is being uploaded; reading it raises StoreError when the upload has to stop."""

    def __init__(self, path: Path, interrupted: Callable[[], bool]) -> None:
        super().__init__(path)
        self._interrupted = interrupted

    def read(self, size: int | None = -1, /) -> bytes:
        if self._interrupted():
            raise StoreError(f"the upload of {self.name} was interrupted")
        return super().read(-1 if size is None else size)
