"""Audio and video, from handwritten headers without content."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest

from tests.cases import cases
from tests.documents import mp3, mp4, wav, webm
from webcrawl.documents.mime.facts import Facts
from webcrawl.documents.mime.media import MOST_IN_A_ROW, BoundedStream
from webcrawl.errors import UnreadableDocument

Read = Callable[..., Facts]
READER = "webcrawl.documents.mime.media:read"
VIDEO = {"kind": "video", "width": 320, "height": 240}


@cases(
    ("body", "mime_type", "duration", "stream"),
    [
        (mp4(7), "video/mp4", 7.0, {**VIDEO, "codec": "AVC", "duration": 7.0}),
        (webm(5), "video/webm", 5.0, {**VIDEO, "codec": "VP9"}),
        (wav(2), "audio/wave", 2.0, {"kind": "audio", "codec": "PCM", "channels": 2, "sampling_rate": 8_000}),
        (mp3(), "audio/mpeg", 2.6, {"kind": "audio", "codec": "MPEG Audio", "bit_rate": 128_000}),
    ],
    ids=["mp4", "webm", "wav", "mp3"],
)
def test_duration_and_codec_are_read(
    body: bytes, mime_type: str, duration: float, stream: dict[str, object], read: Read
) -> None:
    facts = read(READER, body, mime_type)
    assert facts.details["duration"] == pytest.approx(duration, abs=0.05)
    streams = facts.details["streams"]
    assert isinstance(streams, list) and len(streams) == 1 and isinstance(streams[0], dict)
    assert streams[0].items() >= stream.items()


def test_tags_are_read(read: Read) -> None:
    facts = read(READER, mp3("A song", "A. Singer"), "audio/mpeg")
    assert (facts.title, facts.author) == ("A song", "A. Singer")
    assert read(READER, webm(), "video/webm").title == "Clip"


def test_header_of_a_truncated_file_is_enough(read: Read) -> None:
    facts = read(READER, wav(60)[:2_000], "audio/wave")
    assert facts.details["duration"] == pytest.approx(60, abs=1) or facts.details["streams"]


@pytest.mark.parametrize("body", [b"", b"nothing to hear here", mp4()[:150]], ids=["empty", "text", "cut"])
def test_broken_media_file_is_refused(body: bytes, read: Read) -> None:
    with pytest.raises(UnreadableDocument, match="is broken"):
        read(READER, body, "video/mp4")


def test_a_bounded_part_of_an_unknown_format_is_read() -> None:
    stream = BoundedStream(io.BytesIO(b"x" * (2 * MOST_IN_A_ROW + 10)))
    for start, size in ((0, MOST_IN_A_ROW), (MOST_IN_A_ROW + 10, MOST_IN_A_ROW), (2 * MOST_IN_A_ROW, 10)):
        stream.seek(start)
        assert sum(map(len, iter(lambda: stream.read(65_536), b""))) == size
