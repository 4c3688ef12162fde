"""Fixtures of the service's tests: one service with its own worker and engine, and services for single tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.service.served import Served
from tests.web import LocalWeb

HOME, OTHER, PRIVATE = "127.0.1.1", "127.0.1.2", "127.0.1.3"


@pytest.fixture(scope="package")
def web() -> Iterator[LocalWeb]:
    """The web from which the shared service fetches."""
    with LocalWeb(HOME, OTHER, PRIVATE) as web:
        yield web


@pytest.fixture(scope="package")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service on an embedded engine, whose worker fetches pages; its tests fetch different URLs."""
    folder = tmp_path_factory.mktemp("service")
    served = Served.start(folder=folder, settings={"DATA_DIR": folder / "data", "WARC_ROLL_SECONDS": 1})
    yield served
    served.stop()


@pytest.fixture
def start_service(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Starts `scrapy serve` without a worker: `start_service("--tokens", path, REDIS_URL=redis_url)`."""
    with ExitStack() as stack:

        def start(*options: str, **settings: object) -> Served:
            folder = tmp_path / f"service{len(list(tmp_path.iterdir()))}"
            folder.mkdir()
            given = {"DATA_DIR": tmp_path / "data", **settings}
            served = Served.start("--no-worker", *options, folder=folder, settings=given)
            stack.callback(served.stop)
            return served

        yield start
