"""Reads archives: their lists of members."""

from __future__ import annotations

from webcrawl.crawler.pages.mime_pipeline import MimePipeline


class ArchivePipeline(MimePipeline):
    """Lists the members of zip, RAR and tar archives; names the format of 7z archives and other packed files."""

    types = frozenset(
        f"application/{name}"
        for name in [
            "zip",
            "x-zip-compressed",
            "x-tar",
            "gzip",
            "x-gzip",
            "x-bzip2",
            "x-bzip",
            "x-xz",
            "x-gtar",
            "x-compressed-tar",
            "x-7z-compressed",
            "vnd.rar",
            "x-rar",
            "x-rar-compressed",
        ]
    )
    reader = "webcrawl.documents.mime.archive:read"
