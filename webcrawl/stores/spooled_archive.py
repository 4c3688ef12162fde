"""WARC files in an S3 bucket: written into a local spool folder, sent when closed.

Endpoint, region and credentials are boto3's own business: AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and so
on, or its configuration files. The bucket's policy has to allow s3:ListBucket, s3:GetObject, s3:PutObject,
s3:AbortMultipartUpload and s3:ListBucketMultipartUploads.
"""

from __future__ import annotations

import logging
import math
import random
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from webcrawl.documents.disk import occupied
from webcrawl.errors import StoreError, StoreUnavailable
from webcrawl.page import Page
from webcrawl.stores.file_lock import claimed
from webcrawl.stores.folder_archive import FolderArchive
from webcrawl.stores.objects.s3 import FAILURES, UNREACHABLE, Bucket
from webcrawl.stores.record import StoredRecord, inflated, parse
from webcrawl.stores.warc import FINISHED, OPEN, StoredFile, WarcPlace, index_name, read_member, read_record

logger = logging.getLogger(__name__)

CLOSE_SECONDS = 60.0
"""How long `S3Archive.close` goes on uploading; the rest is for the next run."""

_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0
_URGENT_PAUSE = 2.0
_LAST_TRIES = 3
_MOST_FAILURES = 3
# Of a record, at a time.
_CHUNK = 1 << 23


class S3Archive:
    """WARC files below s3://`bucket`/`prefix_path`, by way of a folder of this bucket in `spool`.

    A page is on the local disk when `write` returns. Each closed file and its index are uploaded by a thread,
    again and again while S3 is away, and leave the spool once S3 has confirmed size and checksum: nothing is lost
    when a process or S3 dies. The first `write`, or `close`, also sends what earlier runs left; who only reads
    sends nothing. With `spool_max` bytes waiting, those of other processes of the same spool among them, the file
    in hand is closed, to be sent, and `write` raises StoreUnavailable until there are fewer. Raises StoreError when the
    bucket does not exist or must not be used; S3 being away is a warning.
    """

    def __init__(
        self,
        bucket: str,
        prefix_path: str,
        spool: Path,
        *,
        prefix: str = "",
        software: str = "",
        roll_bytes: int = 1_000_000_000,
        roll_seconds: float = 0,
        min_free: int = 0,
        spool_max: int = 0,
        info: Mapping[str, str] | None = None,
        close_seconds: float = CLOSE_SECONDS,
    ) -> None:
        self._bucket = Bucket(bucket, prefix_path)
        self._bucket.check()
        # a folder for each destination: what stays must not end up in another bucket
        self.folder = spool / bucket / prefix_path
        self._local = FolderArchive(
            self.folder,
            prefix=prefix,
            software=software,
            roll_bytes=roll_bytes,
            roll_seconds=roll_seconds,
            min_free=min_free,
            info=info,
        )
        self._spool_max = spool_max
        self._left = 0
        self._closed = -1
        self._uploads = Uploads(self._bucket, self.folder)
        self._close_seconds = close_seconds

    def write(self, page: Page) -> WarcPlace:
        """Append the exchange of a page to the file in the spool; StoreUnavailable when too much waits already."""
        if self._spool_max and self._left <= 0 and (reason := self._excess()):
            raise StoreUnavailable(reason)
        place = self._local.write(page)
        self._left -= place.length
        self._send_closed()
        return place

    def read(self, place: WarcPlace) -> StoredRecord:
        """A record from the spool or else from S3; StoreError when it is in neither, or damaged."""
        path = self.folder / place.file
        try:
            return read_record(path, place.offset, place.length)
        except StoreError:
            if path.exists() or path.with_name(path.name + OPEN).exists():
                raise
        try:
            return parse(inflated(self._bucket.read(place.file, place.offset, place.length)))
        except (zlib.error, StoreError) as error:
            raise StoreError(f"{self._bucket.uri(place.file)} at byte {place.offset}: {error}") from error

    def chunks(self, place: WarcPlace) -> Iterator[bytes]:
        """The bytes of a record's gzip member in turn, from where `read` has it."""
        path = self.folder / place.file
        try:
            yield from read_member(path, place.offset, place.length)
            return
        except StoreError:
            if path.exists() or path.with_name(path.name + OPEN).exists():
                raise
        for start in range(0, place.length, _CHUNK):
            yield self._bucket.read(place.file, place.offset + start, min(_CHUNK, place.length - start))

    def files(self) -> Iterator[StoredFile]:
        """The finished WARC files and their indexes, in S3 or still in the spool of this machine."""
        local = {file.name: file for file in self._local.files()}
        for name, size in self._bucket.listing():
            if name.endswith(FINISHED) and "/" not in name:
                local.pop(name, None)
                yield StoredFile(name, size, partial(self._bucket.read, name))
        for file in local.values():
            yield file._replace(read=partial(self._read_part, file))

    def _read_part(self, file: StoredFile, offset: int, length: int) -> bytes:
        """Of a file in the spool, or of the object that it has become meanwhile."""
        try:
            return file.read(offset, length)
        except StoreError:
            return self._bucket.read(file.name, offset, length)

    def tend(self) -> str:
        """What has to be done from time to time. Returns why nothing more should be written, "" when it may."""
        lacking = self._local.tend() or (self._excess() if self._spool_max else "")
        if lacking:
            self._local.roll()
        self._uploads.hurry(bool(lacking))
        self._send_closed()
        return lacking

    def _send_closed(self) -> None:
        if self._closed != self._local.closed:
            self._closed = self._local.closed
            self._uploads.wake()

    def _excess(self) -> str:
        """Why nothing more may wait, or ""; and how much may be written before this is to be asked again."""
        waiting = occupied(self.folder)
        self._left = self._spool_max - waiting
        if self._left > 0:
            return ""
        return f"{waiting / 1e6:,.1f} MB wait for {self._bucket.uri()}, STORE_SPOOL_MAX_BYTES is reached"

    def close(self) -> None:
        """Close the file in hand and upload what there is, for `close_seconds` at most."""
        try:
            self._local.close()
        finally:
            self._uploads.finish(self._close_seconds)


class Uploads:
    """Sends the closed files of a folder to a bucket, in a thread of its own.

    Several processes may share the folder: each file is locked (flock) by the one that sends it. After a failure
    the pauses double, with up to 10% of jitter.
    """

    def __init__(self, bucket: Bucket, folder: Path) -> None:
        self._bucket = bucket
        self._folder = folder
        self._news = threading.Event()
        self._deadline = math.inf
        self._urgent = False
        self._thread: threading.Thread | None = None

    def wake(self) -> None:
        """Look for closed files now."""
        self._news.set()
        if self._thread is None or not self._thread.is_alive():
            # a daemon: an upload that hangs must not keep the process from ending
            self._thread = threading.Thread(target=self._run, name="uploads", daemon=True)
            self._thread.start()

    def hurry(self, urgent: bool) -> None:
        """Whether somebody waits for room: then S3 is asked more often whether it is back."""
        if urgent and not self._urgent:
            self._news.set()
        self._urgent = urgent

    def finish(self, seconds: float) -> None:
        """Send what there is, for so many seconds at most; says what stays."""
        self._news.set()  # before the deadline: the thread must not end on a look it took before this one
        self._deadline = time.monotonic() + seconds
        self.wake()
        assert self._thread is not None
        self._thread.join(seconds)
        self._thread = None
        files = self._waiting()
        if files:
            logger.warning(
                "%d files (%.1f MB) stay in %s: the next run uploads them to %s",
                *(len(files), _megabytes(files), self._folder, self._bucket.uri()),
            )

    def _run(self) -> None:
        failures = 0
        while True:
            self._news.clear()
            failures = 0 if self._send_all(failures) else failures + 1
            done = failures == 0 or failures >= _LAST_TRIES or self._is_late()
            if done and self._is_ending() and not self._news.is_set():
                return
            longest = _URGENT_PAUSE if self._urgent else _LONGEST_PAUSE
            pause = min(_FIRST_PAUSE * 2.0 ** min(failures - 1, 20), longest)
            self._news.wait(pause * (1 + random.random() / 10) if failures else None)

    def _send_all(self, failures: int) -> bool:
        """Whether nothing went wrong: every closed file is sent, or in the hands of another process.

        A file that cannot be sent keeps the others from it only when three cannot.
        """
        failed = 0
        for path in self._waiting():
            if self._is_late():
                return False
            try:
                with claimed(path) as fd:
                    if fd is not None:
                        self._send(path)
            except FAILURES as error:
                if not self._is_late():
                    files = self._waiting()
                    logger.warning(
                        "cannot upload %s (try %d; %d files, %.1f MB wait): %s",
                        *(path.name, failures + 1, len(files), _megabytes(files), error),
                    )
                failed += 1
                if failed == _MOST_FAILURES or isinstance(error, UNREACHABLE) or self._is_late():
                    break
        return not failed

    def _send(self, path: Path) -> None:
        """The index is sent last and removed first: as long as the WARC file lies here, it stands for both."""
        index = path.with_name(index_name(path.name))
        for file in (path, index):
            if file.exists():
                self._bucket.put(file, self._is_late)
        index.unlink(missing_ok=True)
        path.unlink()
        logger.info("uploaded %s", self._bucket.uri(path.name))

    def _waiting(self) -> list[Path]:
        return sorted(self._folder.glob("*.warc.gz"))

    def _is_ending(self) -> bool:
        return self._deadline < math.inf

    def _is_late(self) -> bool:
        return time.monotonic() >= self._deadline


def _megabytes(files: list[Path]) -> float:
    total = 0
    for path in files:
        with suppress(FileNotFoundError):  # another process has just sent it
            total += path.stat().st_size
    return total / 1e6
