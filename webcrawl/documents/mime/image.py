"""Reads size, format, EXIF and a perceptual hash of images with Pillow, and title, description and text of SVG."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from PIL import ExifTags, Image, UnidentifiedImageError

from webcrawl.config.libraries import missing
from webcrawl.documents.document import Document
from webcrawl.documents.mime.facts import Facts, collapsed
from webcrawl.documents.mime.xml import first_texts, local, parse
from webcrawl.errors import UnreadableDocument

MAX_PIXELS = 50_000_000
"""The most pixels; larger images are not decoded and have no hash."""

_HEIF = frozenset({"image/heic", "image/heif", "image/heic-sequence", "image/heif-sequence"})
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "ICO", "AVIF", "JPEG2000")
_SHOWN = (
    "Make",
    "Model",
    "LensModel",
    "Software",
    "Copyright",
    "Orientation",
    "ISOSpeedRatings",
    "FocalLength",
)
_LENGTH = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:px\s*)?$")


def read(document: Document) -> Facts:
    """Returns the facts of an image; raises UnreadableDocument if it is broken or declares an absurd size."""
    if document.mime_type == "image/svg+xml":
        return _read_svg(document)
    formats = (*_FORMATS, _heif()) if document.mime_type in _HEIF else _FORMATS
    # headers are always read; `_hash` limits the pixels that are decoded
    Image.MAX_IMAGE_PIXELS = None
    try:
        image = Image.open(document.open(), formats=formats)
    except (UnidentifiedImageError, Image.DecompressionBombError) as error:
        # Pillow's message ends with the address of an object
        raise UnreadableDocument(f"is broken: {str(error).partition(' <')[0]}") from error
    with image:
        exif = _exif(image)
        details: dict[str, Any] = {
            "width": image.width,
            "height": image.height,
            "format": image.format,
            "mode": image.mode,
            "frames": _frames(image),
            "exif": {name: _plain(exif[name]) for name in _SHOWN if name in exif},
            **_hash(image),
        }
        return Facts(
            title=collapsed(exif.get("ImageDescription"), 1_000),
            author=collapsed(exif.get("Artist"), 1_000),
            published=_exif_time(exif.get("DateTimeOriginal") or exif.get("DateTime")),
            details=details,
        )


def _heif() -> str:
    """Returns the name of the format after loading its optional library; raises UnreadableDocument without it."""
    try:
        import pillow_heif
    except ImportError:
        raise UnreadableDocument(str(missing("HEIF", "pillow-heif", "heif"))) from None
    pillow_heif.register_heif_opener(thumbnails=False, decode_threads=1)
    return "HEIF"


def difference_hash(image: Image.Image) -> str:
    """Returns a perceptual hash of 64 bits as 16 hexadecimal digits.

    The image is reduced to 9 x 8 grey pixels; each bit tells whether a pixel is brighter than its right neighbour
    (N. Krawetz, "Kind of Like That", 2013). The number of different bits is the distance of two images.
    """
    small = image.convert("L").resize((9, 8), Image.Resampling.BILINEAR)
    pixels = small.tobytes()
    bits = 0
    for row in range(8):
        for column in range(8):
            pixel = row * 9 + column
            bits = bits << 1 | (pixels[pixel] > pixels[pixel + 1])
    return f"{bits:016x}"


def _hash(image: Image.Image) -> dict[str, Any]:
    if image.width * image.height > MAX_PIXELS:
        return {"cut": True}
    try:
        image.draft("L", (64, 64))  # decodes a JPEG at an eighth of its size
        return {"dhash": difference_hash(image)}
    except (OSError, SyntaxError, ValueError, EOFError, IndexError):
        return {"broken": True}


def _frames(image: Image.Image) -> int | None:
    try:
        frames = getattr(image, "n_frames", 1)
        image.seek(0)
    except (OSError, EOFError, SyntaxError, ValueError):
        return None
    return frames if frames > 1 else None


def _exif(image: Image.Image) -> dict[str, Any]:
    """Returns EXIF values by name, without damaged ones."""
    if image.format == "PNG" and image.width * image.height > MAX_PIXELS:
        return {}  # Pillow would decode the image to find it
    try:
        exif = image.getexif()
        tags = {**exif, **exif.get_ifd(ExifTags.IFD.Exif)}
    except MemoryError:
        raise
    except Exception:  # Pillow raises many kinds of exceptions for damaged EXIF
        return {}
    named = {ExifTags.TAGS[tag]: value for tag, value in tags.items() if tag in ExifTags.TAGS}
    return {name: value.rstrip("\0") if isinstance(value, str) else value for name, value in named.items()}


def _plain(value: object) -> str | int | float | None:
    if isinstance(value, int | str):
        return value
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        return None


def _exif_time(value: object) -> datetime | None:
    try:
        return datetime.strptime(str(value).strip("\0 "), "%Y:%m:%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return None


def _read_svg(document: Document) -> Facts:
    root = parse(document.body)
    if local(root) != "svg":
        raise UnreadableDocument("is broken: it is not SVG")
    texts: Mapping[str, str] = first_texts(root)
    size = {name: _LENGTH.match(str(root.get(name, ""))) for name in ("width", "height")}
    return Facts(
        title=texts.get("title"),
        description=texts.get("desc"),
        text=" ".join("".join(element.itertext()) for element in root.iter() if local(element) == "text")
        or None,
        details={"format": "SVG", **{name: float(match[1]) for name, match in size.items() if match}},
    )
