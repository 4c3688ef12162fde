"""The embedded engine while its server loads data or hangs: no second server is ever started."""

from __future__ import annotations

import logging
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import redis

from tests.frontier.processes import User, is_gone, process_of, until
from webcrawl.engine import embedded, server_folder
from webcrawl.engine.embedded import EmbeddedEngine
from webcrawl.engine.server_folder import command, socket_path
from webcrawl.errors import EngineUnavailable

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to list processes")

STEPS = 50
STEP_COMMANDS = 1024
"""A server that is loading data answers clients once in this many commands."""
BUSY = b"for i = 1, 8e6 do end"


def resp(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "engine"


@pytest.fixture
def much_data(folder: Path) -> int:
    """Gives the engine data that take seconds to load; returns the final value of "loaded"."""
    data = folder / "appendonlydir"
    data.mkdir(parents=True)
    step = resp(b"EVAL", BUSY, b"0") + resp(b"INCR", b"loaded") * (STEP_COMMANDS - 1)
    (data / "appendonly.aof.1.incr.aof").write_bytes(step * STEPS)
    (data / "appendonly.aof.manifest").write_text("file appendonly.aof.1.incr.aof seq 1 type i\n")
    return STEPS * (STEP_COMMANDS - 1)


@pytest.fixture
def engines(tmp_path: Path, folder: Path) -> Iterator[Callable[[], EmbeddedEngine]]:
    """Makes engines in `folder`; afterwards stops them and waits until the server is gone."""
    made: list[EmbeddedEngine] = []

    def make() -> EmbeddedEngine:
        made.append(EmbeddedEngine(tmp_path))
        return made[-1]

    yield make
    for engine in made:
        engine.stop()
    assert until(lambda: not servers(folder))


def servers(folder: Path) -> list[int]:
    """The pids of all servers of an engine folder, including those that do not answer."""
    found = []
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            if (process / "cwd").readlink() == folder and "valkey" in (process / "comm").read_text():
                found.append(int(process.name))
    return found


def kill_keeper(server: int) -> None:
    keeper = int(Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(keeper, signal.SIGKILL)
    assert until(lambda: is_gone(keeper))


def is_loading(folder: Path) -> bool:
    return command(socket_path(folder), b"PING").startswith(b"-LOADING")


def test_a_start_waits_for_a_server_that_is_loading(
    engines: Callable[[], EmbeddedEngine],
    much_data: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(embedded, "START_SECONDS", 1.0)
    monkeypatch.setattr(embedded, "LOG_SECONDS", 0.1)
    with caplog.at_level(logging.WARNING), redis.Redis.from_url(engines().start()) as client:
        assert client.get("loaded") == b"%d" % much_data
    assert re.search(r"is loading its data: \d+ of \d{7} bytes", caplog.text)


def test_no_second_server_starts_when_the_keeper_dies_during_loading(
    engines: Callable[[], EmbeddedEngine], much_data: int, folder: Path, tmp_path: Path
) -> None:
    first = User(tmp_path)
    assert until(lambda: is_loading(folder))
    (server,) = servers(folder)
    kill_keeper(server)
    with redis.Redis.from_url(engines().start()) as client:
        assert client.get("loaded") == b"%d" % much_data
    assert servers(folder) == [server] == [process_of(folder)]
    first.stop()


def test_a_hanging_server_is_not_replaced(
    engines: Callable[[], EmbeddedEngine], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = User(tmp_path)
    user.started()
    server = process_of(folder)
    kill_keeper(server)
    os.kill(server, signal.SIGSTOP)
    monkeypatch.setattr(embedded, "START_SECONDS", 0.5)
    monkeypatch.setattr(server_folder, "REPLY_SECONDS", 0.2)
    try:
        with pytest.raises(EngineUnavailable, match="does not start"):
            engines().start()
        assert servers(folder) == [server]
    finally:
        os.kill(server, signal.SIGCONT)
    engines().start()
    assert servers(folder) == [server]
    os.kill(server, signal.SIGKILL)
    assert until(lambda: servers(folder) not in ([server], [])), (
        "the new keeper replaces a server that is gone"
    )
    user.stop()
