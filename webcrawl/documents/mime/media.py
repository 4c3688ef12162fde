"""Audio and video by MediaInfo, from what the file says of itself: duration, codecs, tags."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pymediainfo import MediaInfo

from webcrawl.documents.document import Document
from webcrawl.documents.mime.facts import Facts, language
from webcrawl.documents.mime.sitemap import w3c_time
from webcrawl.errors import UnreadableDocument

MAX_STREAMS = 20
_TAGS = ("album", "track_name_position", "genre", "publisher", "copyright", "encoded_application")
_OF_A_STREAM = {
    # ours: MediaInfo's
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
    """Nothing is decoded; raises UnreadableDocument for what MediaInfo finds neither sound nor pictures in."""
    with document.open() as stream:
        tracks = MediaInfo.parse(stream, parse_speed=0).to_data()["tracks"]
    said: dict[str, Any] = next((track for track in tracks if track.get("track_type") == "General"), {})
    streams = [track for track in tracks if track.get("track_type") in ("Audio", "Video")][:MAX_STREAMS]
    if not streams:
        raise UnreadableDocument("is broken: there is neither sound nor a picture in it")
    return Facts(
        title=said.get("title") or said.get("track_name") or said.get("movie_name"),
        author=said.get("performer") or said.get("artist"),
        description=said.get("description") or said.get("comment"),
        language=language(next((one["language"] for one in streams if one.get("language")), None)),
        published=_time(said.get("recorded_date") or said.get("encoded_date")),
        details={
            "format": said.get("format"),
            "duration": _seconds(said.get("duration")),
            "bit_rate": said.get("overall_bit_rate"),
            "tags": {name: said.get(name) for name in _TAGS},
            "streams": [_stream(track) for track in streams],
        },
    )


def _stream(track: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": track["track_type"].lower(),
        "duration": _seconds(track.get("duration")),
        **{ours: track.get(theirs) for ours, theirs in _OF_A_STREAM.items()},
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
    """MediaInfo's times: "2026", "2026-11-21", "2026-11-21 10:00:00 UTC"."""
    if not isinstance(text, str):
        return None
    time = w3c_time(text.removesuffix(" UTC").removeprefix("UTC ").strip())
    return time.astimezone(UTC) if time else None
