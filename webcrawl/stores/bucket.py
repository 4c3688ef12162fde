"""The objects of an S3 bucket: sent whole and confirmed, read in parts. The only module that knows boto3."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path

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

from webcrawl.errors import StoreError

logger = logging.getLogger(__name__)

FAILURES = (BotoCoreError, Boto3Error, ClientError, OSError, StoreError)
"""What `Bucket.put` may raise."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{2,254}")
_PART_BYTES = 16 * 1024 * 1024


class Bucket:
    """The objects of a bucket below a prefix."""

    def __init__(self, name: str, prefix: str) -> None:
        self._name = name
        self._prefix = f"{prefix}/" if prefix else ""
        segments = prefix.split("/") if prefix else []
        if not _NAME.fullmatch(name) or {"", ".", ".."}.intersection(segments):
            raise StoreError(f"STORE_URI {self.uri()!r}: use s3://bucket or s3://bucket/prefix")
        # the retries that matter go by whole files, and are not made here; this is for a part that stumbles
        config = Config(
            connect_timeout=5, read_timeout=30, retries={"mode": "legacy", "total_max_attempts": 2}
        )
        try:
            self._client = boto3.session.Session().client("s3", config=config)
        except (BotoCoreError, ValueError) as error:
            raise StoreError(f"STORE_URI {self.uri()}: {error}") from error

    def uri(self, file: str = "") -> str:
        return f"s3://{self._name}/{self._prefix}{file}"

    def check(self) -> None:
        """Raise StoreError unless the bucket may be used; that S3 is away is no reason not to begin."""
        try:
            self._client.head_bucket(Bucket=self._name)
        except ClientError as error:
            status = int(error.response["ResponseMetadata"].get("HTTPStatusCode", 0))
            if status >= 500 or status == 429:
                logger.warning("STORE_URI %s: %s; pages wait in the spool", self.uri(), error)
                return
            reason = {
                403: "access denied: are the credentials right, and do they allow s3:ListBucket?",
                404: f"there is no bucket {self._name!r}",
            }.get(status, str(error))
            raise StoreError(f"STORE_URI {self.uri()}: {reason}") from error
        except SSLError as error:
            raise StoreError(f"STORE_URI {self.uri()}: {error}") from error
        except (BotoConnectionError, HTTPClientError) as error:
            logger.warning("STORE_URI %s: %s; pages wait in the spool", self.uri(), error)
        except BotoCoreError as error:
            raise StoreError(f"STORE_URI {self.uri()}: {error}") from error

    def put(self, path: Path, is_late: Callable[[], bool]) -> None:
        """Upload a file, unless it is there already; raises whatever goes wrong, StoreError when it `is_late`."""
        size = path.stat().st_size
        if self._size(path.name) == size:  # the process that sent it was killed before it could say so
            return

        def progress(_: int) -> None:
            if is_late():
                raise StoreError("no time is left")

        # Without threads: those of s3transfer would hold up the end of the process.
        transfer = TransferConfig(
            use_threads=False, multipart_threshold=_PART_BYTES, multipart_chunksize=_PART_BYTES
        )
        self._client.upload_file(
            str(path), self._name, self._prefix + path.name, Config=transfer, Callback=progress
        )
        stored = self._size(path.name)
        if stored != size:
            raise StoreError(f"{self.uri(path.name)} has {stored} bytes instead of {size}")

    def read(self, file: str, offset: int, length: int) -> bytes:
        """Some bytes of an object; raises StoreError."""
        span = f"bytes={offset}-{offset + length - 1}"
        try:
            answer = self._client.get_object(Bucket=self._name, Key=self._prefix + file, Range=span)
            return bytes(answer["Body"].read())
        except ClientError as error:
            if error.response["Error"].get("Code") in ("NoSuchKey", "404"):
                raise StoreError(
                    "it is not there (yet): another machine may still have to send it"
                ) from error
            raise StoreError(str(error)) from error
        except (BotoCoreError, OSError) as error:
            raise StoreError(str(error)) from error

    def _size(self, file: str) -> int | None:
        """The size of an object in bytes, or None if there is none."""
        try:
            found = self._client.head_object(Bucket=self._name, Key=self._prefix + file)
        except ClientError as error:
            if error.response["ResponseMetadata"].get("HTTPStatusCode") == 404:
                return None
            raise
        return int(found["ContentLength"])
