"""A table of the lake: adds files to it, and removes files that are gone, each in one snapshot."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from webcrawl.errors import StoreError
from webcrawl.lake.catalogue import NAMESPACE, location, pyarrow, pyiceberg
from webcrawl.stores.objects.store import ObjectStore

T = TypeVar("T")

_TRIES = 10
_PROPERTIES = {
    # each run adds a manifest, and a reader opens all of them
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    # pyiceberg would add the same files again to the snapshot of the other process
    "commit.retry.num-retries": "0",
    # the format that all current readers know
    "format-version": "2",
    "write.parquet.compression-codec": "zstd",
}
_KEEPS_FILES = {"gc.enabled": "false"}
"""Other programs may neither expire snapshots, which are the record of the files, nor delete files."""
_HINT = "metadata/version-hint.text"
_METADATA_SUFFIX = ".metadata.json"


class Change(NamedTuple):
    """The locations of files to add to a table, and of files to remove from its current state."""

    added: Sequence[str]
    removed: Collection[str] = ()


class Committed(NamedTuple):
    """The state of a table after a change.

    files, rows   of its current state
    added         the number of files that were added
    snapshot      the id of its current snapshot; None if it has none
    metadata      the location of its metadata file, which readers without a catalogue open
    """

    files: int
    rows: int
    added: int
    snapshot: int | None
    metadata: str


class LakeTable:
    """A table in the catalogue, created if it is missing. Methods raise the errors that `lake_errors` turns."""

    def __init__(
        self, catalogue: Any, name: str, schema: Any, store: ObjectStore, *, has_own_files: bool = False
    ) -> None:
        """Opens the table, and gives it the columns of `schema` that it lacks; none is required.

        schema         the Arrow schema of its files
        has_own_files  its files belong to no crawl, so that other programs may delete those of old snapshots
        """
        self._name, self._store = name, store
        self.may_be_committed = False
        """Whether the last change was committed, or the commit failed in a way that does not say so."""
        optional = pyarrow().schema([field.with_nullable(True) for field in schema])
        if catalogue.table_exists((NAMESPACE, name)):
            self._table = catalogue.load_table((NAMESPACE, name))
        else:
            properties = _PROPERTIES | ({} if has_own_files else _KEEPS_FILES)
            self._table = catalogue.create_table_if_not_exists(
                (NAMESPACE, name), optional, location=location(store, name), properties=properties
            )
        self._again_after_another(partial(self._add_columns, optional))

    def current(self) -> dict[str, Any]:
        """Returns the files of the current state: location -> pyiceberg's DataFile."""
        snapshot = self._table.current_snapshot()
        manifests = [] if snapshot is None else snapshot.manifests(self._table.io)
        return {file.file_path: file for file in self._files(manifests, discard_deleted=True)}

    def known(self) -> set[str]:
        """Returns the locations of the files in any snapshot, also of those that were removed again."""
        snapshots = self._table.snapshots()
        manifests = {
            manifest.manifest_path: manifest
            for snapshot in snapshots
            for manifest in snapshot.manifests(self._table.io)
        }
        return {file.file_path for file in self._files(manifests.values(), discard_deleted=False)}

    def apply(self, plan: Callable[[LakeTable], Change], about: Mapping[str, str]) -> Committed:
        """Commits what `plan` returns as a snapshot with the properties `about`; nothing if the plan is empty.

        If another process commits first, the plan is made again from its snapshot.
        """

        def commit() -> int:
            change = plan(self)
            if change.added or change.removed:
                self._commit(change, about)
            return len(change.added)

        added = self._again_after_another(commit)
        self._write_hint()
        files = self.current()
        snapshot = self._table.current_snapshot()
        return Committed(
            len(files),
            sum(file.record_count for file in files.values()),
            added,
            snapshot and snapshot.snapshot_id,
            self._table.metadata_location,
        )

    def _again_after_another(self, commit: Callable[[], T]) -> T:
        """Returns the result of `commit` on the newest state, after which no other process has changed the table."""
        tries = 0
        while True:
            self._table.refresh()
            try:
                return commit()
            except pyiceberg().exceptions.CommitFailedException:
                self.may_be_committed = False
                tries += 1
                if tries == _TRIES:
                    raise

    def _add_columns(self, schema: Any) -> None:
        # changes nothing if the table has these columns, and refuses columns of other types
        with self._table.update_schema() as update:
            update.union_by_name(schema)

    def _commit(self, change: Change, about: Mapping[str, str]) -> None:
        removed = {path: file for path, file in self.current().items() if path in change.removed}
        with self._table.transaction() as transaction:
            if transaction.table_metadata.name_mapping() is None:
                # columns are found by name: the files were written without ids of columns
                mapping = self._table.schema().name_mapping.model_dump_json()
                transaction.set_properties({"schema.name-mapping.default": mapping})
            update = transaction.update_snapshot(snapshot_properties=dict(about))
            with update.overwrite() if removed else update.merge_append() as snapshot:
                for file in removed.values():
                    snapshot.delete_data_file(file)
                for path in change.added:
                    snapshot.append_data_file(self._data_file(path, transaction.table_metadata))
            # the commit is at the end of the block
            self.may_be_committed = True

    def _data_file(self, path: str, metadata: Any) -> Any:
        """Returns what a snapshot says about a file; raises StoreError, which names the file, if it is damaged."""
        try:
            return pyiceberg().io.pyarrow.parquet_file_to_data_file(self._table.io, metadata, path)
        except pyarrow().ArrowInvalid as error:
            raise StoreError(f"{path} cannot be read: {error} Move it away to leave it out") from error

    def _write_hint(self) -> None:
        """Names the current metadata file where DuckDB looks for it when it reads a table by its folder.

        Another process may have committed meanwhile, and written its name before: so the last who writes looks again.
        """
        written = None
        while written != (current := self._table.metadata_location):
            name = current.rpartition("/")[2].removesuffix(_METADATA_SUFFIX)
            self._store.put(f"{self._name}/{_HINT}", name.encode())
            written = current
            self._table.refresh()

    def _files(self, manifests: Collection[Any], *, discard_deleted: bool) -> Iterator[Any]:
        for manifest in manifests:
            for entry in manifest.fetch_manifest_entry(self._table.io, discard_deleted=discard_deleted):
                yield entry.data_file
