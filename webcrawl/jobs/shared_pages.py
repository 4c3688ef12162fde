"""The pages that the iterations of a job share, because each iteration revisits the pages of those before (REVISIT).

DATA_DIR/jobs/watch/pages/               metadata.db  warc/  links/  texts/  wet/  monitor.json
DATA_DIR/jobs/watch/20260327T053000Z/    the files of an iteration, and symbolic links to those in pages/

Commands that get the DATA_DIR of an iteration read its pages through the links. Retention deletes the links alone.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from webcrawl.errors import StoreError

_FOLDER = "pages"
_SHARED = (
    "metadata.db",
    "warc",
    "links",
    "texts",
    "wet",
    "markdown",
    "page-wet",
    "page-markdown",
    "monitor.json",
)


def shared_pages(job_folder: Path) -> Path:
    """Returns the folder of the pages in the folder of a job."""
    return job_folder / _FOLDER


def link_pages(folder: Path) -> None:
    """Lets the iteration with this DATA_DIR share the pages of its job; raises OSError.

    A file that the iteration has already stays as it is.
    """
    shared_pages(folder.parent).mkdir(parents=True, exist_ok=True)
    folder.mkdir(exist_ok=True)
    for name in _SHARED:
        link = folder / name
        if not link.exists() and not link.is_symlink():
            link.symlink_to(Path("..") / _FOLDER / name)


def delete_pages(job_folder: Path) -> None:
    """Deletes the shared pages of a job, if there are any; raises StoreError."""
    delete_folder(shared_pages(job_folder))


def delete_folder(folder: Path) -> None:
    """Deletes a folder, if it exists, with all that it holds; raises StoreError.

    Another sweeper may delete the same folder at the same time: what it has deleted counts as deleted.
    """

    def go_on_if_deleted(_function: object, path: str, raised: tuple[type, BaseException, object]) -> None:
        error = raised[1]
        if not isinstance(error, FileNotFoundError):
            raise StoreError(f"cannot delete {path}: {error}") from error

    shutil.rmtree(folder, onerror=go_on_if_deleted)
