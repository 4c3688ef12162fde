"""Tests of the deletion of a job's folders."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from webcrawl.jobs.shared_pages import delete_folder, shared_pages


def test_two_sweepers_may_delete_one_folder_at_the_same_time(tmp_path: Path) -> None:
    for turn in range(20):
        folder = tmp_path / str(turn)
        for number in range(50):
            (folder / str(number)).mkdir(parents=True)
            (folder / str(number) / "page").touch()
        with ThreadPoolExecutor(2) as sweepers:
            list(sweepers.map(delete_folder, [folder, folder]))
        assert not folder.exists()


def test_the_pages_behind_a_link_are_kept(tmp_path: Path) -> None:
    page = shared_pages(tmp_path) / "page"
    page.parent.mkdir()
    page.touch()
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "pages").symlink_to(page.parent)
    delete_folder(tmp_path / "first")
    assert page.exists() and not (tmp_path / "first").exists()
