"""Reads images: size, format, EXIF and perceptual hash."""

from __future__ import annotations

from webcrawl.crawler.pages.mime_pipeline import MimePipeline


class ImagePipeline(MimePipeline):
    """Reads images."""

    types = frozenset(
        f"image/{name}"
        for name in (
            [
                "png",
                "jpeg",
                "gif",
                "webp",
                "bmp",
                "tiff",
                "avif",
                "heic",
                "heif",
                "heic-sequence",
                "heif-sequence",
                "x-icon",
                "vnd.microsoft.icon",
                "svg+xml",
                "jp2",
                "apng",
            ]
        )
    )
    reader = "webcrawl.documents.mime.image:read"
