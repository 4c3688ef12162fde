"""The file of weights, and how workers read it again."""

from __future__ import annotations

import asyncio
import logging
from array import array
from pathlib import Path

import pytest

from webcrawl.config import StoreConfig
from webcrawl.errors import StoreError, StoreUnavailable
from webcrawl.policies.learned_value import BITS, ValueModel
from webcrawl.policies.mined import Mined
from webcrawl.stores import weights_file as module
from webcrawl.stores.weights_file import NAME, MinedChanges, WeightsFile

FIRST, SECOND = Mined("1"), Mined("2", ValueModel("text", 0.5, array("f", bytes(4 << BITS))))


def file_in(folder: Path) -> WeightsFile:
    return WeightsFile.of(StoreConfig("", "", folder, mined=(folder / "mined").as_uri()))


def test_changes_are_read_once(tmp_path: Path) -> None:
    file, writer = file_in(tmp_path), file_in(tmp_path)
    assert file.changed() is None, "there is no file"
    writer.write(FIRST)
    assert file.changed() == FIRST
    assert file.changed() is None
    writer.write(SECOND)
    found = file.changed()
    assert found is not None and found.made == "2" and found.value is not None
    (tmp_path / "mined" / NAME).unlink()
    assert file.changed() is None
    assert [path.name for path in (tmp_path / "mined").iterdir()] == []


def test_a_damaged_file_is_told_once_and_a_whole_one_read_again(tmp_path: Path) -> None:
    file = file_in(tmp_path)
    file.write(FIRST)
    path = tmp_path / "mined" / NAME
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(StoreError, match=f"{path} is not used: it is incomplete or damaged"):
        file.changed()
    assert file.changed() is None
    file.write(FIRST)
    assert file.changed() == FIRST


def test_workers_keep_the_last_good_weights(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.0)
    used: list[str] = []
    file = file_in(tmp_path)
    changes = MinedChanges(file, lambda mined: used.append(mined.made))
    caplog.set_level(logging.INFO)

    async def rounds(number: int) -> None:
        for _ in range(number):
            await changes.update()

    asyncio.run(rounds(2))
    assert (used, caplog.messages) == ([], [])
    file.write(FIRST)
    asyncio.run(rounds(2))
    assert used == ["1"]
    (tmp_path / "mined" / NAME).write_text("not weights")
    asyncio.run(rounds(3))
    file.write(SECOND)
    asyncio.run(rounds(2))
    assert used == ["1", "2"]
    assert [record.levelname for record in caplog.records] == ["INFO", "ERROR", "INFO"]
    assert "The weights that were read before stay in use." in caplog.messages[1]


def test_a_store_that_is_away_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.0)
    file = file_in(tmp_path)
    answers: list[Mined | Exception | None] = [
        *[StoreUnavailable("away")] * 3,
        FIRST,
        StoreUnavailable("away"),
    ]

    def changed() -> Mined | None:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(file, "changed", changed)
    used: list[Mined] = []
    changes = MinedChanges(file, used.append)

    async def rounds() -> None:
        while answers:
            await changes.update()

    asyncio.run(rounds())
    assert used == [FIRST]
    assert len([one for one in caplog.records if one.levelno == logging.ERROR]) == 2
