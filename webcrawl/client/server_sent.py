"""Reads server-sent events, as the HTML Standard describes them in "Interpreting an event stream"."""

from __future__ import annotations

from typing import NamedTuple


class ServerSentEvent(NamedTuple):
    """An event. `id` is the last ID of the stream, which may be that of an earlier event."""

    event: str
    data: str
    id: str


class EventStreamReader:
    """Makes events of lines; `last_id` is what a new connection continues after."""

    def __init__(self, last_id: str = "") -> None:
        self.last_id = self._id = last_id
        self._event = ""
        self._data: list[str] = []

    def feed(self, line: str) -> ServerSentEvent | None:
        """Takes a line without its end; returns the event that it completes."""
        if not line:
            # only now: a connection may end between the lines of an event
            self.last_id = self._id
            data, event = self._data, self._event or "message"
            self._data, self._event = [], ""
            return ServerSentEvent(event, "\n".join(data), self.last_id) if data else None
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self._id = value
        return None
