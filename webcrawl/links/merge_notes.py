"""Notes about files of a link store that are being merged, so that killing the process duplicates no rows.

    _merged-20260203060506791-00001-4711-here.merge     {"into": "merged-...parquet", "from": ["broad-...parquet", ...]}

A note is stored before the merged file, and deleted after the files that the merged file replaces.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from webcrawl.errors import StoreError
from webcrawl.stores.objects.store import ObjectStore

_NOTE, _HIDDEN = ".merge", "_"


def note_of(stem: str) -> str:
    """Returns the name of the note about the merged file whose name without suffix is `stem`."""
    return f"{_HIDDEN}{stem}{_NOTE}"


def note_about(into: str, names: Sequence[str]) -> bytes:
    """Returns the contents of a note: the names of the merged file and of the files that it replaces."""
    return json.dumps({"into": into, "from": list(names)}).encode()


def finish_merges(store: ObjectStore, *, abandoned: bool = False) -> None:
    """Deletes files whose rows are also in a merged file, because the merging process was killed.

    `abandoned`: no process is merging, so notes about files that were never written are deleted too.
    """
    for note, into, names in _notes(store):
        if store.size(into) is not None:
            for name in names:
                store.delete(name)
        elif not abandoned:
            continue
        store.delete(note)


def merged_names(store: ObjectStore) -> set[str]:
    """Returns the names of files whose rows are also in a merged file."""
    return {name for _, into, names in _notes(store) if store.size(into) is not None for name in names}


def _notes(store: ObjectStore) -> Iterator[tuple[str, str, list[str]]]:
    """Yields the name of each note, the merged file, and the files that it replaces."""
    for note, size in sorted(store.objects(_HIDDEN)):
        if note.endswith(_NOTE):
            try:
                note_facts = json.loads(store.read(note, 0, size))
                into, names = str(note_facts["into"]), [str(name) for name in note_facts["from"]]
            except (ValueError, KeyError, TypeError) as error:
                raise StoreError(f"{store.uri(note)} is damaged: it should name merged files") from error
            yield note, into, names
