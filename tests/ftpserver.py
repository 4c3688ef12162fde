"""FTP servers for tests: a real vsftpd that serves a folder, and one with scripted answers."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

VSFTPD = shutil.which("vsftpd") or shutil.which("vsftpd", path="/usr/sbin")

_CONFIG = """
listen=YES
background=NO
run_as_launching_user=YES
anonymous_enable=YES
local_enable=NO
write_enable=NO
pasv_enable=YES
seccomp_sandbox=NO
xferlog_enable=YES
log_ftp_protocol=YES
dual_log_enable=YES
ls_recurse_enable=NO
"""


@contextmanager
def vsftpd(folder: Path, root: Path, address: str = "127.0.0.1", **options: object) -> Iterator[int]:
    """Serve `root` anonymously; yields the port. `folder/commands` logs every command."""
    if VSFTPD is None:
        pytest.skip("needs vsftpd, the server of FTP (on Debian and Ubuntu: apt install vsftpd)")
    with socket.create_server((address, 0)) as free:
        port = free.getsockname()[1]
    lines = {
        "listen_address": address,
        "listen_port": port,
        "anon_root": root,
        "secure_chroot_dir": root,
        "vsftpd_log_file": folder / "commands",
        "xferlog_file": folder / "transfers",
        **options,
    }
    config = folder / "vsftpd.conf"
    config.write_text(_CONFIG.lstrip() + "".join(f"{name}={value}\n" for name, value in lines.items()))
    process = subprocess.Popen([VSFTPD, str(config)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        _wait(address, port, process)
        yield port
    finally:
        process.kill()
        process.communicate(timeout=60)


def _wait(address: str, port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection((address, port), 1).close()
            return
        except OSError:
            output = process.stdout.read() if process.poll() is not None and process.stdout else b""
            assert process.poll() is None and time.monotonic() < deadline, f"vsftpd did not start: {output!r}"
            time.sleep(0.02)


@dataclass
class Script:
    """A server with scripted answers: by full command line, or by its first word; other commands get a 502.

    A data connection sends `data`, then ends, or `hangs`. In `answers`, "{port}" and "{pasv}" stand for the address of
    the data connection. `said` lists the commands received; `data_connections` counts connections to the data port.
    """

    answers: dict[str, str]
    data: bytes = b""
    greeting: bytes = b"220 hello\r\n"
    said: list[str] = field(default_factory=list)
    data_connections: int = 0
    hangs: bool = False
    port: int = 0

    def url(self, path: str = "/") -> str:
        return f"ftp://127.0.0.1:{self.port}{path}"

    async def __aenter__(self) -> Self:
        self._control = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._data = await asyncio.start_server(self._send, "127.0.0.1", 0)
        self.port = self._control.sockets[0].getsockname()[1]
        self._data_port = self._data.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._control.close()
        self._data.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        place = "{},{}".format(*divmod(self._data_port, 256))
        answers = {"USER": "230 in", "TYPE": "200 ok", **self.answers}
        try:
            writer.write(self.greeting)
            while line := await reader.readline():
                self.said.append(line.decode("latin-1").rstrip("\r\n"))
                answer = answers.get(self.said[-1].partition(" ")[0], "502 no")
                answer = answers.get(self.said[-1], answer)
                answer = answer.replace("{port}", str(self._data_port)).replace("{pasv}", place)
                writer.write(answer.encode() + b"\r\n")
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _send(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.data_connections += 1
        writer.write(self.data)
        if self.hangs:
            await reader.read()
        writer.close()
