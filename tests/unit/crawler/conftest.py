"""The certificates that clients trust."""

from __future__ import annotations

import pytest

from tests.crawls import TRUSTED


@pytest.fixture(autouse=True)
def no_certificates_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, file in TRUSTED.items():
        monkeypatch.setenv(name, file)
