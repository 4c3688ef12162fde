"""Makes the Parquet files of a link store of its journals."""

from __future__ import annotations

import logging
from pathlib import Path

from webcrawl.links.entry import unpack_entry
from webcrawl.links.tables import Rows
from webcrawl.stores.tables import files
from webcrawl.stores.tables.journal import Reading

logger = logging.getLogger(__name__)


def finish_journals(folder: Path) -> None:
    """See `webcrawl.stores.tables.files.finish_journals`."""
    files.finish_journals(folder, make_table)


def make_table(journal: Path, path: Path) -> bool:
    """Makes the Parquet file at a path of a journal; returns False if it has no rows. Raises OSError."""
    rows, damaged = Rows(), 0
    with journal.open("rb") as file:
        reading = Reading(file)
        for data in reading:
            try:
                rows.add(unpack_entry(data))
            except ValueError:
                damaged += 1
    if damaged := damaged + reading.damaged:
        logger.warning("%s is damaged: the links of %d pages or more in it are lost", journal, damaged)
    if len(rows):
        rows.write(path)
    return len(rows) > 0
