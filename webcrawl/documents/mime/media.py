"""Reads the headers of audio and video with MediaInfo: duration, codecs, tags."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any, BinaryIO

from pymediainfo import MediaInfo

from webcrawl.documents.document import Document
from webcrawl.documents.mime.facts import Facts, language
from webcrawl.documents.mime.sitemap import w3c_time
from webcrawl.errors import UnreadableDocument

MAX_STREAMS = 20
MOST_IN_A_ROW = 4 * 1024 * 1024
"""The most bytes that MediaInfo reads in a row; it seeks in formats that it knows."""
_TAGS = ("album", "track_name_position", "genre", "publisher", "copyright", "encoded_application")
_STREAM_KEYS = {
    # our name: MediaInfo's name
    "codec": "format",
    "profile": "format_profile",
    "width": "width",
    "height": "height",
    "channels": "channel_s",
    "sampling_rate": "sampling_rate",
    "bit_rate": "bit_rate",
    "language": "language",
}


def read(document: Document) -> Facts:
    """Returns the facts of audio or video without decoding it; raises UnreadableDocument if it has no streams."""
    with document.open() as stream:
        tracks = MediaInfo.parse(BoundedStream(stream), parse_speed=0).to_data()["tracks"]
    general: dict[str, Any] = next((track for track in tracks if track.get("track_type") == "General"), {})
    streams = [track for track in tracks if track.get("track_type") in ("Audio", "Video")][:MAX_STREAMS]
    if not streams:
        raise UnreadableDocument("is broken: it has neither an audio nor a video stream")
    return Facts(
        title=general.get("title") or general.get("track_name") or general.get("movie_name"),
        author=general.get("performer") or general.get("artist"),
        description=general.get("description") or general.get("comment"),
        language=language(next((track["language"] for track in streams if track.get("language")), None)),
        published=_time(general.get("recorded_date") or general.get("encoded_date")),
        details={
            "format": general.get("format"),
            "duration": _seconds(general.get("duration")),
            "bit_rate": general.get("overall_bit_rate"),
            "tags": {name: general.get(name) for name in _TAGS},
            "streams": [_stream(track) for track in streams],
        },
    )


class BoundedStream:
    """A stream that ends after `MOST_IN_A_ROW` bytes, until it is sought.

    MediaInfo keeps what it does not recognise, seven bytes of memory for one.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._left = MOST_IN_A_ROW

    def read(self, size: int) -> bytes:
        """Returns the next bytes."""
        data = self._stream.read(min(size, self._left))
        self._left -= len(data)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Moves to another position, from which as many bytes can be read again."""
        self._left = MOST_IN_A_ROW
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        """Returns the position."""
        return self._stream.tell()


def _stream(track: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": track["track_type"].lower(),
        "duration": _seconds(track.get("duration")),
        **{ours: track.get(theirs) for ours, theirs in _STREAM_KEYS.items()},
        "frame_rate": _number(track.get("frame_rate")) if track["track_type"] == "Video" else None,
    }


def _seconds(milliseconds: object) -> float | None:
    number = _number(milliseconds)
    return None if number is None else round(number / 1000, 3)


def _number(text: object) -> float | None:
    try:
        return float(text)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None


def _time(text: object) -> datetime | None:
    """Parses a time of MediaInfo: "2026", "2026-11-21" or "2026-11-21 10:00:00 UTC"."""
    if not isinstance(text, str):
        return None
    time = w3c_time(text.removesuffix(" UTC").removeprefix("UTC ").strip())
    return time.astimezone(UTC) if time else None
