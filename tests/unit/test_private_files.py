"""The modes of files that a crawl writes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from weakref import WeakSet, finalize

import pytest

from webcrawl.config import private_files
from webcrawl.config.private_files import end_privacy, given_umask, keep_private, readable_outside


class Crawl:
    """Stands for one."""


@pytest.fixture(autouse=True)
def usual(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process with the umask 022."""
    monkeypatch.setattr(private_files, "_given", None)
    monkeypatch.setattr(private_files, "_owners", WeakSet())
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    path.write_text("")
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize(
    ("given", "folder", "file"),
    [
        (0o022, None, 0o600),
        (0o022, 0o700, 0o600),
        (0o022, 0o750, 0o640),
        (0o022, 0o755, 0o640),
        (0o022, 0o770, 0o640),
        (0o002, 0o2770, 0o660),
        (0o077, 0o770, 0o600),
    ],
)
def test_only_the_group_of_the_folder_may_read(
    given: int, folder: int | None, file: int, tmp_path: Path
) -> None:
    os.umask(given)
    data = tmp_path / "data"
    if folder is not None:
        data.mkdir()
        data.chmod(folder)
    for _ in range(2):
        keep_private(data, Crawl)
        assert mode(tmp_path / "file") == file
        (tmp_path / "file").unlink()
    assert given_umask() == given


def test_files_that_a_user_asks_for_elsewhere_have_the_usual_mode(tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert given_umask() == -1
    with readable_outside(data, tmp_path / "feed"):
        assert mode(tmp_path / "early") == 0o644
    keep_private(data, Crawl)
    data.mkdir()
    assert data.stat().st_mode & 0o777 == 0o700
    with readable_outside(data, tmp_path / "feed"):
        assert mode(tmp_path / "feed") == 0o644
    with readable_outside(data, data / "feed"):
        assert mode(data / "feed") == 0o600
    assert mode(tmp_path / "after") == 0o600


def test_the_umask_is_restored_when_the_last_crawl_of_a_process_has_ended(tmp_path: Path) -> None:
    one, two = Crawl(), Crawl()
    for crawl in (one, two):
        keep_private(tmp_path / "data", crawl)
    for _ in range(2):
        end_privacy(one)
    assert (given_umask(), mode(tmp_path / "beside")) == (0o022, 0o600)
    end_privacy(two)
    assert (given_umask(), mode(tmp_path / "after")) == (-1, 0o644)


def test_a_crawl_that_could_not_start_gives_the_umask_back(tmp_path: Path) -> None:
    crawl = Crawl()
    keep_private(tmp_path / "data", crawl)
    finalize(crawl, end_privacy)
    del crawl
    assert (given_umask(), mode(tmp_path / "after")) == (-1, 0o644)
