"""Runs the commands that a page of the documentation shows, in their order, as a reader types them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

_BLOCK = re.compile(r"^(?:([^\n]*)\n\n)?```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"`([\w/]+\.py)`[^`]*:$")
_COMMENT = re.compile(r" +# .*$")
_SECONDS = 600.0
_STOP_SECONDS = 60.0


@dataclass(frozen=True)
class ShownBlock:
    """A block of code. `file` is the path that the line above it names; `start` and `end` are offsets in the page."""

    language: str
    code: str
    file: str | None
    start: int
    end: int

    @property
    def commands(self) -> list[str]:
        """The commands of a block `sh`, without the comments behind them."""
        return [_COMMENT.sub("", line) for line in self.code.splitlines()] if self.language == "sh" else []


def shown_blocks(page: str) -> list[ShownBlock]:
    """Returns the blocks of a page in their order."""
    shown = []
    for match in _BLOCK.finditer(page):
        named = _FILE.search(match[1] or "") if match[2] == "python" else None
        shown.append(ShownBlock(match[2], match[3], named and named[1], match.start(3), match.end(3)))
    return shown


@dataclass(frozen=True)
class Done:
    """The outcome of a command. `status` is None if it was still running as a server, and was ended."""

    command: str
    status: int | None
    output: str
    seconds: float

    @property
    def failed(self) -> bool:
        return bool(self.status)


class Shell:
    """A shell that keeps its folder and its environment from one command to the next.

    A command that ends with "&" runs until the shell is closed. The shell goes on when `listens()` is true.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str], notes: Path) -> None:
        self.folder = folder
        self._environment = dict(environment)
        self._notes = notes
        self._servers: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self._servers:
            _end(server)

    def write(self, file: str, code: str) -> None:
        """Adds code to the end of a file, which may be new."""
        path = self.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as opened:
            opened.write(code)

    def run(self, command: str) -> Done:
        """Runs a command to its end."""
        cwd, env = self._notes / "folder", self._notes / "environment"
        keep = f'{command}\n__status=$?\npwd -P > "{cwd}"; env -0 > "{env}"; exit $__status'
        start, output = time.monotonic(), self._notes / "output"
        process = self._popen(keep, output)
        try:
            status = process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            _end(process)
            status = -1
        seconds = time.monotonic() - start
        if cwd.exists() and env.exists():
            self.folder = Path(cwd.read_text().rstrip("\n"))
            pairs = env.read_bytes().decode().split("\0")
            self._environment = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
        return Done(command, status, output.read_text(errors="replace"), seconds)

    def serve(self, command: str, listens: Callable[[str], bool]) -> Done:
        """Starts a command, and returns when `listens` is true of its output, or when it has exited."""
        start, output = time.monotonic(), self._notes / f"server{len(self._servers)}"
        server = self._popen(f"exec {command.rstrip(' &')}", output)
        self._servers.append(server)
        while server.poll() is None and not listens(output.read_text(errors="replace")):
            if time.monotonic() - start > _SECONDS:
                _end(server)
            time.sleep(0.05)
        return Done(command, server.poll(), output.read_text(errors="replace"), time.monotonic() - start)

    def _popen(self, command: str, output: Path) -> subprocess.Popen[bytes]:
        with output.open("wb") as written:
            return subprocess.Popen(
                ["bash", "-c", command],
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )


def _end(process: subprocess.Popen[bytes]) -> None:
    """Stops a command with all that it has started in its session."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, number)
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                continue
