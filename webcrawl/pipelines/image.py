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
    extras = {
        mime_type: "heif" if mime_type.startswith("image/hei") else "images"
        for mime_type in types
        if mime_type != "image/svg+xml"
    }
    reader = "webcrawl.documents.mime.image:read"
