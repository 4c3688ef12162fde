"""The objects of an S3 bucket: sent whole and confirmed, read in parts. The only module that knows boto3."""

from __future__ import annotations

import base64
import hashlib
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import boto3
from boto3.exceptions import Boto3Error
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError as BotoConnectionError,
    HTTPClientError,
    SSLError,
)

from webcrawl.errors import NoSuchObject, StoreError

logger = logging.getLogger(__name__)

FAILURES = (BotoCoreError, Boto3Error, ClientError, OSError, StoreError)
"""What `Bucket.put` may raise."""
UNREACHABLE = (BotoConnectionError, HTTPClientError)
"""That of it which says nothing of the file."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{2,254}")
_PART_BYTES = 16 * 1024 * 1024
_MOST_PARTS = 10_000
_READ_BYTES = 1024 * 1024


class Bucket:
    """The objects of a bucket below a prefix.

    `setting` is the one to blame for a bucket that cannot be used, `meanwhile` what happens while S3 is away.
    """

    def __init__(
        self,
        name: str,
        prefix: str,
        *,
        setting: str = "STORE_URI",
        meanwhile: str = "pages wait in the spool",
    ) -> None:
        self._name = name
        self._setting = setting
        self._meanwhile = meanwhile
        self._prefix = f"{prefix}/" if prefix else ""
        segments = prefix.split("/") if prefix else []
        if not _NAME.fullmatch(name) or {"", ".", ".."}.intersection(segments):
            raise StoreError(f"{setting} {self.uri()!r}: use s3://bucket or s3://bucket/prefix")
        # the retries that matter go by whole files, and are not made here; this is for a part that stumbles
        config = Config(
            connect_timeout=5, read_timeout=30, retries={"mode": "legacy", "total_max_attempts": 2}
        )
        try:
            self._client = boto3.session.Session().client("s3", config=config)
        except (BotoCoreError, ValueError) as error:
            raise StoreError(f"{self._setting} {self.uri()}: {error}") from error

    def uri(self, file: str = "") -> str:
        return f"s3://{self._name}/{self._prefix}{file}"

    def check(self) -> None:
        """Raise StoreError unless the bucket may be used; that S3 is away is no reason not to begin."""
        try:
            self._client.head_bucket(Bucket=self._name)
        except ClientError as error:
            status = int(error.response["ResponseMetadata"].get("HTTPStatusCode", 0))
            if status >= 500 or status == 429:
                logger.warning("%s %s: %s; %s", self._setting, self.uri(), error, self._meanwhile)
                return
            reason = {
                403: "access denied: are the credentials right, and do they allow s3:ListBucket?",
                404: f"there is no bucket {self._name!r}",
            }.get(status, str(error))
            raise StoreError(f"{self._setting} {self.uri()}: {reason}") from error
        except SSLError as error:
            raise StoreError(f"{self._setting} {self.uri()}: {error}") from error
        except (BotoConnectionError, HTTPClientError) as error:
            logger.warning("%s %s: %s; %s", self._setting, self.uri(), error, self._meanwhile)
        except BotoCoreError as error:
            raise StoreError(f"{self._setting} {self.uri()}: {error}") from error

    def put(self, path: Path, is_late: Callable[[], bool], file: str = "") -> None:
        """Upload a file, unless it is there already; raises whatever goes wrong, StoreError when it `is_late`.

        It is called `file` there, by default as here. What returns is in the bucket, byte for byte: each part goes with
        its checksum, which S3 compares with what it got, and in the end the object as S3 has it is compared with the
        file.
        """
        file = file or path.name
        size = path.stat().st_size
        part = max(_PART_BYTES, -(-size // _MOST_PARTS))
        if self._has_all_of(path, file, part):  # the process that sent it was killed, or the answer lost
            return
        if size > part:
            self._forget_parts(file)

        def progress(_: int) -> None:
            if is_late():
                raise StoreError("no time is left")

        # Without threads: those of s3transfer would hold up the end of the process.
        transfer = TransferConfig(use_threads=False, multipart_threshold=part + 1, multipart_chunksize=part)
        # an endpoint that knows no checksums is told of by AWS_REQUEST_CHECKSUM_CALCULATION=when_required
        checked = self._client.meta.config.request_checksum_calculation == "when_supported"
        self._client.upload_file(
            *(str(path), self._name, self._prefix + file),
            Config=transfer,
            Callback=progress,
            ExtraArgs={"ChecksumAlgorithm": "SHA256"} if checked else None,
        )
        if not self._has_all_of(path, file, part):
            raise StoreError(f"{self.uri(file)} is not what was sent")

    def write(self, file: str, data: bytes) -> None:
        """Store a small object; raises StoreError."""
        with _told_as_store_errors():
            self._client.put_object(Bucket=self._name, Key=self._prefix + file, Body=data)

    def has(self, file: str) -> bool:
        """Whether there is such an object; raises StoreError."""
        with _told_as_store_errors():
            return self._head(file) is not None

    def delete(self, file: str) -> None:
        """Remove an object, if there is one; raises StoreError."""
        with _told_as_store_errors():
            self._client.delete_object(Bucket=self._name, Key=self._prefix + file)

    def names(self, start: str) -> Iterator[str]:
        """The objects whose names begin so; raises StoreError."""
        return (name for name, _ in self.listing(start))

    def listing(self, start: str = "") -> Iterator[tuple[str, int]]:
        """The same with their sizes in bytes."""
        with _told_as_store_errors():
            pages = self._client.get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self._name, Prefix=self._prefix + start):
                for found in page.get("Contents", ()):
                    yield found["Key"].removeprefix(self._prefix), int(found["Size"])

    def read(self, file: str, offset: int, length: int) -> bytes:
        """Some bytes of an object, fewer when it ends before; raises StoreError, NoSuchObject when there is none."""
        span = f"bytes={offset}-{offset + length - 1}"
        try:
            answer = self._client.get_object(Bucket=self._name, Key=self._prefix + file, Range=span)
            return bytes(answer["Body"].read())
        except ClientError as error:
            if error.response["Error"].get("Code") == "InvalidRange":
                return b""
            if error.response["Error"].get("Code") in ("NoSuchKey", "404"):
                raise NoSuchObject(
                    "it is not there (yet): another machine may still have to send it"
                ) from error
            raise StoreError(str(error)) from error
        except (BotoCoreError, OSError) as error:
            raise StoreError(str(error)) from error

    def _has_all_of(self, path: Path, file: str, part: int) -> bool:
        """Whether the object is the file that was sent in parts of so many bytes: by checksum, ETag, or every byte."""
        found = self._head(file)
        if found is None or found["ContentLength"] != path.stat().st_size:
            return False
        if checksum := found.get("ChecksumSHA256"):
            return bool(checksum == _checksum(path, part))
        if found["ETag"].strip('"') == _etag(path, part):
            return True
        # an ETag need not be an MD5: it is none where the server encrypts
        body = self._client.get_object(Bucket=self._name, Key=self._prefix + file)["Body"]
        with path.open("rb") as local:
            return all(chunk == local.read(len(chunk)) for chunk in body.iter_chunks(_READ_BYTES))

    def _forget_parts(self, file: str) -> None:
        """Give up uploads of a file that were begun and never ended: their parts are paid for and never seen."""
        key = self._prefix + file
        try:
            begun = self._client.list_multipart_uploads(Bucket=self._name, Prefix=key).get("Uploads", ())
            for one in begun:
                if one["Key"] == key:
                    self._client.abort_multipart_upload(Bucket=self._name, Key=key, UploadId=one["UploadId"])
        except ClientError as error:  # not allowed, or not known here: not worth failing for
            logger.info("cannot give up what was begun of %s: %s", self.uri(file), error)

    def _head(self, file: str) -> dict[str, Any] | None:
        """What S3 says of an object, or None if there is none."""
        try:
            found = self._client.head_object(
                Bucket=self._name, Key=self._prefix + file, ChecksumMode="ENABLED"
            )
        except ClientError as error:
            if error.response["ResponseMetadata"].get("HTTPStatusCode") == 404:
                return None
            raise
        return dict(found)


def _checksum(path: Path, part: int) -> str:
    """The SHA-256 that S3 tells of an object uploaded in parts: of the parts' own, with their number, if several."""
    digests = _digests(path, part, hashlib.sha256)
    whole = digests[0] if len(digests) == 1 else hashlib.sha256(b"".join(digests)).digest()
    number = f"-{len(digests)}" if len(digests) > 1 else ""
    return base64.b64encode(whole).decode() + number


def _etag(path: Path, part: int) -> str:
    """The ETag that S3 gives such an object, where it is one of MD5."""
    md5 = partial(hashlib.md5, usedforsecurity=False)
    digests = _digests(path, part, md5)
    return digests[0].hex() if len(digests) == 1 else f"{md5(b''.join(digests)).hexdigest()}-{len(digests)}"


def _digests(path: Path, part: int, algorithm: Callable[[], Any]) -> list[bytes]:
    digests: list[bytes] = []
    with path.open("rb") as file:
        for start in range(0, max(path.stat().st_size, 1), part):
            state, left = algorithm(), min(part, path.stat().st_size - start)
            while left and (chunk := file.read(min(left, _READ_BYTES))):
                state.update(chunk)
                left -= len(chunk)
            digests.append(state.digest())
    return digests


@contextmanager
def _told_as_store_errors() -> Iterator[None]:
    try:
        yield
    except (BotoCoreError, ClientError, OSError) as error:
        raise StoreError(str(error)) from error
