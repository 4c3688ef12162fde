"""The folder of an embedded server: its locked files, its socket, and commands to it.

Each keeper imports this, so it imports little: a keeper starts in 0.03 s of processor time.
"""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

from webcrawl.errors import EngineUnavailable

REPLY_SECONDS = 5.0
GAVE_UP = 1
"""The exit status of a keeper whose server kept dying."""
TEMPORARY = "temporary"
"""Name of a file in DATA_DIR/engine: the keeper deletes DATA_DIR after the last use."""
_SOCKET_PATH_LIMIT = 103
_OWN = 0o600


def open_lock(path: Path) -> int:
    """Opens a file for locking, and creates it if missing; only the owner may open it, and so lock it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, _OWN)
    if stat.S_IMODE(os.fstat(descriptor).st_mode) != _OWN:  # made by an earlier version
        os.fchmod(descriptor, _OWN)
    return descriptor


def socket_path(folder: Path) -> Path:
    """Returns the path of the server's unix socket.

    The path of a socket is limited to 107 bytes, 103 on some systems. For a deep folder the socket is in a private
    folder under the system's temporary one, named by a hash of the engine's folder.
    """
    path = folder / "valkey.sock"
    if len(os.fsencode(path)) <= _SOCKET_PATH_LIMIT:
        return path
    import hashlib
    import tempfile

    private = Path(tempfile.gettempdir()) / f"webcrawl-{os.getuid()}"
    private.mkdir(mode=0o700, exist_ok=True)
    if private.stat().st_uid != os.getuid():
        raise EngineUnavailable(f"{private} belongs to another user; set TMPDIR or use a shorter DATA_DIR")
    path = private / f"{hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]}.sock"
    if len(os.fsencode(path)) > _SOCKET_PATH_LIMIT:
        raise EngineUnavailable(
            f"{path} is too long for a socket; set TMPDIR or DATA_DIR to a shorter folder"
        )
    return path


def command(path: Path, line: bytes) -> bytes:
    """Sends one inline command to a server; returns b"" if no server answers."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(REPLY_SECONDS)
        try:
            connection.connect(str(path))
            connection.sendall(line + b"\r\n")
            return connection.recv(4096)
        except OSError:
            return b""
