"""Objects in an S3 bucket. The only module that uses boto3."""

from __future__ import annotations

import base64
import hashlib
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import botocore.session
from boto3.exceptions import Boto3Error
from boto3.s3.transfer import TransferConfig
from boto3.session import Session
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError as BotoConnectionError,
    HTTPClientError,
    SSLError,
)
from botocore.loaders import Loader, create_loader

from webcrawl.errors import NoSuchObject, StoreError, StoreUnavailable
from webcrawl.stores.objects.store import ObjectStore, StoredObject, never

logger = logging.getLogger(__name__)

_UNREACHABLE = (BotoConnectionError, HTTPClientError)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{2,254}")
_PART_BYTES = 16 * 1024 * 1024
_MOST_PARTS = 10_000
_READ_BYTES = 1024 * 1024


class S3Store(ObjectStore):
    """The objects of a bucket below a prefix: s3://bucket/prefix.

    boto3 takes endpoint, region and credentials from AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and so on, or from
    its configuration files. The policy must allow s3:ListBucket, s3:GetObject, s3:PutObject, s3:DeleteObject,
    s3:AbortMultipartUpload and s3:ListBucketMultipartUploads.
    """

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        parts = urlsplit(uri)
        self._bucket = parts.netloc
        prefix = parts.path.strip("/")
        self._prefix = f"{prefix}/" if prefix else ""
        folders = prefix.split("/") if prefix else []
        if not _NAME.fullmatch(self._bucket) or {"", ".", ".."}.intersection(folders):
            raise StoreError("use s3://bucket or s3://bucket/prefix")
        # a failed part is retried once; callers retry whole files after their own pauses
        config = Config(
            connect_timeout=5, read_timeout=30, retries={"mode": "legacy", "total_max_attempts": 2}
        )
        try:
            session = _session()
            self._client, self._session = session.client("s3", config=config), session
        except (BotoCoreError, ValueError) as error:
            raise StoreError(str(error)) from error

    def check(self) -> None:
        try:
            self._client.head_bucket(Bucket=self._bucket)
        except ClientError as error:
            status = _status(error)
            kind = StoreUnavailable if status >= 500 or status == 429 else StoreError
            reason = {
                403: "access denied: check the credentials, and that they allow s3:ListBucket",
                404: f"there is no bucket {self._bucket!r}",
            }.get(status, str(error))
            raise kind(reason) from error
        except SSLError as error:
            raise StoreError(str(error)) from error
        except _UNREACHABLE as error:
            raise StoreUnavailable(str(error)) from error
        except BotoCoreError as error:
            raise StoreError(str(error)) from error

    def file_access(self) -> dict[str, str]:
        """Returns endpoint, region and credentials as boto3 found them. Credentials that expire are those of now."""
        access = {"s3.endpoint": self._client.meta.endpoint_url, "s3.region": self._client.meta.region_name}
        if credentials := self._credentials():
            access |= {
                "s3.access-key-id": credentials.access_key,
                "s3.secret-access-key": credentials.secret_key,
                "s3.session-token": credentials.token,
            }
        return {name: value for name, value in access.items() if value}

    def _credentials(self) -> Any:
        credentials = self._session.get_credentials()
        return credentials and credentials.get_frozen_credentials()

    def put(self, name: str, data: bytes) -> None:
        with self._naming(name):
            self._client.put_object(Bucket=self._bucket, Key=self._prefix + name, Body=data)

    def put_file(self, name: str, path: Path, interrupted: Callable[[], bool] = never) -> None:
        """Uploads a file, unless S3 has it already.

        S3 verifies the checksum of each part that it receives. After the upload, the checksum of the object is compared
        with the checksum of the file.
        """
        with self._naming(name):
            part = max(_PART_BYTES, -(-path.stat().st_size // _MOST_PARTS))
            if self._has(
                name, path, part
            ):  # uploaded before, but the process was killed or the response was lost
                return
            self._upload(name, path, part, interrupted)
            if not self._has(name, path, part):
                raise StoreError("the object differs from the file that was uploaded")

    def read(self, name: str, offset: int, length: int) -> bytes:
        span = f"bytes={offset}-{offset + length - 1}"
        with self._naming(name):
            try:
                answer = self._client.get_object(Bucket=self._bucket, Key=self._prefix + name, Range=span)
                return bytes(answer["Body"].read())
            except ClientError as error:
                code = error.response["Error"].get("Code")
                if code == "InvalidRange":
                    return b""
                if code in ("NoSuchKey", "404"):
                    raise NoSuchObject("there is no such object") from error
                raise

    def size(self, name: str) -> int | None:
        with self._naming(name):
            head = self._head(name)
        return None if head is None else int(head["ContentLength"])

    def objects(self, prefix: str = "") -> Iterator[StoredObject]:
        with self._naming(prefix):
            pages = self._client.get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self._bucket, Prefix=self._prefix + prefix):
                for facts in page.get("Contents", ()):
                    yield StoredObject(facts["Key"].removeprefix(self._prefix), int(facts["Size"]))

    def delete(self, name: str) -> None:
        with self._naming(name):
            self._client.delete_object(Bucket=self._bucket, Key=self._prefix + name)

    @contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        """Turns errors of boto3 into StoreErrors that name the object."""
        try:
            yield
        except _UNREACHABLE as error:
            raise StoreUnavailable(f"{self.uri(name)}: {error}") from error
        except StoreError as error:
            raise type(error)(f"{self.uri(name)}: {error}") from error
        except (BotoCoreError, Boto3Error, ClientError, OSError) as error:
            raise StoreError(f"{self.uri(name)}: {error}") from error

    def _upload(self, name: str, path: Path, part: int, interrupted: Callable[[], bool]) -> None:
        def progress(_: int) -> None:
            if interrupted():
                raise StoreError("the upload was interrupted")

        progress(0)
        if path.stat().st_size > part:
            self._abort_uploads(name)
        # no threads: the threads of s3transfer would delay the end of the process
        transfer = TransferConfig(use_threads=False, multipart_threshold=part + 1, multipart_chunksize=part)
        # users set AWS_REQUEST_CHECKSUM_CALCULATION=when_required if the endpoint does not support checksums
        has_checksums = self._client.meta.config.request_checksum_calculation == "when_supported"
        self._client.upload_file(
            *(str(path), self._bucket, self._prefix + name),
            Config=transfer,
            Callback=progress,
            ExtraArgs={"ChecksumAlgorithm": "SHA256"} if has_checksums else None,
        )

    def _has(self, name: str, path: Path, part: int) -> bool:
        """Whether the object has the bytes of the file, by its checksum, else by its ETag, else by reading it."""
        head = self._head(name)
        if head is None or head["ContentLength"] != path.stat().st_size:
            return False
        if checksum := head.get("ChecksumSHA256"):
            return bool(checksum == _checksum(path, part))
        if head["ETag"].strip('"') == _etag(path, part):
            return True
        # with server-side encryption the ETag is not an MD5
        body = self._client.get_object(Bucket=self._bucket, Key=self._prefix + name)["Body"]
        with path.open("rb") as local:
            return all(chunk == local.read(len(chunk)) for chunk in body.iter_chunks(_READ_BYTES))

    def _abort_uploads(self, name: str) -> None:
        """Aborts unfinished uploads of an object: their parts cost money and appear in no listing."""
        key = self._prefix + name
        try:
            begun = self._client.list_multipart_uploads(Bucket=self._bucket, Prefix=key).get("Uploads", ())
            for upload in begun:
                if upload["Key"] == key:
                    self._client.abort_multipart_upload(
                        Bucket=self._bucket, Key=key, UploadId=upload["UploadId"]
                    )
        except ClientError as error:  # the policy forbids it, or the server does not support it
            logger.info("cannot abort unfinished uploads of %s: %s", self.uri(name), error)

    def _head(self, name: str) -> dict[str, Any] | None:
        """Returns the metadata of an object; None if it does not exist."""
        try:
            head = self._client.head_object(
                Bucket=self._bucket, Key=self._prefix + name, ChecksumMode="ENABLED"
            )
        except ClientError as error:
            if _status(error) == 404:
                return None
            raise
        return dict(head)


def _session() -> Session:
    """Returns a session with the environment and configuration files of now."""
    session = botocore.session.get_session()
    session.register_component("data_loader", _descriptions(session.get_config_variable("data_path")))
    return Session(botocore_session=session)


@cache
def _descriptions(folders: str | None) -> Loader:
    """Returns what reads the descriptions of Amazon's services, and keeps them: it takes 60 ms to read them."""
    return create_loader(folders)


def _status(error: ClientError) -> int:
    return int(error.response["ResponseMetadata"].get("HTTPStatusCode", 0))


def _checksum(path: Path, part: int) -> str:
    """Returns the ChecksumSHA256 that S3 reports for a file uploaded in parts of `part` bytes.

    For several parts it is the checksum of their checksums, followed by the number of parts.
    """
    digests = _digests(path, part, hashlib.sha256)
    whole = digests[0] if len(digests) == 1 else hashlib.sha256(b"".join(digests)).digest()
    number = f"-{len(digests)}" if len(digests) > 1 else ""
    return base64.b64encode(whole).decode() + number


def _etag(path: Path, part: int) -> str:
    """Returns the ETag that S3 reports for the same object if the ETag is computed with MD5."""
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
