"""Archives: what is in them, without unpacking it."""

from __future__ import annotations

from webcrawl.crawler.pages.mime_pipeline import MimePipeline


class ArchivePipeline(MimePipeline):
    """Lists the members of zip, 7z, RAR and tar archives, and says of other packed files what they are."""

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
