"""A real WebDAV server for tests: SeaweedFS on loopback."""

from __future__ import annotations

from pathlib import Path

import requests

from tests.ports import free_ports
from tests.s3server import S3Server


class DavServer(S3Server):
    """An S3Server that also speaks WebDAV, at `uri`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (self.dav_port,) = free_ports(1)

    @property
    def uri(self) -> str:
        return f"dav://127.0.0.1:{self.dav_port}"

    def _command(self) -> list[str]:
        options = {"webdav": "true", "webdav.port": self.dav_port, "webdav.cacheDir": self._folder}
        return [*super()._command(), *(f"-{name}={value}" for name, value in options.items())]

    def _answers(self) -> bool:
        try:
            return super()._answers() and requests.options(f"http://127.0.0.1:{self.dav_port}/", timeout=1).ok
        except requests.RequestException:
            return False
