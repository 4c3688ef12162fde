"""Images: header facts, perceptual hashes, and decompression bombs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from PIL import Image

from tests.cases import cases
from tests.documents import entity_bomb, image, png_bomb
from webcrawl.documents.document import Document
from webcrawl.documents.mime.facts import Facts
from webcrawl.documents.mime.reader import call
from webcrawl.errors import UnreadableDocument

Read = Callable[..., Facts]
READER = "webcrawl.documents.mime.image:read"


@cases("format", ["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "AVIF", "HEIF"])
def test_size_format_and_hash_are_read(format: str, read: Read) -> None:
    facts = read(READER, image(format, (64, 48)), f"image/{format.lower()}")
    assert (facts.details["width"], facts.details["height"], facts.details["format"]) == (64, 48, format)
    dhash = facts.details["dhash"]
    assert isinstance(dhash, str)
    assert int(dhash, 16).bit_count() >= 60, "each column is darker than its left neighbour"


def test_similar_images_have_similar_hashes(read: Read) -> None:
    def hash_of(body: bytes) -> int:
        return int(str(read(READER, body, "image/png").details["dhash"]), 16)

    one, smaller = hash_of(image("PNG", (640, 480))), hash_of(image("JPEG", (200, 150), quality=30))
    assert (one ^ smaller).bit_count() <= 4
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Image, "linear_gradient", lambda mode: Image.radial_gradient(mode))
        other = hash_of(image("PNG", (640, 480)))
    assert (one ^ other).bit_count() > 16


# HEIF stores the rotation elsewhere, and its library applies it
@pytest.mark.parametrize(
    ("format", "mime_type", "orientation"), [("JPEG", "image/jpeg", 6), ("HEIF", "image/heic", 1)]
)
def test_exif_is_read(format: str, mime_type: str, orientation: int, read: Read) -> None:
    exif = Image.Exif()
    exif.update({0x010E: "A view\0", 0x013B: "A. Painter", 0x010F: "Camera Inc.", 0x0112: 6})
    exif.get_ifd(0x8769)[0x9003] = "2026:11:20 09:00:00"
    facts = read(READER, image(format, exif=exif.tobytes()), mime_type)
    assert (facts.title, facts.author) == ("A view", "A. Painter")
    assert facts.published == datetime(2026, 11, 20, 9, tzinfo=UTC)
    assert facts.details["exif"] == {"Make": "Camera Inc.", "Orientation": orientation}


def test_frames_of_an_animation_are_counted(read: Read) -> None:
    frames = [Image.new("L", (9, 9), shade) for shade in (0, 100, 200)]
    body = image("GIF", (9, 9), save_all=True, append_images=frames)
    assert read(READER, body, "image/gif").details["frames"] == 4


def test_image_with_too_many_pixels_is_not_decoded(read: Read) -> None:
    facts = read(READER, png_bomb(), "image/png")
    assert facts.details == {"width": 65_000, "height": 65_000, "format": "PNG", "mode": "RGB", "cut": True}


def test_truncated_image_has_its_size(read: Read) -> None:
    facts = read(READER, image("JPEG", (200, 100))[:500], "image/jpeg")
    assert (facts.details["width"], facts.details["broken"]) == (200, True)


def test_missing_library_is_named_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(UnreadableDocument, match=r"HEIF needs pillow-heif: \S+ -m pip install 'pillow-heif"):
        call(READER, Document(image("PNG"), "image/heic", None, "http://site.example/"))


def test_svg_is_read(read: Read) -> None:
    body = (
        b"<svg xmlns='http://www.w3.org/2000/svg' width='30px' height='100%'><title>A sign</title>"
        b"<desc>It says stop</desc><g><text>St<tspan>op</tspan></text></g></svg>"
    )
    facts = read(READER, body, "image/svg+xml")
    assert (facts.title, facts.description, facts.text) == ("A sign", "It says stop", "Stop")
    assert facts.details == {"format": "SVG", "width": 30.0}


@cases(
    ("body", "mime_type"),
    [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"", "image/gif"),
        (entity_bomb("svg"), "image/svg+xml"),
        (b"<html/>", "image/svg+xml"),
        # Pillow would run PostScript with Ghostscript
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n", "image/png"),
    ],
    ids=["cut", "empty", "entities", "html", "postscript"],
)
def test_broken_image_is_refused(body: bytes, mime_type: str, read: Read) -> None:
    with pytest.raises(UnreadableDocument, match="is broken"):
        read(READER, body, mime_type)
