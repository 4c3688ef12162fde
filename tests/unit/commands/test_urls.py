"""`scrapy urls`: what it says when it cannot count links."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from webcrawl.commands.urls import _count_links
from webcrawl.config import StoreConfig
from webcrawl.config.libraries import install_command


def test_links_that_are_not_counted_are_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    links = tmp_path / "links"
    session: Any = SimpleNamespace(
        stores=StoreConfig(tmp_path.as_uri(), "sqlite://", tmp_path, links=links.as_uri())
    )
    assert _count_links(session, None) is None and capsys.readouterr().err == "", "there are no links"
    links.mkdir()
    (links / "a.parquet").touch()
    assert _count_links(session, None) is None
    assert capsys.readouterr().err == (
        f"in_links is empty: LINKS needs pyarrow: {install_command(['parquet'])}\n"
    )
