"""Reads archives: their lists of members."""

from __future__ import annotations

from webcrawl.crawler.pages.mime_pipeline import MimePipeline


class ArchivePipeline(MimePipeline):
    """Lists the members of zip, RAR and tar archives; names the format of 7z archives and other packed files."""

    _rar = ("application/vnd.rar", "application/x-rar", "application/x-rar-compressed")
    types = frozenset(_rar) | frozenset(
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
        ]
    )
    extras = dict.fromkeys(_rar, "documents")
    reader = "webcrawl.documents.mime.archive:read"
